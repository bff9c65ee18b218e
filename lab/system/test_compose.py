"""Services of `etc/container/compose.yaml`, started in order with their commands."""
import tempfile

from openstack import connection

from blockattach.storage.drivers.targets import tgtd
from blockattach.tests.fixtures import keystone
from blockattach.tests.fixtures import polling
from blockattach.tests.fixtures import servers
from blockattach.tests.functional import base
from lab.system import clouds
from lab.system import composed


class ComposeTest(base.StackTestCase):

    def setUp(self):
        super().setUp()
        self.outside_program(tgtd.program(), 'tgtd')
        folder = tempfile.TemporaryDirectory(prefix='blockattach-')
        self.addCleanup(folder.cleanup)
        self.site = clouds.started(composed.Composition, folder=folder.name)
        # In a container this process would end with the container.
        self.addCleanup(tgtd.Tgtd(f'{folder.name}/state', (servers.LOOPBACK,),
                                  self.site.target_port).stop)
        self.addCleanup(self.site.close)

    def administrator(self):
        """Return a connection of the administrator, which uses the catalog of the composition."""
        return connection.Connection(
            region_name=keystone.REGION, auth={
                'auth_url': f'http://{servers.LOOPBACK}:{self.site.keystone_port}',
                'username': 'admin', 'password': self.site.secret('keystone-admin-password'),
                'project_name': 'admin', 'user_domain_id': keystone.DOMAIN,
                'project_domain_id': keystone.DOMAIN})

    def test_its_services_are_a_cloud(self):
        self.site.start_servers()
        ours = [name for name in self.site.order if name not in composed.OF_OTHERS]
        for name in ours:
            self.site.begin(name)
        # The next "compose up" also runs these services again.
        for name in ours:
            if name not in self.site.running:
                self.site.begin(name)
        self.check_attaches(self.administrator().block_storage)
        running = [name for name in ours if name in self.site.running]
        self.assertEqual({'api', 'control', 'keystone', 'scheduler', 'volume'}, set(running))
        self.assertEqual(dict.fromkeys(running, True),
                         {name: self.site.is_healthy(name) for name in running})
        ended = {name: self.site.end(name) for name in reversed(running)}
        self.assertEqual(dict.fromkeys(running, 0), ended)
        for name in ours:
            with self.subTest(name):
                said = self.site.log(name).read_text('utf-8', 'replace')
                self.assertNotIn('Traceback', said)
                self.assertNotIn('Ignoring unknown option', said)
        self.assertEqual(set(), self.site.unused())

    def check_attaches(self, storage):
        self.assertEqual(f'http://{servers.LOOPBACK}:{self.site.api_port}/v3',
                         storage.get_endpoint())
        polling.until(lambda: {one.binary for one in storage.services() if one.state == 'up'}
                      == {'cinder-scheduler', 'cinder-volume'})
        volume = storage.create_volume(size=1)
        storage.wait_for_status(volume, 'available', wait=clouds.SECONDS)
        made = storage.create_attachment(volume, instance=base.instance('one'),
                                         connector=base.connector('one'))
        self.assertEqual(f'{servers.LOOPBACK}:{self.site.target_port}',
                         storage.get_attachment(made).connection_info['target_portal'])
        storage.complete_attachment(made)
        self.assertEqual('in-use', storage.get_volume(volume).status)
        storage.delete_attachment(made)
        self.assertEqual('available', storage.get_volume(volume).status)
        storage.delete_volume(volume)
        storage.wait_for_delete(volume, wait=clouds.SECONDS)
