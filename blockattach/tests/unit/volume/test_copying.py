"""Copying of volumes between file stores."""
import dataclasses
import tempfile
import unittest

from blockattach.platform import disks
from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.platform import units
from blockattach.storage.drivers import loading
from blockattach.storage.drivers.stores import file
from blockattach.storage.drivers.targets import fake
from blockattach.storage.volume import backends
from blockattach.storage.volume import volume_data
from blockattach.testing import backend
from blockattach.tests.unit import samples

# At the begin, across two pieces, and at the very end.
BYTES = {0: b'begin', 3 * disks.PIECE - 2: b'across', units.GIB - 3: b'end'}


class CopyingTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.here, self.there = self.backend('here'), self.backend('there')
        self.volume = samples.volume(size_gb=1, pool='storage-1@here#tested')
        self.copy = dataclasses.replace(self.volume, pool='storage-1@there#tested')
        self.here.create(self.volume)
        self.there.create(self.copy)
        self.write(self.here, self.volume, BYTES)

    def backend(self, name):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        settings = backend.settings(folder.name, name=name)
        made = file.FileStore(settings)
        made.check()
        return backends.KeptBackend(loading.Backend(
            name, settings, made, fake.FakeTarget(settings)))

    def write(self, kept, volume, pieces):
        with open(kept.store.device(backends._stored(volume)), 'r+b') as disk:
            for offset, piece in pieces.items():
                disk.seek(offset)
                disk.write(piece)

    def read(self, kept, volume):
        with open(kept.store.device(backends._stored(volume)), 'rb') as disk:
            found = {}
            for offset, piece in BYTES.items():
                disk.seek(offset)
                found[offset] = disk.read(len(piece))
            return found

    def run_copy(self, copied=lambda length: None):
        volume_data.copy_volume(self.here, self.volume, self.there, self.copy, copied)

    def test_copy_keeps_bytes_and_holes(self):
        lengths = []
        self.run_copy(lengths.append)
        self.assertEqual(BYTES, self.read(self.there, self.copy))
        self.assertEqual(BYTES, self.read(self.here, self.volume))
        # What is a hole is neither read nor written; the rest is read here and there.
        self.assertLess(sum(lengths), 16 * disks.PIECE)
        self.assertLess(self.there.store.allocated_bytes(backends._stored(self.copy))
                        if hasattr(self.there.store, 'allocated_bytes') else 0, units.GIB // 2)

    def test_copy_with_changed_byte_refused(self):
        for offset in (0, 3 * disks.PIECE, 7 * disks.PIECE + 5, units.GIB - 1):
            with self.subTest(offset):
                failpoints.arm('volume.moving.before_verify', lambda offset=offset: self.write(
                    self.there, self.copy, {offset: b'x'}))
                self.addCleanup(failpoints.disarm, 'volume.moving.before_verify')
                with self.assertRaisesRegex(errors.BackendRefused, 'differs from the original'):
                    self.run_copy()
                failpoints.disarm('volume.moving.before_verify')
                self.there.delete(self.copy)
                self.there.create(self.copy)

    def test_copy_ended_by_error_of_pace(self):
        def end(length):
            raise errors.BackendUncertain(reason='the process ends')
        self.assertRaises(errors.BackendUncertain, self.run_copy, end)
        self.assertEqual(BYTES, self.read(self.here, self.volume))

    def test_is_one_disk_recognizes_same_file(self):
        self.assertFalse(backends.is_one_disk(self.here, self.volume, self.there, self.copy))
        self.assertTrue(backends.is_one_disk(self.here, self.volume, self.here, self.copy))
        self.there.delete(self.copy)
        self.assertFalse(backends.is_one_disk(self.here, self.volume, self.there, self.copy))

    def test_open_of_too_short_disk_raises(self):
        with self.assertRaises(OSError):
            disks.Device(self.here.store.device(backends._stored(self.volume)), 2 * units.GIB,
                         False)
