"""Image-volume cache under faults and process deaths.

No volume of a user fails because of the cache.
"""
from blockattach.platform import failpoints
from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db.volumes import cached_images
from blockattach.storage.db.volumes import volume_images
from blockattach.storage.db.volumes import volumes
from blockattach.tests.fixtures import disks
from blockattach.tests.fixtures import make
from blockattach.tests.functional import instances
from blockattach.tests.functional import test_image_faults

PROJECT = 'internal-project'


class CacheCase(test_image_faults.ImageCase):

    IMAGES = {'cinder_internal_tenant_project_id': PROJECT,
              'cinder_internal_tenant_user_id': 'internal-user'}
    BACKEND = {'image_volume_cache_enabled': True}

    def make(self, image):
        made = self.ask(image)
        self.settle()
        return made

    def entries(self):
        return cached_images.on_host(self.world.database, instances.HOST)

    def volumes_of(self, project_id):
        with self.world.database.reader() as reader:
            return [self.world.shown(row) for row in reader.execute(
                models.volumes.select().where(
                    models.volumes.c.deleted.is_(False),
                    models.volumes.c.project_id == project_id,
                ).order_by(models.volumes.c.created_at))]

    def last_volume(self):
        return self.volumes_of(self.world.caller.project_id)[-1]

    def downloads(self):
        return sum(asked.endswith('/file') for asked in self.glance.asked)

    def assert_cached(self, *images):
        """Check that exactly these images are cached, each with one intact volume."""
        entries = self.entries()
        self.assertEqual({image.id for image in images}, {entry.image_id for entry in entries})
        kept = self.volumes_of(PROJECT)
        self.assertEqual({entry.volume_id for entry in entries}, {one.id for one in kept})
        for one in kept:
            self.assertEqual(('available', disks.CONTENT),
                             (one.status, self.world.backend.content(one)))
        self.assert_agree()
        self.nothing_is_left()


class MissTest(CacheCase):

    def test_death_before_caching_leaves_caching_to_next_volume(self):
        """The next volume of the image caches it."""
        for point in ('volume.images.after_fill', 'db.volume.download.done.after',
                      'volume.image_cache.before_begin', 'volume.image_cache.after_evict',
                      'db.cached_images.begin.before'):
            with self.subTest(point):
                image = self.image()
                self.dies_at(point, lambda image=image: self.ask(image))
                self.assert_filled(self.last_volume())
                self.make(image)
                self.assertIn(image.id, {entry.image_id for entry in self.entries()})

    def test_caching_resumed_after_death(self):
        """The image is downloaded again if the kept file is lost."""
        images = []
        for point in ('db.cached_images.begin.after', 'work.volume.download.after',
                      'volume.images.after_create'):
            with self.subTest(point):
                images.append(self.image())
                self.dies_at(point, lambda: self.ask(images[-1]))
                self.look_everywhere()
                self.assert_filled(self.last_volume())
                self.assert_cached(*images)

    def test_failed_cache_volume_leaves_user_volume_available(self):
        for error in (errors.BackendFull(size_gb=1, reason='it is full'), OSError('no disk')):
            with self.subTest(error):
                image = self.image()

                def fail(error=error):
                    raise error

                self.arm('volume.images.after_create', fail)
                made = self.make(image)
                self.assertEqual('available', self.world.shown(made).status)
                for _ in range(4):
                    self.look_everywhere()
                self.assert_filled(made)
                self.assert_cached()
                failpoints.disarm('volume.images.after_create')

    def test_refused_cache_volume_removed_after_death(self):
        def refuse():
            raise errors.BackendRefused(reason='it has had enough')

        self.arm('volume.images.after_create', refuse)
        for point in ('db.cached_images.failed.before', 'db.cached_images.failed.after'):
            with self.subTest(point):
                self.dies_at(point, lambda: self.ask(self.image()))
                self.look_everywhere()
                self.assert_filled(self.last_volume())
                self.assert_cached()

    def test_cache_without_database_leaves_user_volume_available(self):
        for point in ('volume.image_cache.before_begin', 'volume.image_cache.after_evict',
                      'db.cached_images.begin.before'):
            with self.subTest(point):
                def fail():
                    raise errors.DatabaseUnavailable(reason='it is down')

                self.arm(point, fail)
                self.assert_filled(self.make(self.image()))
                self.assert_cached()
                failpoints.disarm(point)

    def test_cache_skipped_without_room_in_pool(self):
        def fill():
            with self.world.database.writer() as writer:
                writer.execute(models.pools.update().values(
                    limit_gb=models.pools.c.allocated_gb))

        self.arm('volume.image_cache.after_evict', fill)
        self.assert_filled(self.make(self.image()))
        self.assert_cached()

    def test_concurrent_volumes_of_image_cache_it_once(self):
        image = self.image()
        made = [self.ask(image), self.ask(image)]
        self.settle()
        for volume in made:
            self.assert_filled(volume)
        self.assert_cached(image)

    def test_force_delete_before_caching_still_caches_image(self):
        image = self.image()

        def delete():
            failpoints.disarm('volume.image_cache.before_begin')
            volumes.start_delete(self.world.database, made, 60, force=True)

        self.arm('volume.image_cache.before_begin', delete)
        made = self.ask(image)
        self.settle()
        self.look_everywhere()
        self.assert_cached(image)

    def test_lost_claim_after_download_caches_nothing(self):
        image = self.image()

        def delete():
            failpoints.disarm('volume.images.after_fill')
            volumes.start_delete(self.world.database, made, 60, force=True)

        self.arm('volume.images.after_fill', delete)
        made = self.ask(image)
        self.settle()
        self.look_everywhere()
        self.assert_cached()


class HitTest(CacheCase):

    def test_cached_clone_resumed_after_death_at_each_point(self):
        image = self.image()
        self.make(image)
        for point in ('db.cached_images.hold.before', 'db.cached_images.hold.after',
                      'volume.image_cache.before_clone', 'backend.store.clone.before',
                      'backend.store.clone.after', 'volume.image_cache.after_clone',
                      'volume.volumes.after_create', 'db.volume_images.cloned.before',
                      'db.volume_images.cloned.after'):
            with self.subTest(point):
                self.dies_at(point, lambda: self.ask(image))
                made = self.last_volume()
                self.assertIsNone(made.source_volid)
                self.assert_filled(made)
                self.assert_cached(image)

    def test_failed_cached_clone_falls_back_to_download(self):
        image = self.image()
        self.make(image)
        for error in (errors.BackendUncertain(reason='who knows'), OSError('no disk'),
                      errors.BackendFull(size_gb=1, reason='it is full')):
            for point in ('backend.store.clone.before', 'backend.store.clone.after'):
                with self.subTest(point, error=error):
                    def fail(error=error):
                        raise error

                    self.arm(point, fail)
                    before = self.downloads()
                    made = self.make(image)
                    failpoints.disarm(point)
                    self.assertIsNone(self.world.shown(made).source_volid)
                    self.assert_filled(made)
                    self.assertEqual(before + 1, self.downloads())
                    self.assert_cached(image)

    def test_failed_cached_clone_after_death_falls_back_to_download(self):
        """The row of the volume already names the cached volume as its source."""
        image = self.image()
        for error in (errors.BackendUncertain(reason='who knows'),
                      errors.BackendRefused(reason='its bytes are gone')):
            with self.subTest(error=error):
                self.make(image)

                def fail(error=error):
                    failpoints.disarm('volume.image_cache.before_clone')
                    raise error

                acts = iter((instances.die, fail))
                self.arm('volume.image_cache.before_clone', lambda acts=acts: next(acts)())
                with self.assertRaises(instances.Death):
                    self.ask(image)
                    self.settle()
                self.world.start_instance()
                self.look_everywhere()
                made = self.last_volume()
                self.assertIsNone(made.source_volid)
                self.assert_filled(made)
                self.assert_cached(image)

    def test_refused_cached_clone_replaces_cache_entry(self):
        image = self.image()
        self.make(image)
        [before] = self.entries()

        def refuse():
            failpoints.disarm('volume.image_cache.before_clone')
            raise errors.BackendRefused(reason='its bytes are gone')

        self.arm('volume.image_cache.before_clone', refuse)
        made = self.make(image)
        self.look_everywhere()
        self.assert_filled(made)
        self.assert_cached(image)
        self.assertNotEqual(before.volume_id, self.entries()[0].volume_id)

    def test_empty_volume_of_earlier_attempt_filled_from_image(self):
        image, other = self.image(), self.image()
        self.make(other)

        def cached_meanwhile():
            failpoints.disarm('volume.volumes.after_create')
            self.make(image)
            raise instances.Death

        self.arm('volume.volumes.after_create', cached_meanwhile)
        with self.assertRaises(instances.Death):
            self.ask(image)
            self.settle()
        self.world.start_instance()
        self.look_everywhere()
        for volume in self.volumes_of(self.world.caller.project_id):
            self.assert_filled(volume)
        self.assert_cached(image, other)

    def test_force_delete_of_cached_volume_during_clone_rejected(self):
        image = self.image()
        self.make(image)
        [entry] = self.entries()
        refused = []

        def delete():
            refused.append(instances.outcome(
                volumes.start_delete, self.world.database,
                make.judged(entry.volume_id, PROJECT), 60, True))

        self.arm('backend.store.clone.before', delete)
        self.assert_filled(self.make(image))
        self.assertIsInstance(refused[0], errors.InvalidVolume)
        self.assert_cached(image)

    def test_write_to_cached_volume_during_clone_rejected(self):
        image, database = self.image(), self.world.database
        self.make(image)
        [entry] = self.entries()
        refused = []

        cached = make.judged(entry.volume_id, PROJECT)

        def write():
            refused.extend((
                instances.outcome(volumes.set_readonly, database, cached, False),
                instances.outcome(volume_images.start_reimage, database, cached, image,
                                  False, 60, None)))

        self.arm('backend.store.clone.before', write)
        self.assert_filled(self.make(image))
        for one in refused:
            self.assertIsInstance(one, errors.InvalidVolume)
        self.assert_cached(image)
        volumes.set_readonly(database, cached, False)


class EvictTest(CacheCase):

    BACKEND = {**CacheCase.BACKEND, 'image_volume_cache_max_count': 1}

    def test_eviction_resumed_after_death_at_each_point(self):
        images = [self.image()]
        self.make(images[0])
        for point in ('db.volumes.start_delete.before', 'db.volumes.start_delete.after',
                      'volume.image_cache.after_evict', 'backend.store.delete.before',
                      'backend.store.delete.after', 'db.volume.delete.done.before'):
            with self.subTest(point):
                images.append(self.image())
                self.dies_at(point, lambda: (self.make(images[-1]), self.look_everywhere()))
                self.look_everywhere()
                self.assert_filled(self.last_volume())
                self.make(images[-1])
                self.look_everywhere()
                self.assert_cached(images[-1])

    def test_cached_volume_in_use_by_clone_not_evicted(self):
        image, other = self.image(), self.image()
        self.make(image)

        def make_other():
            failpoints.disarm('backend.store.clone.before')
            self.world.ask_volume(progress=test_image_faults.volume_images.progress_of(other))
            self.settle()

        self.arm('backend.store.clone.before', make_other)
        self.make(image)
        for volume in self.volumes_of(self.world.caller.project_id):
            self.assert_filled(volume)
        self.assert_cached(image)
