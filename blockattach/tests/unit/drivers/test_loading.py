"""Loading of a backend by the names of its drivers, and its combined capabilities."""
import dataclasses
import unittest

from blockattach.platform import errors
from blockattach.storage.drivers import loading
from blockattach.storage.drivers.stores import fake as fake_store
from blockattach.storage.drivers.targets import fake as fake_target
from blockattach.tests.conformance import settings


class ReportingStore(fake_store.FakeStore):
    """Store with additional capabilities of its pool."""

    def __init__(self, settings, reported) -> None:
        super().__init__(settings)
        self._reported = reported

    def pools(self):
        return tuple(dataclasses.replace(found, capabilities={
            **found.capabilities, **self._reported}) for found in super().pools())


def _reporting(backend, reported):
    """Return a backend with a store that also reports these capabilities."""
    return dataclasses.replace(backend, store=ReportingStore(backend.settings, reported))


class LoadingTest(unittest.TestCase):
    def setUp(self) -> None:
        self.settings = dataclasses.replace(settings.settings('/nowhere'), store='fake',
                                            target='fake', volume_backend_name='fast')

    def test_drivers_loaded_by_name(self) -> None:
        backend = loading.load_backend(self.settings)
        self.assertIsInstance(backend.store, fake_store.FakeStore)
        self.assertIsInstance(backend.target, fake_target.FakeTarget)
        self.assertEqual('tested', backend.name)

    def test_unknown_driver_error_names_known_ones(self) -> None:
        for part in ('store', 'target'):
            with self.assertNoLogs('stevedore', 'WARNING'), self.assertRaisesRegex(
                    errors.ConfigurationError, f'{part} = tape .*fake'):
                loading.load_backend(dataclasses.replace(self.settings, **{part: 'tape'}))

    def test_pools_report_capabilities_of_store_and_target(self) -> None:
        [report] = loading.load_backend(self.settings).pools()
        self.assertEqual(1000.0, report.capabilities['total_capacity_gb'])
        self.assertEqual('fast', report.capabilities['volume_backend_name'])
        self.assertIs(True, report.capabilities['multiattach'])
        self.assertEqual('iSCSI', report.capabilities['storage_protocol'])
        self.assertIs(True, report.capabilities['online_extend_support'])
        self.assertEqual(['clone', 'clone_snapshot', 'disks', 'host_reservations', 'live_resize',
                          'manage', 'revert', 'snapshots'],
                         report.capabilities['driver_capabilities'])

    def test_multiattach_false_by_store_or_target(self) -> None:
        for target, reported, expected in (
                ('fake', {}, True), ('fake', {'multiattach': True}, True),
                ('fake', {'multiattach': False}, False), ('fake', {'multiattach': 'False'}, False),
                ('fake_single', {}, False), ('fake_single', {'multiattach': True}, False)):
            with self.subTest(target=target, reported=reported):
                backend = loading.load_backend(dataclasses.replace(self.settings, target=target))
                [report] = _reporting(backend, reported).pools()
                self.assertIs(expected, report.capabilities['multiattach'])

    def test_driver_capabilities_override_defaults(self) -> None:
        backend = loading.load_backend(self.settings)
        backend.target.storage_protocol = 'NVMe-oF'
        [report] = _reporting(backend, {'vendor_name': 'Example', 'driver_version': '7'}).pools()
        self.assertEqual(('NVMe-oF', 'Example', '7'), tuple(report.capabilities[name] for name in (
            'storage_protocol', 'vendor_name', 'driver_version')))

    def test_capabilities_joined_from_store_and_target(self) -> None:
        backend = loading.load_backend(dataclasses.replace(self.settings, target='tgt'))
        self.assertEqual({'clone', 'clone_snapshot', 'daemon', 'disks', 'manage', 'revert',
                          'snapshots', 'unmap'},
                         backend.capabilities)
