"""Overview of attachments and overdue work on each database."""
from blockattach.storage.db import work
from blockattach.storage.db.attachments import attachments
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import attachment_lifecycle as lifecycle
from blockattach.tests.db import base
from blockattach.tests.fixtures import clock
from blockattach.tests.fixtures import make

S = lifecycle.State

@base.on_sqlite_and_servers_in_turn
class OverviewTest(base.DatabaseTestCase):

    def test_overview_of_empty_database(self):
        found = work.overview(self.database)
        self.assertEqual(({}, {}, {}), found)
        self.assertEqual({'attachment': 0, 'snapshot': 0, 'volume': 0}, found.overdue)

    def test_overview_counts_live_attachments_by_state(self):
        volume = make.volume(self.database, multiattach=True)
        for state in (S.RESERVED, S.RESERVED, S.CONNECTING, S.GONE):
            row = make.attachment(self.database, volume, state)
            if state is S.CONNECTING:
                connecting = row
        self.assertEqual({'reserved': 2, 'connecting': 1},
                         work.overview(self.database).attachments)
        make.move(self.database, connecting, lifecycle.Event.CONNECTED)
        self.assertEqual({'reserved': 2, 'connected': 1},
                         work.overview(self.database).attachments)

    def test_overview_shows_age_of_oldest_transitional_row(self):
        volume = make.volume(self.database, multiattach=True)
        manual = clock.ManualClock()
        later = self.fixture.open(manual)
        for state in (S.RESERVED, S.CONNECTING):
            make.attachment(later, volume, state)
        manual.advance(30)
        make.attachment(later, volume, S.CONNECTING)
        manual.advance(10)
        # An attachment that waits for its consumer is not reported, whatever its age.
        self.assertEqual({'connecting': 40}, work.overview(later).oldest)

    def test_overview_shows_age_of_row_created_connecting(self):
        manual = clock.ManualClock()
        later = self.fixture.open(manual)
        volume = make.volume(self.database)
        attachments.reserve(later, attachments.Wish(
            volume.id, make.PROJECT, connector=make.connector()), 60)
        manual.advance(7)
        self.assertEqual({'connecting': 7}, work.overview(later).oldest)

    def test_overview_counts_overdue_work(self):
        volume = make.volume(self.database, multiattach=True)
        for lease in (-1, 600):
            attachments.reserve(self.database, attachments.Wish(
                volume.id, make.PROJECT, connector=make.connector()), lease)
        deleting = make.volume(self.database)
        volumes.start_delete(self.database, deleting, -1)
        found = work.overview(self.database)
        self.assertEqual({'attachment': 1, 'snapshot': 0, 'volume': 1}, found.overdue)
        self.assertEqual({('attachment', 'connect', 'overdue'): 1,
                          ('attachment', 'connect', 'running'): 1,
                          ('volume', 'delete', 'overdue'): 1}, found.work)
