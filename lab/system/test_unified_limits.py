"""Limits of projects that a real Keystone stores."""
import tempfile

from oslo_config import cfg

from blockattach.platform import clock
from blockattach.tests.fixtures import keystone
from blockattach.tests.functional import base
from blockattach.wiring import limits
from blockattach.wiring import options
from lab.system import clouds

URL = 'http://127.0.0.1:8776/v3'


class UnifiedLimitsTest(base.StackTestCase):

    def setUp(self):
        super().setUp()
        self.keystone = clouds.started(keystone.Keystone)
        self.enterContext(self.keystone)
        self.identity = self.keystone.cloud().identity
        self.keystone.service('cinderv3', 'block-storage', URL)
        self.service = next(self.identity.services(type='block-storage'))
        self.endpoint = next(self.identity.endpoints(service_id=self.service.id))
        self.ours = {'service_id': self.service.id, 'region_id': keystone.REGION}

    def source(self):
        file = self.enterContext(tempfile.NamedTemporaryFile('w', suffix='.conf'))
        file.write(f'[quota]\nquota_driver = unified_limits\nunified_limits_seconds = 0\n'
                   f'[oslo_limit]\nendpoint_id = {self.endpoint.id}\n'
                   f'auth_type = password\nauth_url = {self.keystone.url}\nusername = admin\n'
                   f'password = {self.keystone.password}\nuser_domain_id = {keystone.DOMAIN}\n'
                   f'system_scope = all\nregion_name = {keystone.REGION}\n')
        file.flush()
        conf = cfg.ConfigOpts()
        options.register(conf)
        conf(['--config-file', file.name], default_config_dirs=[])
        return limits.source(conf, clock.Clock())

    def test_a_project_has_the_registered_limits_or_its_own(self):
        shop, other = map(self.keystone.project, ('shop', 'other'))
        found = self.source()
        self.assertEqual({}, found(shop))
        for name, limit in (('volumes', 10), ('gigabytes', 100)):
            self.identity.create_registered_limit(
                **self.ours, resource_name=name, default_limit=limit)
        self.identity.create_limit(**self.ours, project_id=shop, resource_name='volumes',
                                   resource_limit=3)
        self.assertEqual({'volumes': 3, 'gigabytes': 100}, found(shop))
        self.assertEqual({'volumes': 10, 'gigabytes': 100}, found(other))
