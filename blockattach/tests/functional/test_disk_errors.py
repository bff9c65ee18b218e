"""Errors of a disk end downloads and uploads of images at once, or after some attempts."""
import contextlib
import errno
import os
from unittest import mock

from blockattach.storage.db import work
from blockattach.tests.functional import test_image_faults

RAW = test_image_faults.RAW
FINAL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
UNCERTAIN = (errno.EIO,)


class DiskErrorTest(test_image_faults.ImageCase):

    @contextlib.contextmanager
    def broken(self, number):
        """Fail each write to a volume of the backend, and each read."""
        def fail(*_arguments, **_more):
            raise OSError(number, os.strerror(number))

        disk = mock.Mock(spec=('pieces', 'write', 'discard', 'sync', 'close'))
        for verb in ('pieces', 'write', 'discard', 'sync'):
            setattr(disk, verb, fail)
        backend = self.world.instance.manager.backend
        backend.disk = lambda volume, writes=False: disk
        try:
            yield
        finally:
            del backend.disk

    def attempts(self, volume):
        found = work.of_resource(self.world.database, 'volume', volume.id)
        return None if found is None else found.attempts

    def test_download_with_final_disk_error_ends_at_once(self):
        for number in FINAL:
            image = self.image(RAW)
            with self.subTest(os.strerror(number)), self.broken(number):
                made = self.ask(image)
                self.world.settle()
                self.assertEqual(('error', None),
                                 (self.world.shown(made).status, self.attempts(made)))
                self.world.volume_control.delete(self.world.caller, self.world.shown(made))
                self.world.settle()
                self.assertEqual({}, self.world.store.sizes())
                self.nothing_is_left()

    def test_download_with_uncertain_disk_error_repeated(self):
        for number in UNCERTAIN:
            image = self.image(RAW)
            with self.subTest(os.strerror(number)):
                with self.broken(number):
                    made = self.ask(image)
                    self.world.settle()
                    self.assertEqual('downloading', self.world.shown(made).status)
                self.look_everywhere()
                self.assert_filled(made)

    def test_reimage_with_final_disk_error_ends_at_once(self):
        for number in FINAL:
            volume, image = self.world.volume(), self.image(RAW)
            with self.subTest(os.strerror(number)), self.broken(number):
                self.world.image_control.reimage(
                    self.world.caller, self.world.shown(volume), image.id, False)
                self.world.settle()
                self.assertEqual(('error', None),
                                 (self.world.shown(volume).status, self.attempts(volume)))

    def test_upload_with_final_disk_error_ends_at_once(self):
        for number in FINAL:
            volume = self.world.volume()
            with self.subTest(os.strerror(number)), self.broken(number):
                self.world.image_control.upload(
                    self.world.caller, self.world.shown(volume),
                    {'name': 'mine', 'disk_format': RAW, 'container_format': 'bare'}, False)
                self.world.settle()
                self.assertEqual(('available', None),
                                 (self.world.shown(volume).status, self.attempts(volume)))
                self.assertEqual([], [image for image in self.glance.images.values()
                                      if image.get('name') == 'mine'])

    def test_download_without_room_for_folder_ends_at_once(self):
        for number in (errno.ENOSPC, errno.EDQUOT):
            image, mkdir = self.image(RAW), os.mkdir

            def full(path, *arguments, number=number, mkdir=mkdir, **more):
                if 'conversion' in str(path):
                    raise OSError(number, os.strerror(number))
                return mkdir(path, *arguments, **more)

            with self.subTest(os.strerror(number)), mock.patch('os.mkdir', full):
                made = self.ask(image)
                self.world.settle()
            self.assertEqual(('error', None),
                             (self.world.shown(made).status, self.attempts(made)))
