"""Snapshots in the database: concurrent writers, stale processes, and purge."""
import datetime

from blockattach.platform import errors
from blockattach.platform.db import paging
from blockattach.storage.db import derived
from blockattach.storage.db import models
from blockattach.storage.db import purging
from blockattach.storage.db import work
from blockattach.storage.db import work_ends
from blockattach.storage.db.snapshots import reverts
from blockattach.storage.db.snapshots import snapshot_queries
from blockattach.storage.db.snapshots import snapshots
from blockattach.storage.db.volumes import volumes
from blockattach.tests.db import base
from blockattach.tests.fixtures import clock
from blockattach.tests.fixtures import make

ROUNDS = 12
WITH_SNAPSHOTS = volumes.WithSnapshots(True)


class SnapshotCase(base.DatabaseTestCase):

    def ask(self, volume, **more):
        """Create the row of a snapshot that the backend has not created yet."""
        return snapshots.create(self.database, snapshots.Draft(
            volume, make.PROJECT, make.USER, None, None, {'k': 'v'}, **more), 60)

    def made(self, volume):
        """Return a new snapshot that is available."""
        found = self.ask(volume)
        work_ends.finish(self.database, snapshots.creation(found.id, found.generation))
        return snapshot_queries.get(self.database, found.id)

    def status(self, snapshot):
        found = snapshot_queries.find(self.database, snapshot.id)
        return 'gone' if found is None else found.status

    def delete(self, snapshot):
        """Start the delete of a snapshot and return its claim."""
        deleting = snapshots.start_delete(self.database, snapshot, 60)
        return snapshots.deletion(deleting.id, deleting.generation)


@base.on_every_server
class RaceTest(SnapshotCase):

    def at_once(self, *acts):
        """Run the functions at once and return 'done' or the error class of each."""
        return [one if isinstance(one, str) else 'done' for one in base.names(
            base.at_once(*acts))]

    def test_concurrent_volume_delete_and_snapshot_exclude_each_other(self):
        for _ in range(ROUNDS):
            volume = make.volume(self.database)
            outcomes = self.at_once(
                lambda volume=volume: self.ask(volume),
                lambda volume=volume: volumes.start_delete(self.database, volume, 60))
            self.assertIn(outcomes, (['done', 'InvalidVolume'], ['InvalidVolume', 'done']))

    def test_concurrent_snapshot_deletes_succeed_once(self):
        for _ in range(ROUNDS):
            found = self.made(make.volume(self.database))
            outcomes = self.at_once(*[lambda found=found: self.delete(found)] * 2)
            self.assertEqual(['InvalidSnapshot', 'done'], sorted(outcomes))

    def test_concurrent_snapshot_and_cascade_delete_exclude_each_other(self):
        for _ in range(ROUNDS):
            volume = make.volume(self.database)
            found = self.made(volume)
            outcomes = self.at_once(
                lambda found=found: self.delete(found),
                lambda volume=volume: volumes.start_delete(
                    self.database, volume, 60, with_snapshots=WITH_SNAPSHOTS))
            self.assertIn(outcomes, (['done', 'InvalidVolume'], ['InvalidSnapshot', 'done']))

    def test_concurrent_revert_and_snapshot_delete_exclude_each_other(self):
        for _ in range(ROUNDS):
            volume = make.volume(self.database)
            found = self.made(volume)
            outcomes = self.at_once(
                lambda found=found: self.delete(found),
                lambda volume=volume, found=found: reverts.start(
                    self.database, volume, found.id, 60))
            self.assertIn(outcomes, (['done', 'NotRevertible'], ['InvalidSnapshot', 'done']))

    def test_concurrent_metadata_updates_keep_each_key(self):
        found = self.ask(make.volume(self.database))
        self.at_once(*[lambda key=key: snapshots.change_metadata(
            self.database, found, lambda now, key=key: {**now, key: '1'}) for key in 'abcd'])
        self.assertEqual({'k', *'abcd'},
                         snapshot_queries.get(self.database, found.id).metadata.keys())


@base.on_sqlite_and_servers_in_turn
class OvertakenTest(SnapshotCase):

    def test_stale_owner_of_snapshot_changes_nothing(self):
        found = self.ask(make.volume(self.database))
        old = snapshots.creation(found.id, found.generation)
        work.take(self.database, work.of_resource(self.database, 'snapshot', found.id), 'b', 60)
        with self.assertRaises(errors.StaleGeneration):
            work_ends.finish(self.database, old._replace(owner='a'))
        work_ends.finish(self.database, old._replace(owner='b'))
        deletion = self.delete(snapshot_queries.get(self.database, found.id))
        for end in (work_ends.finish, work_ends.fail):
            with self.assertRaises(errors.StaleGeneration):
                end(self.database, old)
        self.assertEqual('deleting', self.status(found))
        work_ends.finish(self.database, deletion)
        for end in (work_ends.finish, work_ends.fail):
            with self.assertRaises(errors.StaleGeneration):
                end(self.database, deletion)
        with self.assertRaises(errors.StaleGeneration):
            work_ends.finish(self.database, old)

    def test_stale_owner_of_volume_deletes_no_snapshot(self):
        volume = make.volume(self.database)
        found = self.made(volume)
        volumes.start_delete(self.database, volume, 60, with_snapshots=WITH_SNAPSHOTS)
        claim = work.of_resource(self.database, 'volume', volume.id).claim
        for other in (claim._replace(generation=claim.generation - 1),
                      claim._replace(owner='x')):
            with self.assertRaises(errors.StaleGeneration):
                snapshots.deleted_with(self.database, other, found.id)
        self.assertEqual('deleting', self.status(found))
        snapshots.deleted_with(self.database, claim, found.id)
        self.assertEqual('gone', self.status(found))

    def test_force_delete_keeps_owner_of_creating_snapshot(self):
        found = self.ask(make.volume(self.database))
        work.claim(self.database, snapshots.creation(found.id, 1, 'a'), found.host, 60)
        snapshots.start_delete(self.database, found, 600, force=True)
        self.assertEqual('a', work.of_resource(self.database, 'snapshot', found.id).owner)

    def test_deleted_snapshots_purged_before_volume(self):
        past = self.fixture.open(clock.ManualClock())
        volume = make.volume(past)
        found = snapshots.create(past, snapshots.Draft(
            volume, make.PROJECT, make.USER, None, None, {'k': 'v'}), 60)
        work_ends.finish(past, snapshots.creation(found.id, 1))
        volumes.start_delete(past, volume, 60, with_snapshots=WITH_SNAPSHOTS)
        claim = work.of_resource(past, 'volume', volume.id).claim
        snapshots.deleted_with(past, claim, found.id)
        work_ends.finish(past, volumes.deletion(volume.id, claim.generation))
        purged = purging.purge(self.database, datetime.timedelta(days=0))
        self.assertEqual([('snapshots', 1), ('volumes', 1)],
                         [(one.table, one.rows) for one in purged])
        with self.database.reader() as connection:
            self.assertEqual([], connection.execute(
                models.snapshot_metadata.select()).all())

    def test_lost_snapshot_work_repaired(self):
        volume = make.volume(self.database)
        asked, idle = self.ask(volume), self.made(volume)
        with self.database.writer() as connection:
            connection.execute(models.work.update().values(resource_id=idle.id))
        derived.volume_status(self.database, volume.id)
        found = work.of_resource(self.database, 'snapshot', asked.id)
        self.assertEqual(('create', 1), (found.verb, found.generation))
        self.assertIsNone(work.of_resource(self.database, 'snapshot', idle.id))

    def test_snapshots_list_filtered_and_paginated(self):
        volume = make.volume(self.database)
        found = [self.ask(volume) for _ in range(3)]
        page = snapshot_queries.list_page(
            self.database, snapshot_queries.Filters(make.PROJECT, {'volume_id': volume.id},
                                                    metadata={'k': 'v'}),
            paging.Page(limit=2, marker=found[2].id))
        self.assertEqual([found[1].id, found[0].id], [one.id for one in page])
        self.assertEqual({'k': 'v'}, page[0].metadata)
        self.assertEqual(3, snapshot_queries.count(
            self.database, snapshot_queries.Filters(None)))
