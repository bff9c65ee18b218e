"""Connection information that a backend adds to that of the target."""
import dataclasses
import types
import unittest

from blockattach.storage.domain import connection
from blockattach.storage.drivers import base
from blockattach.storage.drivers import loading
from blockattach.storage.drivers.stores import fake as fake_store
from blockattach.storage.drivers.stores import file
from blockattach.storage.drivers.targets import fake as fake_target
from blockattach.storage.drivers.targets import tgt
from blockattach.storage.volume import backends
from blockattach.testing import backend
from blockattach.tests.conformance import settings

_MADE = connection.Connection('iscsi', ('192.0.2.1:3260',), 'iqn.2010-10.org.openstack:v', 1)


class Native(fake_target.FakeTarget):
    """Target that reports given block sizes."""

    sizes = connection.BlockSizes(4096, 8192)

    def block_sizes(self, device):
        return self.sizes


class ForConsumerTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.settings = settings.settings(settings.folder(self))

    def facts(self, store, target, limits=None, **changes):
        """Return the connection information of a volume on a backend."""
        settings = dataclasses.replace(self.settings, **changes)
        stored = base.StoredVolume('an-id', 'volume-an-id', 1, 'tested')
        backend = loading.Backend('tested', settings, store(settings), target(settings))
        backend.store.check()
        backend.store.create(stored)
        device = backend.store.device(stored)
        volume = types.SimpleNamespace(limits=limits)
        export = connection.Export('an-id', 'volume-an-id', device, 1)
        return backends.KeptBackend(backend).for_consumer(_MADE, export, volume).to_dict()

    def more(self, *arguments, **changes):
        facts = self.facts(*arguments, **changes)
        self.assertLessEqual(_MADE.to_dict().items(), facts.items())
        return {key: value for key, value in facts.items() if key not in _MADE.to_dict()}

    def test_default_connection_has_no_additions(self):
        self.assertEqual({}, self.more(file.FileStore, tgt.TgtTarget))

    def test_discard_reported_if_supported_and_enabled(self):
        wanted = {'report_discard_supported': True}
        self.assertEqual({'discard': True}, self.more(file.FileStore, tgt.TgtTarget, **wanted))
        self.assertEqual({}, self.more(file.FileStore, fake_target.FakeTarget, **wanted))
        self.assertEqual({}, self.more(fake_store.FakeStore, tgt.TgtTarget, **wanted))

    def test_unusual_block_sizes_reported(self):
        self.assertEqual({'logical_block_size': '4096', 'physical_block_size': '8192'},
                         self.more(file.FileStore, Native))

    def test_usual_block_sizes_omitted(self):
        class Usual(Native):
            sizes = connection.BlockSizes(512, 4096)

        self.assertEqual({}, self.more(file.FileStore, Usual))

    def test_qos_specs_reported(self):
        self.assertEqual({'qos_specs': {'total_iops_sec': 5}},
                         self.more(file.FileStore, tgt.TgtTarget, {'total_iops_sec': 5}))
        self.assertEqual({'qos_specs': {}}, self.more(file.FileStore, tgt.TgtTarget, {}))


class FactsTest(unittest.TestCase):

    def test_target_capabilities_of_driver(self):
        for target, expected in ((fake_target.FakeTarget, True),
                                 (fake_target.SingleHostTarget, False)):
            kept = backend.FakeBackend(target=target)
            self.assertEqual((expected, 'iSCSI'),
                             (kept.target.multiattach, kept.target.storage_protocol))
            self.assertEqual([expected], [
                one.capabilities['multiattach'] for one in kept.loaded.pools()])
