"""By HTTP basic authentication the account asks, which sees more than the caller may."""
import json
import unittest

from blockattach import context
from blockattach import errors
from blockattach.compute import storage
from blockattach.conf import compute as compute_conf
from blockattach.tests.fixtures import in_process
from blockattach.tests.functional.servers import cloud
from blockattach.tests.unit import samples

OTHER_PROJECT = '0' * 31 + '9'
PROJECT = 'os-vol-tenant-attr:tenant_id'


class VolumesTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.shown = {'id': samples.VOLUME, 'name': None, 'status': 'available', 'size': 1,
                      'multiattach': False, 'attachments': [], PROJECT: samples.PROJECT}
        settings = compute_conf.storage_settings(in_process.configuration({'block_storage': {
            'endpoint_override': cloud.ENDPOINT, 'username': 'compute', 'password': 'password'}}))
        self.volumes = storage.HttpVolumes(settings, cloud.carrying(self.answer, cloud.Cutting()))

    def answer(self, _environ, start_response):
        start_response('200 OK', [('Content-Type', 'application/json')])
        return [json.dumps({'volume': self.shown}).encode()]

    def get(self, project_id, **caller):
        return self.volumes.get(context.RequestContext(
            project_id=project_id, overwrite=False, **caller), samples.VOLUME)

    def test_of_its_project(self):
        self.assertEqual(samples.VOLUME, self.get(samples.PROJECT).id)

    def test_of_another_project(self):
        with self.assertRaises(errors.NotFound):
            self.get(OTHER_PROJECT)
        self.assertEqual(samples.VOLUME, self.get(OTHER_PROJECT, is_admin=True).id)

    def test_of_nobody_knows_which(self):
        del self.shown[PROJECT]
        with self.assertRaises(errors.NotFound):
            self.get(samples.PROJECT)
