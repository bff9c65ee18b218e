"""Two ``blockattach-volume`` processes of a cluster with a tgtd that neither of them has started.

The fate of their work when a process dies, hangs or stops is tested in virtual time
(``blockattach/tests/simulation/test_cluster.py``).
"""
import os
import pathlib
import shutil
import signal

from blockattach.platform import errors
from blockattach.storage.domain import connection
from blockattach.storage.drivers.targets import tgt
from blockattach.storage.drivers.targets import tgtd
from blockattach.testing import stack
from blockattach.tests.conformance import settings
from blockattach.tests.fixtures import forks
from blockattach.tests.fixtures import rabbit
from blockattach.tests.functional import base
from blockattach.tests.functional import commands
from lab.system import processes

CLUSTER = 'shared'
MEMBERS = ('one', 'two')
BACKEND = f'{CLUSTER}@disks'
AGREE_SECONDS = 60
HOSTS = tuple(f'host-{number}' for number in range(6))
IN_USE = ('attached', 'attaching')


class ClusterTest(processes.ProcessesTestCase):

    def setUp(self):
        super().setUp()
        self.tgtd = tgtd.Tgtd(f'{self.folder}/storage', ('127.0.0.1',), stack.free_port())
        self.addCleanup(self.tgtd.stop)
        self.tgtd.start()
        port = int(self.tgtd.portals()[0].rpartition(':')[2])
        self.target = tgt.TgtTarget(settings.settings(
            f'{self.folder}/storage', port, self.tgtd.client().path))
        self.members = {}
        self.more = {
            ('service', 'cluster'): CLUSTER,
            ('service', 'report_interval'): '1',
            ('DEFAULT', 'seal_key_file'): f'{self.folder}/seal.key',
            ('volume', 'reconcile_interval'): '1',
            ('volume', 'backend_stats_polling_interval'): '2',
            ('disks', 'volumes_dir'): f'{self.folder}/volumes',
            ('disks', 'tgt_socket'): self.tgtd.client().path,
            ('disks', 'target_port'): str(port)}

    def configure(self, places):
        """Store the options, as `begin` adds those of `setUp` before it writes the file."""
        self.places = places

    def begin(self):
        broker = rabbit.RabbitFixture(self.places['DEFAULT', 'transport_url'],
                                      self.places['rpc', 'topic_prefix'])
        broker.serves('volume', BACKEND)
        for name in MEMBERS:
            broker.serves('process', f'cinder-volume.{name}')
        self.addCleanup(broker.close)
        # The members end before their queues are removed. A process that loses a queue would first
        # look for it.
        self.addCleanup(self.end_members)
        super().configure(self.places | self.more)
        self.assertEqual(0, self.run_once('manage', 'db', 'sync')[0])
        for name in ('scheduler', 'api'):
            self.start(name)
        for name in MEMBERS:
            self.members[name] = forks.Fork(['blockattach-volume', *self.member(name)],
                                            self.log_of(name))
        self.api = base.Api(f'http://127.0.0.1:{self.port}/v3')
        self.until_up()
        self.assertEqual(200, self.api.ask('POST', '/types', {'volume_type': {
            'name': 'multiattach', 'extra_specs': {'multiattach': '<is> True'}}})[0])

    def member(self, name):
        """Write the configuration of a member and return its arguments."""
        path = pathlib.Path(self.folder, f'{name}.conf')
        path.write_text(f'[DEFAULT]\nstate_path = {self.folder}/{name}\n'
                        f'[service]\nhost = {name}\n')
        return self.arguments('--config-file', str(path))

    def until_up(self):
        self.assertTrue(base.wait_for(lambda: self.states() == dict.fromkeys(MEMBERS, 'up'),
                                      AGREE_SECONDS))

    def end_members(self):
        for member in self.members.values():
            member.send_signal(signal.SIGTERM)
        for name, member in self.members.items():
            try:
                self.assertEqual(0, member.wait(stack.STOP_SECONDS), name)
            finally:
                member.kill()

    def services(self):
        try:
            return [one for one in self.api.list('services', '/os-services')
                    if one['binary'] == 'cinder-volume']
        except OSError:
            return []

    def states(self):
        return {one['host'].partition('@')[0]: one['state'] for one in self.services()}

    def log_of(self, name):
        return pathlib.Path(self.folder, f'{name}.log')

    def attach(self, volume_id, host):
        status, made = self.api.ask('POST', '/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': base.instance(host),
            'connector': base.connector(host)}})
        self.assertEqual(200, status, made)
        path = f'/attachments/{made["attachment"]["id"]}'
        self.assertEqual(204, self.api.ask('POST', f'{path}/action', {'os-complete': None})[0])
        return made['attachment']

    def disagreements(self):
        rows = self.api.list('attachments')
        names = {base.instance(host): base.connector(host)['initiator']
                 for host in (*HOSTS, 'steady')}
        wanted = {(row['volume_id'], names[row['instance']], connection.AccessMode.RW)
                  for row in rows if row['connection_info']}
        try:
            actual = {(grant.volume_id, grant.initiator, grant.mode)
                      for export in self.target.exports() for grant in export.grants}
        except errors.BackendError as exc:
            return [str(exc)]
        return ([f'{row["id"]} is {row["status"]}' for row in rows
                 if row['status'] not in IN_USE]
                + [f'target grants too much: {one}' for one in actual - wanted]
                + [f'target grants too little: {one}' for one in wanted - actual])

    def assert_agree(self, remaining=('steady',)):
        """Check that rows and target agree, and that only these hosts have attachments."""
        base.wait_for(lambda: not self.disagreements(), AGREE_SECONDS)
        self.assertEqual([], self.disagreements())
        wanted = {base.instance(host) for host in remaining}
        base.wait_for(lambda: {row['instance'] for row in self.api.list('attachments')}
                      == wanted, AGREE_SECONDS)
        self.assertEqual(wanted, {row['instance'] for row in self.api.list('attachments')})
        self.assertEqual(len(remaining), len([grant for export in self.target.exports()
                                              for grant in export.grants]))

    def test_the_tgtd_they_share_comes_back_empty(self):
        self.begin()
        volume = self.a_volume(self.api, volume_type='multiattach')
        for host in HOSTS:
            self.attach(volume, host)
        self.assert_agree(HOSTS)
        os.kill(self.tgtd.client().pid(), signal.SIGKILL)
        self.assertTrue(base.wait_for(lambda: all(
            'Failed to start target process' in member.text() for member in self.members.values()),
            AGREE_SECONDS))
        self.assertFalse(self.tgtd.running())
        self.tgtd.start()
        self.assert_agree(HOSTS)
        for name in MEMBERS:
            self.members[name].send_signal(signal.SIGTERM)
            self.assertEqual(0, self.members[name].wait(stack.STOP_SECONDS))
        self.assertTrue(self.tgtd.running())
        self.assertEqual(len(HOSTS), len([grant for export in self.target.exports()
                                          for grant in export.grants]))

    def test_member_without_shared_storage_options_rejected(self):
        for place, word in ((('disks', 'tgt_socket'), 'tgt_socket'),
                            (('disks', 'volumes_dir'), 'volumes_dir')):
            super().configure(self.places | {
                key: value for key, value in self.more.items() if key != place})
            self.run_once('manage', 'db', 'sync')
            done = commands.run('blockattach-volume', self.member('one'))
            self.assertEqual(1, done.status)
            self.assertIn(word, done.errors)
            self.assertNotIn('Traceback', done.errors)
        shutil.rmtree(f'{self.folder}/one', ignore_errors=True)
