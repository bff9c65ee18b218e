"""The limit on attachments: counted where rows are born and end, in their transaction."""
import threading

import sqlalchemy as sa

from blockattach import errors
from blockattach.db import attachments
from blockattach.db import quotas
from blockattach.db.models import quota
from blockattach.domain import attachment_lifecycle as lifecycle
from blockattach.tests.db import base
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import patience

E = lifecycle.Event
JOIN_SECONDS = patience.LIMIT


@base.on_every_database
class AttachmentQuotaTest(base.DatabaseTestCase):

    def limit(self, number):
        self.database.attachment_quota = quotas.AttachmentQuota(number)

    def reserve(self, volume):
        return attachments.reserve(self.database, attachments.Wish(
            volume.id, volume.project_id), 0)

    def counted(self):
        with self.database.reader() as connection:
            return connection.execute(sa.select(quota.usages.c.in_use)).scalars().all()

    def test_without_a_limit_nothing_is_counted(self):
        volume = make.volume(self.database, multiattach=True)
        make.move(self.database, self.reserve(volume), E.RELEASE)
        self.assertEqual([], self.counted())

    def test_as_many_as_there_may_be(self):
        volume = make.volume(self.database, multiattach=True)
        before = self.reserve(volume)
        self.limit(3)
        rows = [self.reserve(volume) for _ in range(2)]
        self.assertEqual([3], self.counted())
        with self.assertRaises(errors.QuotaExceeded) as caught:
            self.reserve(volume)
        self.assertIn("for quota 'attachments'", str(caught.exception))
        self.assertEqual([3], self.counted())
        for row in (before, *rows):
            make.move(self.database, row, E.RELEASE)
        self.assertEqual([0], self.counted())
        self.reserve(volume)

    def test_the_first_that_goes_begins_the_count_right(self):
        volume = make.volume(self.database, multiattach=True)
        rows = [self.reserve(volume) for _ in range(3)]
        self.limit(5)
        make.move(self.database, rows[0], E.RELEASE)
        self.assertEqual([2], self.counted())

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
        self.assertEqual([5], self.counted())

    def test_a_limit_that_is_lifted_forgets(self):
        volume = make.volume(self.database, multiattach=True)
        self.limit(5)
        self.reserve(volume)
        self.limit(quotas.UNLIMITED)
        with self.database.writer() as connection:
            self.database.attachment_quota.forget(connection)
        self.assertEqual([], self.counted())
