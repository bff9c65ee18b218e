"""Download and upload of images under process deaths and failures of Glance."""
import os
import tempfile

from blockattach.platform import failpoints
from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db import work
from blockattach.storage.db import work_ends
from blockattach.storage.db.volumes import volume_images
from blockattach.storage.db.volumes import volumes
from blockattach.tests.fixtures import disks
from blockattach.tests.fixtures import glance
from blockattach.tests.functional import instances

RAW, QCOW2 = 'raw', 'qcow2'


def fail():
    raise failpoints.Reached


class ImageCase(instances.WorldTestCase):
    """Test case with a stand-in for Glance and a backend of files.

    ``IMAGES`` and ``BACKEND`` are options of images and of the backend.
    """

    IMAGES, BACKEND = {}, {}

    def a_world(self, notifier=None):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.glance = glance.GlanceStandIn()
        self.addCleanup(self.glance.close)
        made = instances.World(notifier, {
            'glance': {'endpoint_override': self.glance.url, 'num_retries': 0},
            'images': {'image_conversion_dir': f'{self.folder}/conversion', **self.IMAGES},
        }, disks.FileBackend('fake', self.folder, **self.BACKEND))
        self.addCleanup(made.close)
        return made

    def image(self, disk_format=QCOW2, data=None, **shown):
        image_id = self.glance.add(data or disks.image(disk_format), disk_format=disk_format,
                                   **shown)
        return self.world.image_control.find(self.world.caller, image_id)

    def ask(self, image):
        return self.world.ask_volume(progress=volume_images.progress_of(image))

    def dies_at(self, point, act):
        """Run an operation that dies at a point, and let the next process resume it."""
        super().dies_at(point, act)
        self.world.start_instance()
        self.look_everywhere()

    def look_everywhere(self):
        """Run the passes of the manager and of a scheduler after every deadline."""
        for _ in range(3):
            self.world.expire()
            self.world.waiting.look()
            self.world.settle()
            self.world.instance.look()
            self.world.settle()

    def assert_filled(self, volume):
        now = self.world.shown(volume)
        self.assertEqual(('available', True), (now.status, now.bootable))
        self.assertEqual(disks.CONTENT, self.world.backend.content(now))
        self.assert_agree()
        self.nothing_is_left()

    def nothing_is_left(self):
        self.assertEqual([], [name for _, folders, files in os.walk(f'{self.folder}/conversion')
                              for name in files])

    def last_volume(self):
        with self.world.database.reader() as reader:
            rows = reader.execute(models.volumes.select().where(
                models.volumes.c.deleted.is_(False))).all()
        return self.world.shown(max(rows, key=lambda row: row.created_at))


class CreateTest(ImageCase):

    def test_download_resumed_after_death_at_each_point(self):
        image = self.image()
        for point in ('control.volumes.after_create', 'volume.volumes.before_create',
                      'volume.volumes.after_create', 'work.volume.create.after',
                      'work.volume.download.before', 'volume.images.before_fill',
                      'images.moving.after_fetch', 'images.moving.before_write',
                      'volume.images.after_fill', 'db.work.note.before'):
            with self.subTest(point):
                self.dies_at(point, lambda: self.ask(image))
                self.assert_filled(self.last_volume())

    def test_truncated_download_resumed_by_recovery(self):
        image = self.image(RAW)
        self.glance.cut = 1000
        made = self.ask(image)
        self.world.settle()
        self.assertEqual('downloading', self.world.shown(made).status)
        found = work.of_resource(self.world.database, 'volume', made.id)
        self.assertEqual('volume.download', found.claim.name)
        self.glance.cut = 0
        self.look_everywhere()
        self.assert_filled(made)

    def test_download_without_glance_ends_in_error(self):
        image = self.image(RAW)
        self.glance.broken = '/file'
        made = self.ask(image)
        self.world.settle()
        self.look_everywhere()
        now = self.world.shown(made)
        self.assertEqual(('error', False), (now.status, now.bootable))
        self.assert_agree()

    def test_download_of_deleted_image_ends_in_error(self):
        """A missing image is final, unlike a full pool."""
        image = self.image(RAW)
        del self.glance.images[image.id]
        made = self.ask(image)
        self.world.settle()
        self.assertEqual('error', self.world.shown(made).status)
        self.world.volume_control.delete(self.world.caller, self.world.shown(made))
        self.world.settle()
        self.assertEqual({}, self.world.store.sizes())
        self.assert_agree()

    def test_download_records_progress(self):
        seen = []
        image = self.image(RAW, disks.image(RAW, 8 * disks.MIB, b'\1' * 8 * disks.MIB))

        def look():
            found = work.list_all(self.world.database)
            seen.append(found[0].progress['percent'])

        self.arm('db.work.note.after', look)
        self.ask(image)
        self.world.settle()
        self.assertEqual(sorted(set(seen)), seen)
        self.assertEqual((True, 100), (min(seen) < 50, max(seen)))

    def test_force_delete_during_download(self):
        image = self.image(RAW)
        made = self.ask(image)

        def delete():
            failpoints.disarm('images.moving.after_fetch')
            self.world.volume_control.delete(self.world.caller, self.world.shown(made), True)

        self.arm('images.moving.after_fetch', delete)
        self.world.settle()
        self.look_everywhere()
        with self.assertRaises(errors.VolumeNotFound):
            self.world.shown(made)
        self.assertEqual({}, self.world.store.sizes())
        self.assert_agree()
        self.nothing_is_left()

    def test_cancelled_download_ends_in_error(self):
        image = self.image(RAW)
        self.glance.broken = '/file'
        made = self.ask(image)
        self.world.settle()
        work_ends.cancel(self.world.database, work.of_resource(
            self.world.database, 'volume', made.id))
        self.assertEqual('error', self.world.shown(made).status)
        self.assert_agree()

    def test_start_removes_conversion_files_of_earlier_process(self):
        left = f'{self.folder}/conversion/{instances.HOST}/other'
        os.makedirs(left)
        with open(f'{left}/image', 'w', encoding='ascii') as file:
            file.write('left')
        self.world.start_instance()
        self.nothing_is_left()


class UploadTest(ImageCase):

    def upload(self, volume, disk_format=QCOW2):
        return self.world.image_control.upload(
            self.world.caller, self.world.shown(volume),
            {'name': 'mine', 'disk_format': disk_format, 'container_format': 'bare'}, False)

    def states(self):
        return [image['status'] for image in self.glance.images.values()]

    def test_upload_resumed_after_death_at_each_point(self):
        """An image created before the death becomes active; without one, none remains."""
        for point, expected in (
                ('control.images.after_upload', []), ('control.images.after_image', ['active']),
                ('work.volume.upload.before', ['active']),
                ('volume.images.before_upload', ['active']), ('db.work.note.before', ['active']),
                ('volume.images.after_upload', ['active']),
                ('db.volume.upload.done.before', ['active'])):
            with self.subTest(point):
                self.glance.images.clear()
                volume = self.world.volume()
                self.dies_at(point, lambda volume=volume: self.upload(volume))
                self.assertEqual('available', self.world.shown(volume).status)
                self.assertEqual(expected, self.states())
                self.assert_agree()
                self.nothing_is_left()

    def test_failed_upload_resumed_by_recovery(self):
        volume = self.world.volume()
        self.glance.broken = 'PUT'
        self.upload(volume)
        self.world.settle()
        self.assertEqual(('uploading', ['queued']),
                         (self.world.shown(volume).status, self.states()))
        self.glance.broken = ''
        self.look_everywhere()
        self.assertEqual(('available', ['active']),
                         (self.world.shown(volume).status, self.states()))

    def test_upload_without_glance_removes_image(self):
        volume = self.world.volume()
        self.glance.broken = 'PUT'
        self.upload(volume)
        self.world.settle()
        self.look_everywhere()
        self.assertEqual(('available', []), (self.world.shown(volume).status, self.states()))
        self.assert_agree()

    def test_image_created_after_failed_upload_removed(self):
        volume = self.world.volume()

        def be_late():
            failpoints.disarm('control.images.after_upload')
            self.look_everywhere()

        self.arm('control.images.after_upload', be_late)
        with self.assertRaises(errors.GlanceUnavailable):
            self.upload(volume)
        self.assertEqual(('available', []), (self.world.shown(volume).status, self.states()))
        self.assert_agree()

    def test_upload_that_cannot_begin_ends_at_once(self):
        """An unexpected error also ends the upload without waiting for its deadline."""
        for point in ('control.images.after_upload', 'control.images.after_image'):
            with self.subTest(point):
                volume = self.world.volume()
                self.arm(point, fail)
                with self.assertRaises(failpoints.Reached):
                    self.upload(volume)
                failpoints.disarm(point)
                self.assertEqual(('available', []),
                                 (self.world.shown(volume).status, self.states()))
                self.assert_agree()

    def test_upload_refused_for_volume_that_went_keeps_reason(self):
        volume = self.world.volume()
        self.glance.broken, self.glance.status = 'POST', 403

        def delete():
            failpoints.disarm('control.images.after_upload')
            volumes.start_delete(self.world.database, volume, 60, force=True)

        self.arm('control.images.after_upload', delete)
        with self.assertRaisesRegex(errors.ImageRefused, 'It is broken'):
            self.upload(volume)
        self.look_everywhere()
        self.assert_agree()

    def test_force_delete_during_upload_removes_image(self):
        volume = self.world.volume()

        def delete():
            failpoints.disarm('volume.images.before_upload')
            volumes.start_delete(self.world.database, volume, 60, force=True)

        self.arm('volume.images.before_upload', delete)
        self.upload(volume)
        self.world.settle()
        self.look_everywhere()
        self.assertEqual([], self.states())
        self.assertEqual({}, self.world.store.sizes())
        self.assert_agree()


class ReimageTest(ImageCase):

    def opened(self, volume):
        return open(self.world.backend.export_of(self.world.shown(volume)).device, 'r+b')

    def test_reimage_resumed_after_death_at_each_point(self):
        image = self.image()
        for point in ('control.images.after_reimage', 'work.volume.reimage.before',
                      'volume.images.before_clear', 'volume.images.before_fill',
                      'images.moving.before_write', 'volume.images.after_fill',
                      'volume.images.before_event'):
            with self.subTest(point):
                volume = self.world.volume()
                self.dies_at(point, lambda volume=volume: self.world.image_control.reimage(
                    self.world.caller, volume, image.id, False))
                self.assert_filled(volume)

    def test_reimage_overwrites_whole_volume(self):
        """Old data is cleared within holes of the image and after its end."""
        volume = self.world.volume()
        places, old = (disks.MIB // 2, disks.MIB, 1024 * disks.MIB - 8), b'old data'
        with self.opened(volume) as disk:
            for place in places:
                disk.seek(place)
                disk.write(old)
        self.world.image_control.reimage(self.world.caller, volume, self.image(RAW).id, False)
        self.world.settle()
        self.assert_filled(volume)
        with self.opened(volume) as disk:
            for place in places:
                disk.seek(place)
                self.assertEqual(bytes(len(old)), disk.read(len(old)), place)
