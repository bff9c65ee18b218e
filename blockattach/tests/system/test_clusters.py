"""Two ``blockattach-volume`` of one cluster share a tgtd; one dies, or is paused, under load."""
import os
import pathlib
import shutil
import signal
import subprocess
import threading

import sqlalchemy as sa

from blockattach import errors
from blockattach.domain import connection
from blockattach.drivers.targets import tgt
from blockattach.drivers.targets import tgtd
from blockattach.testing import initiator
from blockattach.testing import stack
from blockattach.tests.conformance import settings
from blockattach.tests.fixtures import rabbit
from blockattach.tests.functional import base
from blockattach.tests.functional import processes

CLUSTER = 'shared'
MEMBERS = ('one', 'two')
BACKEND = f'{CLUSTER}@disks'
LEASE_SECONDS = 10
# For tests that wait until the time of somebody is over; who lives and is slow has all of it.
BRIEF = {('rpc', 'call_timeout'): '8', ('control', 'backend_seconds'): str(LEASE_SECONDS),
         ('service', 'service_down_time'): '12'}
AGREE_SECONDS = 60
HOSTS = tuple(f'host-{number}' for number in range(6))
CYCLES = 102
# Nobody waits for it.
LONG = '3600'
IN_USE = ('attached', 'attaching')


class Load:
    """Hosts that attach and detach until so many cycles were ended; each says what was odd."""

    def __init__(self, api, volumes, cycles):
        self.odd = []
        self.retried = 0
        self.ended = 0
        self._api = api
        self._cycles = cycles
        self._changed = threading.Condition()
        self._threads = [threading.Thread(target=self._repeat, args=(
            host, volumes[number % len(volumes)])) for number, host in enumerate(HOSTS)]

    def start(self):
        for thread in self._threads:
            thread.start()

    def wait_for(self, cycles, seconds):
        """Whether so many have ended within that time."""
        with self._changed:
            return self._changed.wait_for(lambda: self.ended >= cycles, seconds)

    def join(self, seconds):
        for thread in self._threads:
            thread.join(seconds)
        return not any(thread.is_alive() for thread in self._threads)

    def _repeat(self, host, volume_id):
        while True:
            with self._changed:
                if self.ended >= self._cycles:
                    return
            self._cycle(host, volume_id)
            with self._changed:
                self.ended += 1
                self._changed.notify_all()

    def _cycle(self, host, volume_id):
        made = self._ask((200,), 'POST', '/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': base.instance(host),
            'connector': base.connector(host)}})
        if made is None:
            return
        path = f'/attachments/{made["attachment"]["id"]}'
        self._ask((204,), 'POST', f'{path}/action', {'os-complete': None})
        while self._ask((200, 404), 'DELETE', path) is None:
            pass

    def _ask(self, expected, method, path, body=None):
        """The answer; None: try again. Whatever else is answered is odd."""
        try:
            status, answer = self._api.ask(method, path, body)
        except OSError:
            status, answer = 504, None
        if status in expected:
            return answer or {}
        with self._changed:
            self.retried += 1
            if status < 500 and status != 409:
                self.odd.append((method, path, status, answer))
        return None


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
        """Kept: what the setup above adds comes later."""
        self.places = places

    def begin(self, members=MEMBERS, armed='', patience=0):
        """``armed``: failpoints of the members; ``patience``: how long they may take to end."""
        broker = rabbit.RabbitFixture(self.places['DEFAULT', 'transport_url'],
                                      self.places['rpc', 'topic_prefix'])
        broker.serves('volume', BACKEND)
        for name in MEMBERS:
            broker.serves('process', f'cinder-volume.{name}')
        self.addCleanup(broker.close)
        # Before their queues are removed: who loses one on his way out first looks for it.
        self.addCleanup(self.end_members)
        super().configure(self.places | self.more)
        self.assertEqual(0, self.run_once('manage', 'db', 'sync')[0])
        for name in ('scheduler', 'api'):
            self.start(name)
        for name in members:
            self.start_member(name, armed, patience)
        self.api = base.Api(f'http://127.0.0.1:{self.port}/v3')
        self.until_up(members)
        self.assertEqual(200, self.api.ask('POST', '/types', {'volume_type': {
            'name': 'multiattach', 'extra_specs': {'multiattach': '<is> True'}}})[0])

    def member_command(self, name, patience=0):
        path = pathlib.Path(self.folder, f'{name}.conf')
        path.write_text(f'[DEFAULT]\nstate_path = {self.folder}/{name}\n'
                        f'graceful_shutdown_timeout = {patience}\n'
                        f'[service]\nhost = {name}\n')
        return self.command('volume', '--config-file', str(path),
                            '--log-file', f'{self.folder}/{name}.log')

    def start_member(self, name, armed='', patience=0):
        self.members[name] = subprocess.Popen(
            self.member_command(name, patience), env={**os.environ, 'OS_FAILPOINTS__ARMED': armed})

    def until_up(self, members=MEMBERS):
        self.assertTrue(base.wait_for(lambda: self.states() == dict.fromkeys(members, 'up'),
                                      AGREE_SECONDS))

    def stop_member(self, name):
        """In order; how it ended."""
        member = self.members.pop(name)
        member.send_signal(signal.SIGTERM)
        try:
            return member.wait(stack.STOP_SECONDS)
        finally:
            member.kill()
            member.wait()

    def end_members(self):
        for member in self.members.values():
            member.send_signal(signal.SIGCONT)
            member.send_signal(signal.SIGTERM)
        for name, member in self.members.items():
            try:
                self.assertEqual(0, member.wait(stack.STOP_SECONDS), name)
            finally:
                member.kill()
                member.wait()

    def kill(self, name):
        member = self.members.pop(name)
        member.kill()
        member.wait()

    def services(self):
        try:
            return [one for one in self.api.list('services', '/os-services')
                    if one['binary'] == 'cinder-volume']
        except OSError:
            return []

    def states(self):
        return {one['host'].partition('@')[0]: one['state'] for one in self.services()}

    def log_of(self, name):
        return pathlib.Path(self.folder, f'{name}.log').read_text('utf-8', 'replace')

    def let_in(self):
        """How many each member has let in, by its log."""
        return {name: self.log_of(name).count('Initiator is let in') for name in MEMBERS}

    def attach(self, volume_id, host):
        status, made = self.api.ask('POST', '/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': base.instance(host),
            'connector': base.connector(host)}})
        self.assertEqual(200, status, made)
        path = f'/attachments/{made["attachment"]["id"]}'
        self.assertEqual(204, self.api.ask('POST', f'{path}/action', {'os-complete': None})[0])
        return made['attachment']

    def steady(self, volume_id):
        """A host that stays: its session, where this machine has an initiator."""
        made = self.attach(volume_id, 'steady')
        if not initiator.available():
            return None
        session = initiator.Initiator(base.connector('steady')['initiator'], 60).open(
            made['connection_info'])
        self.addCleanup(session.close)
        session.write(0, 4096, 1)
        return session

    def nexus(self):
        """The sessions of the host that stays, as tgtd numbers them."""
        name = base.connector('steady')['initiator']
        return [(target.name, session.sid) for target in self.tgtd.client().targets()
                for session in target.sessions if session.initiator == name]

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
                + [f'target lets in too much: {one}' for one in actual - wanted]
                + [f'target lets in too little: {one}' for one in wanted - actual])

    def assert_agree(self, left=('steady',)):
        """Rows and target say the same, and nothing is left but these hosts."""
        base.wait_for(lambda: not self.disagreements(), AGREE_SECONDS)
        self.assertEqual([], self.disagreements())
        wanted = {base.instance(host) for host in left}
        base.wait_for(lambda: {row['instance'] for row in self.api.list('attachments')}
                      == wanted, AGREE_SECONDS)
        self.assertEqual(wanted, {row['instance'] for row in self.api.list('attachments')})
        self.assertEqual(len(left), len([grant for export in self.target.exports()
                                         for grant in export.grants]))

    def two_volumes(self):
        return [self.a_volume(self.api, volume_type='multiattach') for _ in range(2)]

    def test_one_is_killed_under_load_and_comes_back(self):
        self.more |= BRIEF
        self.begin()
        self.assertEqual({BACKEND}, {one['cluster'] for one in self.services()})
        volumes = self.two_volumes()
        for volume_id in volumes:
            shown = self.api.ask('GET', f'/volumes/{volume_id}')[1]['volume']
            self.assertEqual(BACKEND, shown['os-vol-host-attr:host'].partition('#')[0])
        pools = self.api.ask('GET', '/scheduler-stats/get_pools')[1]['pools']
        self.assertEqual([f'{BACKEND}#disks'], [pool['name'] for pool in pools])
        session, nexus = self.steady(volumes[0]), self.nexus()
        load = Load(self.api, volumes, CYCLES)
        load.start()
        self.assertTrue(load.wait_for(CYCLES // 2, AGREE_SECONDS * 2), load.odd)
        for name, number in self.let_in().items():
            self.assertGreater(number, 0, name)
        self.kill('two')
        self.assertTrue(load.join(AGREE_SECONDS * 2))
        self.assertEqual([], load.odd)
        self.assert_agree()
        self.assertTrue(base.wait_for(
            lambda: self.states() == {'one': 'up', 'two': 'down'}, AGREE_SECONDS))
        self.assertEqual({'up'}, {one['backend_state'] for one in self.services()})
        self.a_volume(self.api)
        self.start_member('two')
        self.until_up()
        again = Load(self.api, volumes, len(HOSTS) * 2)
        again.start()
        self.assertTrue(again.join(AGREE_SECONDS * 2))
        self.assertEqual(([], 0), (again.odd, again.retried))
        self.assert_agree()
        if session is not None:
            session.write(4096, 4096, 2)
            self.assertTrue(session.read(0, 4096, 1))
        self.assertEqual(nexus, self.nexus())

    def test_one_is_paused_for_longer_than_its_turns(self):
        self.more |= BRIEF
        self.begin()
        volumes = self.two_volumes()
        session, nexus = self.steady(volumes[0]), self.nexus()
        load = Load(self.api, volumes, CYCLES)
        load.start()
        self.assertTrue(load.wait_for(len(HOSTS) * 2, AGREE_SECONDS), load.odd)
        base.pause(self.members['two'])
        # Seen by others: longer ago than its turns last.
        self.assertTrue(base.wait_for(lambda: self.states().get('two') == 'down',
                                      AGREE_SECONDS))
        load.wait_for(load.ended + len(HOSTS), LEASE_SECONDS)
        self.members['two'].send_signal(signal.SIGCONT)
        self.assertTrue(load.join(AGREE_SECONDS * 2))
        self.assertEqual([], load.odd)
        self.assert_agree()
        self.until_up()
        if session is not None:
            self.assertTrue(session.read(0, 4096, 1))
        self.assertEqual(nexus, self.nexus())

    def test_the_tgtd_they_share_comes_back_empty(self):
        self.begin()
        volumes = self.two_volumes()
        for host in HOSTS:
            self.attach(volumes[0], host)
        self.assert_agree(HOSTS)
        os.kill(self.tgtd.client().pid(), signal.SIGKILL)
        self.assertTrue(base.wait_for(lambda: all(
            'it is waited for' in self.log_of(name) for name in MEMBERS), AGREE_SECONDS))
        self.assertFalse(self.tgtd.running())
        self.tgtd.start()
        self.assert_agree(HOSTS)
        for name in MEMBERS:
            self.members[name].send_signal(signal.SIGTERM)
            self.assertEqual(0, self.members[name].wait(stack.STOP_SECONDS))
        self.assertTrue(self.tgtd.running())
        self.assertEqual(len(HOSTS), len([grant for export in self.target.exports()
                                          for grant in export.grants]))

    def owners(self, table):
        """Who is at work on the rows of a table."""
        with self.rows.database.reader() as connection:
            return list(connection.execute(sa.text(f'SELECT owner FROM {table}')).scalars())

    def taken(self, table):
        """How many are the first member's."""
        return len([owner for owner in self.owners(table)
                    if (owner or '').startswith('one@disks/')])

    def until_taken(self, table, rows):
        self.assertTrue(base.wait_for(lambda: self.taken(table) == rows, AGREE_SECONDS))

    def ask_volume(self):
        status, made = self.api.ask('POST', '/volumes', {'volume': {'size': 1}})
        self.assertEqual(202, status, made)
        return made['volume']['id']

    def status(self, volume_id):
        return self.api.ask('GET', f'/volumes/{volume_id}')[1]['volume']['status']

    def assert_made(self, volume_ids):
        for volume_id in volume_ids:
            self.assertEqual('available', base.wait_for(lambda shown=volume_id: (
                status := self.status(shown)) != 'creating' and status, AGREE_SECONDS))

    def test_one_is_stopped_in_order_before_it_has_begun_all(self):
        """What it was at it ends; what it had only taken on is another's long before its time."""
        self.more |= {('volume', 'worker_threads'): '1', ('volume', 'create_seconds'): LONG}
        # Longer than it takes to place all of them.
        self.begin(('one',), 'volume.volumes.before_create=delay:10')
        asked = [self.ask_volume() for _ in range(3)]
        self.until_taken('volumes', 3)
        self.start_member('two')
        self.assertEqual(0, self.stop_member('one'))
        self.assertIn('Work is left to others', self.log_of('one'))
        self.assert_made(asked)
        self.assertIn('Volume was left half done', self.log_of('two'))

    def test_one_is_cut_off_in_the_middle(self):
        """All that it was at is another's long before its time."""
        self.more |= BRIEF | {('volume', 'create_seconds'): LONG,
                              ('control', 'backend_seconds'): LONG}
        self.begin(('one',), f'volume.volumes.after_create=delay:{LONG}*1,'
                             f'volume.attachments.after_grant=delay:{LONG}*1', patience=2)
        held = self.ask_volume()
        self.until_taken('volumes', 1)
        # It is the first to come by there.
        self.assertTrue(base.wait_for(pathlib.Path(
            self.folder, 'volumes', f'volume-{held}').exists, AGREE_SECONDS))
        used = self.a_volume(self.api)
        status, made = self.api.ask('POST', '/attachments', {'attachment': {
            'volume_uuid': used, 'instance_uuid': base.instance('host-0')}})
        self.assertEqual(200, status, made)
        path = f'/attachments/{made["attachment"]["id"]}'
        asking = threading.Thread(target=self.api.ask, args=('PUT', path, {
            'attachment': {'connector': base.connector('host-0')}}))
        asking.start()
        self.addCleanup(asking.join)
        self.until_taken('leases', 1)
        self.start_member('two')
        self.assertEqual(1, self.stop_member('one'))
        self.assert_made([held])
        self.assertTrue(base.wait_for(lambda: self.api.ask(
            'GET', path)[1]['attachment']['connection_info'], AGREE_SECONDS))
        self.assert_agree(('host-0',))
        # Nobody's time ends so soon; who looks around has one for a moment.
        self.assertTrue(base.wait_for(lambda: not self.owners('leases'), AGREE_SECONDS))

    def test_what_members_would_have_each_for_itself_is_refused(self):
        for place, word in ((('disks', 'tgt_socket'), 'tgt_socket'),
                            (('disks', 'volumes_dir'), 'volumes_dir')):
            super().configure(self.places | {
                key: value for key, value in self.more.items() if key != place})
            self.run_once('manage', 'db', 'sync')
            done = subprocess.run(self.member_command('one'), capture_output=True, text=True,
                                  timeout=stack.START_SECONDS, check=False)
            self.assertEqual(1, done.returncode)
            self.assertIn(word, done.stderr)
            self.assertNotIn('Traceback', done.stderr)
        shutil.rmtree(f'{self.folder}/one', ignore_errors=True)
