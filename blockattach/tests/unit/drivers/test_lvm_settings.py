"""LVM options in the group of a backend."""
import unittest

from oslo_config import cfg

from blockattach.platform import errors
from blockattach.platform import units
from blockattach.storage.conf import backend
from blockattach.storage.drivers import base
from blockattach.storage.drivers.stores import lvm as lvm_stores
from blockattach.tests.conformance import settings

SNAPSHOTS = {'clone', 'clone_snapshot', 'manage', 'revert', 'snapshots'}


class LvmSettingsTest(unittest.TestCase):

    def settings(self, **options):
        conf = cfg.ConfigOpts()
        conf([], project='blockattach')
        backend.register(conf, 'fast')
        for name, value in options.items():
            conf.set_override(name, value, group='fast')
        return backend.settings(conf, 'fast', '/nowhere')

    def test_thin_pool_named_after_volume_group(self):
        lvm_settings = self.settings(store='lvm', volume_group='vg')
        self.assertEqual(
            ('thin', 'vg-pool'), (lvm_settings.lvm.lvm_type, lvm_settings.lvm.thin_pool))
        self.assertEqual(100 * units.MIB, lvm_settings.lvm.clear_bandwidth)

    def test_volume_clear_none_has_zero_bandwidth(self):
        lvm_settings = self.settings(store='lvm', volume_group='vg', volume_clear='none')
        self.assertEqual(0, lvm_settings.lvm.clear_bandwidth)

    def test_lvm_type_decides_capabilities(self):
        for lvm_type, more in (('thin', {'discard'}), ('thick', {'wipe'})):
            store = lvm_stores.load(
                self.settings(store='lvm', volume_group='vg', lvm_type=lvm_type))
            self.assertEqual(SNAPSHOTS | more, base.declared(store))

    def test_other_store_has_no_lvm_settings(self):
        self.assertIsNone(self.settings().lvm)
        with self.assertRaises(errors.ConfigurationError):
            lvm_stores.load(settings.settings('/nowhere'))
