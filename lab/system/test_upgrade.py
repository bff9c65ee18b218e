"""This release and the next one side by side under load, as in doc/source/admin/upgrade.rst."""
import tempfile

from blockattach.storage.drivers.targets import tgtd
from blockattach.storage.rpc import history
from blockattach.testing import scsi
from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import next_release
from blockattach.tests.fixtures import rabbit
from blockattach.tests.fixtures import servers
from blockattach.tests.functional import base
from lab.system import site
from lab.system import streams
from lab.system import test_servers

OLD, NEW = 'storage-1', 'storage-2'
CLASSIC = '?rabbit_quorum_queue=false&rabbit_transient_quorum_queue=false'
CYCLES = 2
BLOCKS = 20


class UpgradeTest(base.StackTestCase):

    def setUp(self):
        super().setUp()
        self.outside_program(tgtd.program(), 'tgtd')
        self.outside_program(scsi.available(), 'libiscsi')
        self.outside_program(rabbit.why_missing() is None, 'RabbitMQ')
        self.outside_program(database.why_missing(database.MYSQL) is None, 'MariaDB')
        folder = tempfile.TemporaryDirectory(prefix='blockattach-')
        self.addCleanup(folder.cleanup)
        self.next = next_release.make(f'{folder.name}/next')
        rows = database.DatabaseFixture(database.MYSQL, migrated=False)
        self.addCleanup(rows.close)
        self.broker = rabbit.RabbitFixture()
        self.addCleanup(self.broker.close)
        for host in (OLD, NEW):
            self.broker.serves('scheduler', host)
            self.broker.serves('volume', f'{host}@disks')
        self.site = site.Site(folder.name, rows.url)
        self.addCleanup(self.site.close)
        self.apis = {}
        self.balancer = site.Balancer()
        self.clients = site.Clients(self.balancer.ask)
        self.addCleanup(self.clients.end)

    def test_not_one_request_fails(self):
        moved_to = test_servers.made(servers.RABBITMQ)
        self.addCleanup(moved_to.close)
        moved_to.start()
        names = self.broker.options()
        classic = self.broker.url + CLASSIC
        # Names of the steps in the upgrade guide.
        pinned = {**names, ('DEFAULT', 'transport_url'): classic,
                  ('rpc', 'release'): history.RELEASES[-1].name,
                  ('rpc', 'second_transport_url'): moved_to.url}
        lifted = {**names, ('DEFAULT', 'transport_url'): moved_to.url,
                  ('rpc', 'second_transport_url'): classic}
        moved = {**names, ('DEFAULT', 'transport_url'): moved_to.url}

        self.begin_old({**names, ('DEFAULT', 'transport_url'): classic})
        self.site.configure(NEW, pinned)
        self.check(2, 'db sync --expand')
        self.manage('db', 'sync', '--expand')
        self.check(1, 'Services of an older release')
        self.begin(NEW, self.next)
        self.choose('disable', OLD)
        self.attach_on(NEW)
        writer = self.a_writer(NEW)
        self.choose('enable', OLD)
        self.go_on()
        # This is the last host of the older release. After its replacement the pin is not needed.
        self.replace(OLD, lifted)
        self.check(1, 'set the option to auto')
        self.goes_on(writer)
        target = self.site.target(NEW).pid()
        self.replace(NEW, moved)
        self.goes_on(writer)
        self.assertEqual(target, self.site.target(NEW).pid())
        self.replace(OLD, moved)
        self.manage('db', 'online_data_migrations')
        self.manage('db', 'sync', '--contract')
        self.check(0, '')
        self.go_on()
        self.clients.end()
        self.assertEqual([], self.clients.failures, self.site.complaints())
        self.goes_on(writer)
        writer.close()
        self.assertEqual([], writer.wrong)
        self.clients.expect(200, 'DELETE', self.written)
        for volume in self.apis[NEW].list('volumes'):
            self.assertEqual(('available', []), (volume['status'], volume['attachments']))
        for host in (OLD, NEW):
            self.assertEqual({}, self.site.stop(host))
            self.assertEqual('', self.site.tracebacks(host))

    def begin_old(self, settings):
        """Start this release on one host, with clients."""
        self.site.configure(OLD, settings)
        self.assertEqual(0, self.site.run(OLD, 'manage', 'db', 'sync')[0])
        self.begin(OLD, site.sources.ROOT)
        self.clients.expect(200, 'POST', '/types', {'volume_type': {
            'name': 'multiattach', 'extra_specs': {'multiattach': '<is> True'}}})
        self.attach_on(OLD)
        self.clients.begin('volumes', self.clients.make_and_remove)
        self.go_on()

    def begin(self, host, code):
        """Start the processes of a host, and add its API to the balancer once they are up."""
        self.site.start(host, code)
        api = self.apis[host] = base.Api(
            f'http://{servers.LOOPBACK}:{self.site.port(host)}/v3', site.SECONDS)
        is_up = self.site.living(host, api)
        self.assertTrue(base.wait_for(lambda: self.site.ended() or is_up(), site.SECONDS))
        self.assertEqual([], self.site.ended())
        self.balancer.use(host, api)

    def replace(self, host, settings):
        """Replace the release of a host as an operator does."""
        self.balancer.drain(host)
        self.assertEqual({}, self.site.stop(host))
        self.site.configure(host, settings)
        self.begin(host, self.next)
        self.go_on()

    def attach_on(self, host):
        """Start clients of a volume and of a shared volume on a host's backend."""
        for number, wanted in enumerate(({}, {'volume_type': 'multiattach'}), 1):
            volume_id = self.clients.volume(**wanted)
            shown = self.clients.expect(200, 'GET', f'/volumes/{volume_id}')['volume']
            self.assertEqual(f'{host}@disks', shown['os-vol-host-attr:host'].partition('#')[0])
            for client in range(number):
                name = f'client-{number}{client}.{host}'
                self.clients.begin(name, self.clients.attach_and_detach, volume_id, name)

    def a_writer(self, host):
        """Attach a volume on a host's backend, and start a host that writes to the volume."""
        made = self.clients.expect(200, 'POST', '/attachments', {'attachment': {
            'volume_uuid': self.clients.volume(), 'instance_uuid': base.instance('writer'),
            'connector': base.connector('writer')}})['attachment']
        self.written = f'/attachments/{made["id"]}'
        self.clients.expect(204, 'POST', f'{self.written}/action', {'os-complete': {}})
        self.assertIn(f':{self.site.port(host, "target")}',
                      made['connection_info']['target_portal'])
        writer = streams.Stream('writer', made['connection_info'], 0)
        self.addCleanup(writer.close)
        return writer

    def goes_on(self, writer):
        """Check that the writer continues to write."""
        wanted = writer.count + BLOCKS
        self.assertTrue(base.wait_for(
            lambda: writer.wrong or writer.count >= wanted, site.SECONDS), writer.count)
        self.assertEqual([], writer.wrong)

    def choose(self, verb, host):
        """Enable or disable the backend of a host for new volumes."""
        self.assertEqual(200, self.apis[NEW].ask('PUT', f'/os-services/{verb}', {
            'binary': 'cinder-volume', 'host': f'{host}@disks'})[0])

    def go_on(self):
        """Wait until each client has completed more cycles, without a failure."""
        before = dict(self.clients.done)
        self.assertTrue(base.wait_for(lambda: self.clients.failures or all(
            self.clients.done[name] >= before.get(name, 0) + CYCLES
            for name in self.clients.names), site.SECONDS), self.clients.done)
        self.assertEqual([], self.clients.failures, self.site.complaints())

    def check(self, status, words):
        """Run `blockattach-status upgrade check` with the configuration of the newer host."""
        found, said = self.site.run(NEW, 'status', 'upgrade', 'check', '--json',
                                    code=self.next)
        self.assertEqual(status, found, said)
        self.assertIn(words, said)

    def manage(self, *arguments):
        """Run a command of the next release, which must succeed."""
        status, words = self.site.run(NEW, 'manage', *arguments, code=self.next)
        self.assertEqual(0, status, words)
