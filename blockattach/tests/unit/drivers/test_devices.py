"""Properties of the file or block device behind a path."""
import os
import tempfile
import unittest

from blockattach.platform import disks
from blockattach.storage.domain import connection
from blockattach.storage.drivers import devices

_MIB = 1024 ** 2


class DevicesTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.path = self.enterContext(tempfile.NamedTemporaryFile(prefix='devices-')).name

    def test_punched_hole_not_allocated_and_reads_zeros(self):
        with open(self.path, 'r+b') as file:
            file.write(b'\5' * 4 * _MIB)
            os.fsync(file.fileno())
            before = devices.allocated(self.path)
            self.assertGreaterEqual(before, 4 * _MIB)
            disks.punch(file.fileno(), 0, 2 * _MIB)
            self.assertEqual(before - 2 * _MIB, devices.allocated(self.path))
            file.seek(0)
            self.assertEqual(bytes(2 * _MIB), file.read(2 * _MIB))
            self.assertEqual(b'\5' * 2 * _MIB, file.read())
        self.assertTrue(devices.discards(self.path))

    def test_path_without_discard_support(self):
        with open(self.path, 'rb') as file, self.assertRaises(OSError):
            disks.punch(file.fileno(), 0, _MIB)
        for path in ('/nowhere/at/all', '/dev/null', '/proc/version', os.path.dirname(self.path)):
            with self.subTest(path=path):
                self.assertFalse(devices.discards(path))

    def test_block_sizes_default_without_block_device(self):
        for path in (self.path, '/dev/null', '/nowhere/at/all'):
            self.assertEqual(connection.BlockSizes(512, 512), devices.block_sizes(path))
