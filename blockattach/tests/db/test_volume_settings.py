"""Settings of a volume: concurrent updates, and the columns that an update writes."""
import functools
import threading

from blockattach.storage import errors
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volumes
from blockattach.tests.db import base
from blockattach.tests.fixtures import make

WRITERS = 8


def with_key(key, now):
    return {**now, key: key}


@base.on_sqlite_and_servers_in_turn
class ChangeTest(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.volume = make.volume(self.database, metadata={'a': 'b', 'c': 'd'})

    def read(self):
        return volume_queries.get(self.database, self.volume.id)

    def test_concurrent_metadata_updates_keep_each_key(self):
        barrier = threading.Barrier(WRITERS)

        def add(number):
            barrier.wait()
            volumes.change_metadata(self.database, self.volume,
                                    functools.partial(with_key, f'k{number}'))

        threads = [threading.Thread(target=add, args=(number,)) for number in range(WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual({'a', 'c', *(f'k{number}' for number in range(WRITERS))},
                         self.read().metadata.keys())

    def test_failed_metadata_update_changes_nothing(self):
        def refuse(now):
            self.assertEqual({'a': 'b', 'c': 'd'}, now)
            raise errors.PreconditionFailed

        self.assertRaises(errors.PreconditionFailed, volumes.change_metadata,
                          self.database, self.volume, refuse)
        self.assertEqual({'a': 'b', 'c': 'd'}, self.read().metadata)

    def test_metadata_and_image_metadata_separate_per_volume(self):
        other = make.volume(self.database, metadata={'a': 'b'})
        volumes.change_image_metadata(self.database, self.volume,
                                      lambda now: {'a': 'of the image', 'x': 'é' * 9000})
        volumes.change_metadata(self.database, self.volume, lambda now: {'a': 'é'})
        found = self.read()
        self.assertEqual(({'a': 'é'}, {'a': 'of the image', 'x': 'é' * 9000}),
                         (found.metadata, found.image_metadata))
        found = volume_queries.get(self.database, other.id)
        self.assertEqual(({'a': 'b'}, {}), (found.metadata, found.image_metadata))

    def test_settings_of_deleted_volume_not_found(self):
        gone = make.volume(self.database)
        with self.database.writer() as connection:
            connection.exec_driver_sql(
                f"UPDATE volumes SET deleted = {'1' if self.KIND != 'postgresql' else 'true'} "
                f"WHERE id = '{gone.id}'")
        for act in (
                lambda: volumes.update(self.database, gone, {'name': 'x'}),
                lambda: volumes.change_metadata(self.database, gone, dict),
                lambda: volumes.change_image_metadata(self.database, gone, dict)):
            self.assertRaises(errors.VolumeNotFound, act)

    def test_update_keeps_omitted_settings(self):
        changed = volumes.update(self.database, self.volume, {'name': 'x'})
        self.assertEqual(self.read(), changed)
        self.assertEqual(('x', {'a': 'b', 'c': 'd'}), (changed.name, changed.metadata))
        changed = volumes.update(self.database, self.volume,
                                 {'description': 'y', 'bootable': True}, {'a': 'b'})
        self.assertEqual(('x', 'y', True, {'a': 'b'}), (
            changed.name, changed.description, changed.bootable, changed.metadata))
