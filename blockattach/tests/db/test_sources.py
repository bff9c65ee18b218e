"""Sources of volumes, which are protected while they are copied."""
import threading
from concurrent import futures

from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db import work_ends
from blockattach.storage.db.volumes import placing_facts
from blockattach.storage.db.volumes import snapshot_rows
from blockattach.storage.db.volumes import sources
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import sources as rules
from blockattach.storage.domain import volume_lifecycle
from blockattach.tests.db import base
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import polling
from blockattach.tests.fixtures import stored_snapshots

OWN = volume_lifecycle.OwnStatus
HOST = make.POOL.partition('#')[0]


class Case(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.origin = make.volume(self.database, size_gb=2)
        self.kind = make.volume_type(self.database)

    def of_volume(self):
        return rules.of_volume(volume_queries.get(self.database, self.origin.id))

    def of_snapshot(self, **changed):
        return sources.snapshot(self.database, stored_snapshots.insert(
            self.database, self.origin, **changed))

    def create(self, source, size_gb=2, database=None):
        return volumes.create(database or self.database, volumes.Draft(
            make.PROJECT, make.USER, None, None, size_gb, self.kind, make.ZONE, {},
            source=source), 60)

    def change(self, table, **values):
        with self.database.writer() as connection:
            connection.execute(table.update().values(**values))

    def count(self):
        with self.database.reader() as reader:
            return len(reader.execute(models.volumes.select()).all())


@base.on_sqlite_and_servers_in_turn
class CreateTest(Case):

    def test_create_stores_source_of_volume(self):
        for source, wanted in ((self.of_volume(), (self.origin.id, None)),
                               (snapshot := self.of_snapshot(), (None, snapshot.snapshot_id))):
            made = self.create(source)
            self.assertEqual(wanted, (made.source_volid, made.snapshot_id))
            self.assertEqual(made, volume_queries.get(self.database, made.id))
            self.assertIs(False, made.bootable)

    def test_create_copies_image_metadata_of_source(self):
        self.change(models.volumes, bootable=True)
        image = models.volume_image_metadata
        with self.database.writer() as connection:
            connection.execute(image.insert(), [
                {'volume_id': self.origin.id, 'key': key, 'value': 'x' * 70000}
                for key in ('a', 'A')])
        for source in (self.of_volume(), self.of_snapshot()):
            made = self.create(source)
            self.assertIs(True, made.bootable)
            with self.database.reader() as reader:
                rows = reader.execute(image.select().where(image.c.volume_id == made.id)).all()
            self.assertEqual({'a', 'A'}, {row.key for row in rows})
            self.assertEqual({70000}, {len(row.value) for row in rows})

    def test_create_from_source_changed_meanwhile_rejected(self):
        volume, snapshot = self.of_volume(), self.of_snapshot()
        for source, table, error, changed in (
                (volume, models.volumes, errors.InvalidVolume, {'status': 'error'}),
                (volume, models.volumes, errors.VolumeNotFound, {'deleted': True}),
                (volume, models.volumes, errors.InvalidInput, {'size_gb': 3}),
                (snapshot, models.snapshots, errors.InvalidSnapshot, {'status': 'deleting'}),
                (snapshot, models.snapshots, errors.SnapshotNotFound, {'deleted': True}),
                (snapshot, models.snapshots, errors.InvalidInput, {'size_gb': 3})):
            with self.subTest(changed=changed):
                self.change(table, **changed)
                before = self.count()
                self.assertRaises(error, self.create, source)
                self.assertEqual(before, self.count())
                self.change(table, status='available', deleted=False, size_gb=2)

    def test_placing_facts_name_source_host(self):
        found = []
        for source in (self.of_volume(), self.of_snapshot(), None):
            made = self.create(source)
            found.append(placing_facts.read(self.database, made.id, False).source_host)
        self.assertEqual([HOST, HOST, None], found)
        lost = self.create(snapshot := self.of_snapshot())
        stored_snapshots.forget(self.database, snapshot.snapshot_id)
        self.assertEqual('', placing_facts.read(self.database, lost.id, False).source_host)


@base.on_sqlite_and_servers_in_turn
class KeptTest(Case):

    def is_copied(self):
        with self.database.reader() as reader:
            return snapshot_rows.dependants(reader, self.origin.id).is_copied

    def test_source_volume_kept_until_copied(self):
        made = self.create(self.of_volume())
        self.assertTrue(self.is_copied())
        for force in (False, True):
            with self.assertRaisesRegex(errors.InvalidVolume, 'have snapshots'):
                volumes.start_delete(self.database, self.origin, 60, force)
        self.assertEqual(self.origin, volume_queries.get(self.database, self.origin.id))
        claimed = volumes.claim(self.database, made.id, made.generation, make.POOL, 'a-service')
        self.assertTrue(self.is_copied())
        volumes.created(self.database, made.id, claimed, False)
        self.assertFalse(self.is_copied())
        volumes.start_delete(self.database, self.origin, 60)

    def test_source_volume_released_after_failed_or_deleted_copy(self):
        made = self.create(self.of_volume())
        work_ends.refuse(self.database, 'create', made.id, made.generation)
        self.assertFalse(self.is_copied())
        made = self.create(self.of_volume())
        volumes.start_delete(self.database, made, 60, force=True)
        self.assertFalse(self.is_copied())

    def test_source_snapshot_kept_while_copied(self):
        snapshot = self.of_snapshot()
        made = self.create(snapshot)
        with self.database.reader() as reader:
            self.assertTrue(sources.is_snapshot_copied(reader, snapshot.snapshot_id))
        self.assertFalse(self.is_copied())
        work_ends.refuse(self.database, 'create', made.id, made.generation)
        with self.database.reader() as reader:
            self.assertFalse(sources.is_snapshot_copied(reader, snapshot.snapshot_id))


@base.on_sqlite_and_servers_in_turn
class RaceTest(Case):

    def at_once(self, *acts):
        barrier = threading.Barrier(len(acts))

        def run(act):
            barrier.wait(polling.LIMIT)
            try:
                return act()
            except errors.BlockattachError as exc:
                return exc

        with futures.ThreadPoolExecutor(len(acts)) as threads:
            return list(threads.map(run, acts, timeout=polling.LIMIT))

    def test_concurrent_copy_and_delete_of_source_exclude_each_other(self):
        other = self.fixture.open()
        for _ in range(8):
            self.origin = make.volume(self.database, size_gb=2)
            source = self.of_volume()
            *made, deleting = self.at_once(
                lambda source=source: self.create(source),
                lambda source=source: self.create(source, database=other),
                lambda: volumes.start_delete(other, self.origin, 60))
            refused = [one for one in made if isinstance(one, errors.InvalidVolume)]
            # If the delete comes first, both copies are refused. Otherwise both are accepted.
            self.assertEqual(0 if isinstance(deleting, errors.InvalidVolume) else 2,
                             len(refused), (made, deleting))

    def test_concurrent_copies_of_one_source_succeed(self):
        for source in (self.of_volume(), self.of_snapshot()):
            made = self.at_once(*[lambda source=source: self.create(source) for _ in range(10)])
            self.assertEqual(10, len({one.id for one in made}))
