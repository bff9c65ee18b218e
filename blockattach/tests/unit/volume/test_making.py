"""Creation of volumes from sources: unsupported stores, and long copies."""
import types
import unittest

from blockattach.platform import errors
from blockattach.storage.drivers import base
from blockattach.storage.drivers import loading
from blockattach.storage.drivers.stores import fake as fake_store
from blockattach.storage.drivers.targets import fake as fake_target
from blockattach.storage.volume import backends
from blockattach.storage.volume import volume_data
from blockattach.tests.conformance import settings
from blockattach.tests.unit.domain import test_sources


class Plain(fake_store.FakeStore):
    """Store that supports no clones."""

    clone = clone_snapshot = None


class PlainStoreTest(unittest.TestCase):

    def test_clone_unsupported_by_store_refused(self):
        chosen = settings.settings('/nowhere')
        backend = backends.KeptBackend(loading.Backend(
            'tested', chosen, Plain(chosen), fake_target.FakeTarget(chosen)))
        self.assertNotIsInstance(backend.store, base.Clone)
        volume = test_sources.source()
        with self.assertRaisesRegex(errors.BackendRefused, 'cannot clone volumes'):
            backend.clone(volume, volume, base.unlimited)
        with self.assertRaisesRegex(errors.BackendRefused, 'cannot clone snapshots'):
            backend.clone_snapshot('s', volume, volume, base.unlimited)


class MakerTest(unittest.TestCase):

    def test_create_from_source_takes_long(self):
        maker = volume_data.Maker(types.SimpleNamespace(
            database=None, backend=None, copied=None, cache=None))
        for source_volid, snapshot_id, expected in (
                (None, None, False), ('v', None, True), (None, 's', True)):
            found = types.SimpleNamespace(progress={}, volume=types.SimpleNamespace(
                source_volid=source_volid, snapshot_id=snapshot_id))
            self.assertIs(expected, maker.takes_long(found))
