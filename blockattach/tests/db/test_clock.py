"""Deadlines, which follow the clock of the database and not that of a process."""
import datetime

import sqlalchemy as sa

from blockattach.platform import clock as clocks
from blockattach.platform.db import clock
from blockattach.storage.db import work
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.db.attachments import attachments
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import attachment_lifecycle as lifecycle
from blockattach.storage.domain import volume_lifecycle
from blockattach.tests.db import base
from blockattach.tests.fixtures import clock as testing_clock
from blockattach.tests.fixtures import make

HOST = 'storage-1@file'
YEARS = (datetime.datetime(1999, 1, 1), datetime.datetime(2099, 1, 1))
MILLISECOND = datetime.timedelta(milliseconds=1)


@base.on_sqlite_and_servers_in_turn
class DatabaseTimeTest(base.DatabaseTestCase):

    def read(self, *offsets):
        with self.database.reader() as connection:
            return list(connection.execute(
                sa.select(*(clock.now(offset) for offset in offsets))).one())

    def test_database_time_is_utc(self):
        before = clocks.Clock().utcnow()
        [now] = self.read(0)
        self.assertIsNone(now.tzinfo)
        # The database servers of the tests run on this machine, or on one with a correct clock.
        self.assertLess(abs(now - before), datetime.timedelta(minutes=5))

    def test_time_offset_in_seconds_and_fractions(self):
        offsets = (5, -5, 0.25, -0.25, 86400, -3600.5, 1e-5, -1e-5, 1e6)
        start, *found = self.read(0, *offsets)
        for offset, moment in zip(offsets, found, strict=True):
            self.assertLessEqual(
                abs(moment - start - datetime.timedelta(seconds=offset)), 2 * MILLISECOND, offset)

    def test_cached_statement_uses_new_offset(self):
        for offset in (60, -60, 60):
            [start], [moved] = self.read(0), self.read(offset)
            self.assertEqual(offset > 0, moved > start)

    def test_fractions_of_second_stored(self):
        """A column without fractions would shift a deadline by up to a second."""
        row = make.attachment(self.database, state=lifecycle.State.RESERVED)
        found = attachment_queries.get(self.database, row.id)
        self.assertEqual(row.created_at, found.created_at)
        manual = testing_clock.ManualClock()
        seen = self.fixture.open(manual)
        for _ in range(20):
            made = make.volume(seen, own_status=volume_lifecycle.OwnStatus.CREATING)
            self.assertEqual(manual.utcnow(), made.created_at)
            manual.advance(0.037001)


@base.on_sqlite_and_servers_in_turn
class DeadlineTest(base.DatabaseTestCase):

    def with_wrong_clocks(self):
        """Yield the database as seen by processes whose clocks are far off."""
        for year in YEARS:
            yield self.fixture.open(testing_clock.ManualClock(year))

    def reserve(self, seen, seconds):
        volume = make.volume(seen)
        return attachments.reserve(seen, attachments.Wish(
            volume.id, volume.project_id, connector=make.connector()), seconds)

    def test_attachment_overdue_by_database_clock(self):
        for seen in self.with_wrong_clocks():
            late, early = self.reserve(seen, -5), self.reserve(seen, 60)
            found = {row.id for row in attachment_queries.interrupted(seen, HOST)}
            self.assertIn(late.id, found)
            self.assertNotIn(early.id, found)

    def test_new_lease_postpones_deadline(self):
        for seen in self.with_wrong_clocks():
            row = self.reserve(seen, -5)
            attachments.move(seen, row.volume_id, row.id, lifecycle.Event.DISCONNECT,
                             attachments.Facts(lease_seconds=60))
            self.assertEqual([], attachment_queries.interrupted(seen, HOST))
            attachments.move(seen, row.volume_id, row.id, lifecycle.Event.DISCONNECT,
                             attachments.Facts(lease_seconds=0))
            attachments.move(seen, row.volume_id, row.id, lifecycle.Event.DISCONNECT,
                             attachments.Facts(lease_seconds=-5))
            [found] = attachment_queries.interrupted(seen, HOST)
            self.assertEqual((row.id, HOST), (found.id, found.owner))
            attachments.move(seen, row.volume_id, row.id, lifecycle.Event.DISCONNECTED)

    def test_volume_work_overdue_by_database_clock(self):
        for seen in self.with_wrong_clocks():
            for seconds, expected in ((-5, True), (60, False)):
                volume = make.volume(seen)
                volumes.start_delete(seen, volume, seconds)
                found = {found.resource_id for found in work.due(seen, HOST)}
                self.assertEqual(expected, volume.id in found)

    def test_unplaced_volume_overdue_by_database_clock(self):
        for seen in self.with_wrong_clocks():
            volume = make.volume(seen, own_status=volume_lifecycle.OwnStatus.CREATING)
            self.assertNotIn(volume.id, self.unplaced(seen))
            volumes.unclaim(seen, volume.id, volume.generation, -5)
            self.assertIn(volume.id, self.unplaced(seen))

    def unplaced(self, seen):
        return {found.resource_id for found in work.due(seen, None)}
