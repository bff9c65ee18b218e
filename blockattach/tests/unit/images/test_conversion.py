"""Conversion of images by an unprivileged qemu-img with resource limits."""
import dataclasses
import errno
import os
import pwd
import tempfile
import unittest

from blockattach.storage import errors
from blockattach.storage.conf import images as images_conf
from blockattach.storage.images import formats
from blockattach.tests.fixtures import disks

MOST = 64 * disks.MIB


class Complaining(formats.Converter):
    """Converter whose program fails with a message in place of qemu-img."""

    words = ''

    def _rightless(self):
        return ['sh', '-c', f'echo "{self.words}" >&2; exit 1', 'sh']


class ConversionTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = f'{folder.name}/own'
        os.mkdir(self.folder, 0o700)

    def convert(self, data, its, most=MOST, target='raw', **changed):
        with open(f'{self.folder}/image', 'wb') as file:
            file.write(data)
        formats.Converter(dataclasses.replace(
            images_conf.ImageSettings(conversion_dir=self.folder), **changed)).convert(
            self.folder, 'image', its, 'disk', target, most)
        return f'{self.folder}/disk'

    def failed(self, why, *arguments, **changed):
        with self.assertRaisesRegex(errors.ConversionFailed, why):
            self.convert(*arguments, **changed)

    def test_convert_qcow2_to_raw(self):
        path = self.convert(disks.image('qcow2'), 'qcow2')
        with open(path, 'rb') as file:
            self.assertEqual(disks.CONTENT.ljust(disks.MIB, b'\0'), file.read())

    @unittest.skipUnless(os.geteuid() == 0, 'only root can become another user')
    def test_convert_runs_as_unprivileged_user(self):
        path = self.convert(disks.image('qcow2'), 'qcow2')
        self.assertEqual(pwd.getpwnam('nobody').pw_uid, os.stat(path).st_uid)
        # What only root can read cannot be read, even where an image names it.
        backing = f'{self.folder}/../secret'
        with open(backing, 'wb') as file:
            file.write(b'secret'.ljust(disks.MIB, b'\0'))
        os.chmod(backing, 0o600)
        self.failed('Permission denied', disks.qcow2(backing=backing.encode()), 'qcow2')

    def test_unknown_conversion_user_rejected(self):
        if os.geteuid() == 0:
            with self.assertRaisesRegex(errors.ConfigurationError, 'image_conversion_user'):
                self.convert(b'', 'qcow2', conversion_user='no-such-account')

    def test_full_disk_raises_its_error(self):
        for number, words in ((errno.ENOSPC, 'No space left on device'),
                              (errno.EDQUOT, 'Disk quota exceeded')):
            converter = Complaining(images_conf.ImageSettings(conversion_dir=self.folder))
            converter.words = f'qemu-img: error while writing at byte 65536: {words}'
            with self.subTest(words), self.assertRaises(OSError) as caught:
                converter.convert(self.folder, 'image', 'raw', 'disk', 'qcow2', MOST)
            self.assertEqual(number, caught.exception.errno)

    def test_convert_invalid_image_fails(self):
        self.failed('qcow2', bytes(disks.MIB), 'qcow2')

    def test_convert_beyond_size_limit_fails(self):
        data = disks.image('qcow2', 8 * disks.MIB, b'\1' * 8 * disks.MIB)
        self.failed('.', data, 'qcow2', most=disks.MIB)

    def test_convert_beyond_memory_limit_fails(self):
        self.failed('.', disks.image('qcow2'), 'qcow2', address_space=16 * disks.MIB)

    def test_convert_beyond_time_limit_fails(self):
        self.failed('within 0 seconds', disks.image('qcow2'), 'qcow2', conversion_seconds=0)
