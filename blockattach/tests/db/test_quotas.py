"""The limit on attachments: checked where rows are inserted, in their transaction."""
import threading

import sqlalchemy as sa

from blockattach import errors
from blockattach.db import quotas
from blockattach.db.attachments import attachments
from blockattach.domain import attachment_lifecycle as lifecycle
from blockattach.domain import records
from blockattach.tests.db import base
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import polling

E = lifecycle.Event
JOIN_SECONDS = polling.LIMIT


@base.on_every_database
class AttachmentQuotaTest(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.counts = []

        def look(connection, cursor, statement, *rest):
            if 'count(' in statement and 'attachments' in statement:
                self.counts.append(statement)
        sa.event.listen(self.database.engine, 'before_cursor_execute', look)

    def limit(self, number):
        self.database.attachment_limit = number

    def reserve(self, volume):
        return attachments.reserve(self.database, attachments.Wish(
            volume.id, volume.project_id), 0)

    def test_as_many_as_there_may_be(self):
        volume = make.volume(self.database, multiattach=True)
        before = self.reserve(volume)
        self.limit(3)
        rows = [self.reserve(volume) for _ in range(2)]
        with self.assertRaises(errors.QuotaExceeded) as caught:
            self.reserve(volume)
        self.assertIn("for quota 'attachments'", str(caught.exception))
        for row in (before, *rows):
            make.move(self.database, row, E.RELEASE)
            self.reserve(volume)
            self.assertRaises(errors.QuotaExceeded, self.reserve, volume)

    def test_far_from_the_limit_few_are_counted(self):
        volume = make.volume(self.database, multiattach=True)
        for limit, most in ((quotas.MARGIN + 100, 1 + 20 // quotas.UNCOUNTED),
                            (quotas.MARGIN, 20)):
            self.limit(limit)
            before = len(self.counts)
            for _ in range(20):
                self.reserve(volume)
            self.assertEqual(most, len(self.counts) - before)

    def test_a_limit_of_its_own(self):
        volume = make.volume(self.database, multiattach=True)
        self.limit(3)
        for limit, refused in ((0, True), (1, False), (1, True), (quotas.UNLIMITED, False),
                               (2, True), (None, False), (None, True)):
            quotas.change(self.database, volume.project_id, limit)
            with self.subTest(limit=limit, refused=refused):
                if refused:
                    self.assertRaises(errors.QuotaExceeded, self.reserve, volume)
                else:
                    self.reserve(volume)
        self.assertEqual(records.QuotaSet(volume.project_id, 3, 3),
                         quotas.get(self.database, volume.project_id))
        self.assertEqual(records.QuotaSet('another', 3, 0),
                         quotas.get(self.database, 'another'))

    def test_many_at_once_get_no_more_than_there_are(self):
        volumes = [make.volume(self.database, multiattach=True) for _ in range(3)]
        self.limit(5)
        start = threading.Barrier(12)
        outcomes = []

        def run(volume):
            start.wait(JOIN_SECONDS)
            try:
                self.reserve(volume)
                outcomes.append(True)
            except errors.QuotaExceeded:
                outcomes.append(False)
        threads = [threading.Thread(target=run, args=(volumes[number % 3],))
                   for number in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(JOIN_SECONDS)
        self.assertEqual((5, 7), (outcomes.count(True), outcomes.count(False)))
