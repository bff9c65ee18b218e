"""Capabilities of a backend."""
from blockattach.storage.db.services import services
from blockattach.storage.domain import binaries
from blockattach.tests.api import base
from blockattach.tests.fixtures import http

PROPERTIES = {'thin_provisioning', 'compression', 'qos', 'replication_enabled'}


class CapabilitiesTest(base.ApiTestCase):

    def show(self, host):
        return self.http.as_admin.get(f'/capabilities/{host}')

    def test_capabilities_show_reported_values(self):
        reply = self.show(http.HOST)
        self.assert_status(200, reply)
        self.assertEqual(PROPERTIES, reply.body.pop('properties').keys())
        self.assertEqual(
            {'namespace': f'OS::Storage::Capabilities::{http.HOST}', 'vendor_name': 'Open Source',
             'volume_backend_name': 'fake', 'pool_name': 'pool', 'driver_version': '1.0.0',
             'storage_protocol': 'iSCSI', 'display_name': None, 'description': None,
             'visibility': None, 'replication_targets': []}, reply.body)

    def test_capabilities_null_before_pools_reported(self):
        services.register(self.http.database, binaries.VOLUME, 'storage-2@fake', 'nova', 'x')
        reply = self.show('storage-2@fake')
        self.assert_status(200, reply)
        self.assertEqual((None, None), (reply.body['pool_name'], reply.body['vendor_name']))

    def test_capabilities_of_silent_backend_bad_gateway(self):
        self.sql("UPDATE services SET reported_at = '2020-01-01 00:00:00.000000'")
        reply = self.show(http.HOST)
        self.assert_status(502, reply)
        self.assertEqual('computeFault', reply.fault[0])

    def test_capabilities_of_unknown_host_not_found(self):
        for host in ('storage-9@fake', 'storage-1', 'storage-1@fake%23pool'):
            with self.subTest(host=host):
                self.assert_status(404, self.show(host))
