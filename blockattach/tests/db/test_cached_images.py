"""Cached images: one per image and backend within the bounds, kept while a volume is cloned."""
import dataclasses

from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db import work
from blockattach.storage.db import work_ends
from blockattach.storage.db.services import pools
from blockattach.storage.db.volumes import cached_images
from blockattach.storage.db.volumes import unmanaging
from blockattach.storage.db.volumes import volume_images
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import image_cache
from blockattach.storage.domain import images
from blockattach.storage.domain import records
from blockattach.tests.db import base
from blockattach.tests.fixtures import make

IMAGE = images.Image('0e1f2a3b-0000-4000-8000-000000000001', 'active', name='ours', size=1,
                     updated_at='2026-01-01T00:00:00Z')
HOST = make.POOL.partition('#')[0]
OWNER = f'{HOST}/1'
OURS = 'internal-project'


def image(number):
    return dataclasses.replace(IMAGE, id=f'{IMAGE.id[:-1]}{number}')


class Case(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.pool = make.pool(self.database, total_gb=1000)
        self.beside = make.volume(self.database)

    def begin(self, of=IMAGE, size_gb=1, **bounds):
        return cached_images.begin(self.database, cached_images.Draft(
            of, self.beside, size_gb, OURS, 'internal-user', volume_images.progress_of(of)),
            image_cache.Bounds(**bounds), OWNER, 60)

    def cached(self, of=IMAGE, **more):
        """Cache an image and return the id of its volume."""
        claim = self.begin(of, **more)
        work_ends.finish(self.database, claim)
        return claim.resource_id

    def being_made(self, of=IMAGE, size_gb=1):
        """Create a volume of an image that is claimed by its manager, and return it with the
        claim.
        """
        made = volumes.create(self.database, volumes.Draft(
            make.PROJECT, make.USER, None, None, size_gb, make.volume_type(self.database),
            make.ZONE, {}, progress=volume_images.progress_of(of)), 60)
        generation = volumes.claim(self.database, made.id, made.generation, self.pool, None)
        claim = records.Claim('volume', made.id, 'create', generation, OWNER)
        self.assertTrue(work.claim(self.database, claim, HOST, 60))
        return volume_queries.get(self.database, made.id), claim

    def hold(self, of=IMAGE, size_gb=1):
        made, claim = self.being_made(of, size_gb)
        return claim, cached_images.hold(self.database, claim, made, of)

    def entries(self):
        return {entry.volume_id: entry for entry in cached_images.on_host(self.database, HOST)}

    def room(self):
        return pools.get(self.database, self.pool, 60).allocated_gb

    def change(self, volume_id, **values):
        with self.database.writer() as connection:
            connection.execute(models.volumes.update().where(
                models.volumes.c.id == volume_id).values(**values))


@base.on_sqlite_and_servers_in_turn
class BeginTest(Case):

    def test_begin_writes_volume_and_cache_entry(self):
        claim = self.begin()
        found = volume_queries.claimed(self.database, claim)
        self.assertEqual(
            (OURS, 'internal-user', f'image-{IMAGE.id}', 'downloading', True, self.pool),
            (found.volume.project_id, found.volume.user_id, found.volume.name,
             found.volume.status, found.volume.readonly, found.volume.pool))
        self.assertEqual(IMAGE, volume_images.about(found))
        self.assertEqual(2, self.room())
        [entry] = self.entries().values()
        self.assertEqual((IMAGE.id, claim.resource_id, image_cache.updated_at(IMAGE), True),
                         (entry.image_id, entry.volume_id, entry.image_updated_at, entry.intact))

    def test_begin_caches_each_image_once(self):
        self.assertIsNotNone(self.begin())
        self.assertIsNone(self.begin())
        self.assertIsNotNone(self.begin(image(2)))
        self.assertEqual(3, self.room())

    def test_begin_without_pool_space_caches_nothing(self):
        self.assertIsNone(self.begin(size_gb=1000))
        self.assertEqual((1, {}), (self.room(), self.entries()))

    def test_begin_beyond_bounds_caches_nothing(self):
        self.assertIsNotNone(self.begin(max_count=1, max_gb=1))
        for bounds in ({'max_count': 1}, {'max_gb': 1}):
            self.assertIsNone(self.begin(image(2), **bounds))
        self.assertEqual((2, 1), (self.room(), len(self.entries())))
        self.assertIsNotNone(self.begin(image(2), max_count=2, max_gb=2))


@base.on_sqlite_and_servers_in_turn
class HoldTest(Case):

    def test_held_cached_volume_not_deleted_until_cloned(self):
        source_id = self.cached()
        before = self.entries()[source_id].used_at
        claim, held = self.hold()
        self.assertEqual(source_id, held)
        self.assertLess(before, self.entries()[source_id].used_at)
        for force in (False, True):
            self.assertRaises(errors.InvalidVolume, volumes.start_delete, self.database,
                              make.judged(source_id, OURS), 60, force)
        self.assertIn(source_id, self.entries())
        volume_images.cloned(self.database, claim)
        made = volume_queries.get(self.database, claim.resource_id)
        self.assertEqual(('available', True, None, IMAGE.metadata),
                         (made.status, made.bootable, made.source_volid, made.image_metadata))
        volumes.start_delete(self.database, make.judged(source_id, OURS), 60)

    def test_released_cached_volume_deletable(self):
        source_id = self.cached()
        claim, _ = self.hold()
        cached_images.release(self.database, claim)
        self.assertIsNone(volume_queries.get(self.database, claim.resource_id).source_volid)
        volumes.start_delete(self.database, make.judged(source_id, OURS), 60)

    def test_unusable_cached_volume_not_held(self):
        source_id = self.cached(size_gb=2)
        self.assertIsNone(self.hold(size_gb=1)[1])
        newer = dataclasses.replace(IMAGE, updated_at='2026-01-02T00:00:00Z')
        self.assertIsNone(self.hold(newer, size_gb=2)[1])
        self.assertIsNone(self.hold(image(2), size_gb=2)[1])
        for changed in ({'generation': 4}, {'readonly': False}, {'status': 'in-use'},
                        {'pool': 'storage-1@file#another'}):
            with self.subTest(changed):
                before = {'generation': 2, 'readonly': True, 'status': 'available',
                          'pool': self.pool}
                self.change(source_id, **changed)
                self.assertIsNone(self.hold(size_gb=2)[1])
                self.change(source_id, **before)
        self.assertIsNotNone(self.hold(size_gb=2)[1])

    def test_cached_volume_being_filled_not_held(self):
        self.begin()
        self.assertIsNone(self.hold()[1])

    def test_hold_with_stale_claim_rejected(self):
        self.cached()
        made, claim = self.being_made()
        volumes.start_delete(self.database, made, 60, force=True)
        self.assertRaises(errors.StaleGeneration, cached_images.hold, self.database, claim, made,
                          IMAGE)


@base.on_sqlite_and_servers_in_turn
class RemoveTest(Case):

    def test_delete_of_cached_volume_deletes_entry(self):
        for force, filled in ((False, True), (True, True), (True, False)):
            with self.subTest(force=force, filled=filled):
                volume_id = self.cached() if filled else self.begin().resource_id
                deleting = volumes.start_delete(
                    self.database, make.judged(volume_id, OURS), 60, force)
                self.assertEqual({}, self.entries())
                work_ends.finish(self.database, volumes.deletion(volume_id, deleting.generation))
                self.assertEqual(1, self.room())

    def test_unmanage_of_cached_volume_rejected(self):
        volume_id = self.cached()
        self.assertRaises(errors.InvalidVolume, unmanaging.start, self.database,
                          make.judged(volume_id, OURS), 60)
        cached_images.forget(self.database, volume_id)
        self.assertIsNotNone(unmanaging.start(self.database, make.judged(volume_id, OURS), 60))


@base.on_every_server
class RaceTest(Case):

    def test_concurrent_begins_cache_image_once(self):
        for _ in range(5):
            found = base.at_once(self.begin, self.begin, self.begin)
            self.assertEqual(1, len([one for one in found if one != 'done']), found)
            self.assertEqual((2, 1), (self.room(), len(self.entries())))
            self.remove_all()

    def test_concurrent_begins_obey_bounds(self):
        for _ in range(5):
            found = base.at_once(*(
                lambda number=number: self.begin(image(number), max_count=1)
                for number in range(3)))
            self.assertEqual(1, len([one for one in found if one != 'done']), found)
            self.assertEqual((2, 1), (self.room(), len(self.entries())))
            self.remove_all()

    def test_concurrent_hold_and_delete_exclude_each_other(self):
        for _ in range(5):
            source_id = self.cached()
            made, claim = self.being_made()
            held, removed = base.at_once(
                lambda made=made, claim=claim: cached_images.hold(
                    self.database, claim, made, IMAGE),
                lambda source_id=source_id: volumes.start_delete(
                    self.database, make.judged(source_id, OURS), 60))
            if held == 'done':
                self.assertEqual(source_id, removed.id)
            else:
                self.assertEqual(source_id, held)
                self.assertIsInstance(removed, errors.InvalidVolume)
                volume_images.cloned(self.database, claim)
            volumes.start_delete(self.database, made, 60, force=True)
            self.remove_all()

    def remove_all(self):
        for volume_id in self.entries():
            deleting = volumes.start_delete(
                self.database, make.judged(volume_id, OURS), 60, force=True)
            work_ends.finish(self.database, volumes.deletion(volume_id, deleting.generation))
