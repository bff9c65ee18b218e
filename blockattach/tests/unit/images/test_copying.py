"""Copying of disks: holes are skipped, and old data is cleared."""
import errno
import os
import tempfile
import unittest

from blockattach.platform import disks as pieces
from blockattach.storage.images import moving
from blockattach.tests.fixtures import disks


class CopyingTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.source, self.target = f'{folder.name}/source', f'{folder.name}/target'
        self.copied = []

    def put(self, path, data, size):
        with open(path, 'wb') as file:
            file.write(data)
            file.truncate(size)

    def disk(self, path, size, **more):
        opened = pieces.Device(path, size, True, **more)
        self.addCleanup(opened.close)
        return opened

    def content(self):
        with open(self.target, 'rb') as file:
            return file.read()

    def test_write_skips_empty_blocks(self):
        size, end = 8 * disks.MIB, b'the end'
        self.put(self.source, disks.CONTENT, size - len(end))
        with open(self.source, 'ab') as file:
            file.write(end)
        self.put(self.target, b'', 9 * disks.MIB)
        notes = []
        moving.write(self.source, self.disk(self.target, 9 * disks.MIB), self.copied.append,
                     notes.append)
        self.assertEqual(disks.CONTENT.ljust(size - len(end), b'\0') + end
                         + bytes(disks.MIB), self.content())
        self.assertLess(os.stat(self.target).st_blocks * 512, 4 * disks.MIB)
        self.assertEqual(size, max(notes))
        self.assertLessEqual(sum(self.copied), 3 * disks.MIB)

    def test_open_of_missing_device_creates_no_file(self):
        with self.assertRaises(FileNotFoundError):
            self.disk(self.target, 0)
        self.assertFalse(os.path.exists(self.target))

    def test_save_copies_disk(self):
        self.put(self.source, disks.CONTENT, 3 * disks.MIB)
        moving.save(self.disk(self.source, 3 * disks.MIB), 3 * disks.MIB, self.target,
                    self.copied.append, lambda _: None)
        self.assertEqual(disks.CONTENT.ljust(3 * disks.MIB, b'\0'), self.content())
        self.assertEqual(disks.MIB, sum(self.copied))

    def test_read_returns_holes_as_zeros(self):
        self.put(self.source, b'', disks.MIB)
        with open(self.source, 'ab') as file:
            file.write(disks.CONTENT)
        size = 5 * disks.MIB + 1
        os.truncate(self.source, size)
        self.assertEqual((bytes(disks.MIB) + disks.CONTENT).ljust(size, b'\0'), b''.join(
            moving.read(self.disk(self.source, size), size, self.copied.append)))
        self.assertEqual(disks.MIB, sum(self.copied))

    def test_open_of_too_small_device_raises(self):
        self.put(self.source, b'', disks.MIB)
        with self.assertRaises(OSError):
            self.disk(self.source, 2 * disks.MIB)

    def test_clear_overwrites_disk_with_and_without_discard(self):
        def cannot(file, offset, length):
            raise OSError(errno.EOPNOTSUPP, 'no holes')

        for punch in (pieces.punch, cannot):
            self.put(self.target, b'\1' * 3 * disks.MIB, 3 * disks.MIB)
            moving.clear(self.disk(self.target, 3 * disks.MIB, punch=punch), 3 * disks.MIB,
                         self.copied.append)
            self.assertEqual(bytes(3 * disks.MIB), self.content())
        self.assertEqual(3 * disks.MIB, sum(self.copied))

    def test_clear_of_failing_disk_raises(self):
        def fails(file, offset, length):
            raise OSError(errno.EIO, 'broken')

        self.put(self.target, b'\1', 1)
        with self.assertRaises(OSError):
            moving.clear(self.disk(self.target, 1, punch=fails), 1, self.copied.append)
