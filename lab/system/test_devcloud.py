"""`tools/devcloud`: a whole cloud starts, works with Keystone, and is removed completely."""
import collections
import contextlib
import functools
import json
import os
import pathlib
import re
import shlex
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import unittest
import uuid

import kombu
import openstack
import sqlalchemy as sa

from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import keystone
from blockattach.tests.fixtures import rabbit
from blockattach.tests.fixtures import servers
from blockattach.tests.functional import base
from blockattach.tests.rules import sources

SECONDS = 600
VARIABLE = 'BLOCKATTACH_DEVCLOUD'
WELL = ('running', 'ready')
OURS = {f'{what}-{number}' for what in ('api', 'scheduler', 'volume') for number in (1, 2)} | {
    'control-1'}


class CommandLineTest(unittest.TestCase):
    """Checks of the arguments before anything is installed."""

    def devcloud(self, *arguments):
        return subprocess.run([sources.ROOT / 'tools' / 'devcloud', *arguments],
                              capture_output=True, text=True, timeout=base.SECONDS, check=False)

    def test_help(self):
        done = self.devcloud('--help')
        self.assertEqual(0, done.returncode)
        for word in ('up', 'status', 'down', '--state-dir DIR', '--no-broker', '--cloud NAME'):
            self.assertIn(word, done.stdout)

    def test_words_that_there_are_not(self):
        for arguments in ([], ['start'], ['up', 'down'], ['up', '--cloud'], ['up', '--all']):
            with self.subTest(arguments):
                done = self.devcloud(*arguments)
                self.assertEqual(2, done.returncode)
                self.assertNotIn('Installing', done.stderr)


class DevcloudTestCase(base.StackTestCase):
    """Cloud in a directory of its own, removed at the end."""

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix='blockattach-')
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.state = self.folder / 'cloud'
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith('OS_')}
        self.addCleanup(self.run_devcloud, 'down')

    def command(self, *arguments):
        return [sys.executable, sources.ROOT / 'tools' / 'demo' / 'devcloud', *arguments,
                '--state-dir', self.state]

    def run_devcloud(self, *arguments):
        return subprocess.run(self.command(*arguments), capture_output=True, text=True,
                              timeout=SECONDS, check=False, env=self.environment)

    def up(self, *arguments):
        done = self.run_devcloud('up', *arguments)
        missing = re.search('Cannot find (.*) on this machine', done.stderr)
        self.outside_program(not missing, missing and missing[1])
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return done.stdout

    def cut_off(self, line, number, *arguments):
        """Send a signal to `up` after a line of its output, and return its exit status."""
        with subprocess.Popen(
                self.command('up', *arguments), env=self.environment, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                # Background processes of shells ignore SIGINT, and their children inherit that.
                preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        ) as process:
            said = ''
            for text in process.stdout:
                said += text
                if line in text:
                    process.send_signal(number)
                    break
            missing = re.search('Cannot find (.*) on this machine', said)
            self.outside_program(not missing, missing and missing[1])
            self.assertIn(line, said)
            process.stdout.read()
            return process.wait(SECONDS)

    def record(self):
        return json.loads((self.state / 'record.json').read_text())

    def pids(self):
        return {name: process['pid'] for name, process in self.record()['processes'].items()}

    def table(self, *, good):
        """Return state and health of each process, as printed by `status`."""
        done = self.run_devcloud('status')
        self.assertEqual(0 if good else 1, done.returncode, done.stdout + done.stderr)
        head, *rows = (re.split(' {2,}', line) for line in done.stdout.splitlines())
        self.assertEqual(['PROCESS', 'PID', 'ADDRESS', 'STATE', 'HEALTH', 'SINCE (UTC)'], head)
        return {row[0]: (row[3], row[4]) for row in rows}

    def connect(self, file='openrc', interface='public'):
        """Return a connection of the user of an openrc file, to one of the two APIs."""
        lines = (self.state / file).read_text().splitlines()
        said = dict(shlex.split(line)[1].split('=', 1) for line in lines)
        return openstack.connection.Connection(
            auth_type=said['OS_AUTH_TYPE'], region_name=said['OS_REGION_NAME'],
            interface=interface, auth={
                'auth_url': said['OS_AUTH_URL'], 'username': said['OS_USERNAME'],
                'password': said['OS_PASSWORD'], 'project_name': said['OS_PROJECT_NAME'],
                'user_domain_name': said['OS_USER_DOMAIN_NAME'],
                'project_domain_name': said['OS_PROJECT_DOMAIN_NAME']}).block_storage

    def a_volume(self, storage):
        volume = storage.create_volume(size=1, volume_type='multiattach')
        return storage.wait_for_status(volume, 'available', interval=0.2, wait=SECONDS)

    def check_attaches(self, storage, other, volume):
        """Attach to two hosts with an API each. Both APIs show both attachments."""
        made = [api.create_attachment(volume.id, connector=base.connector(host),
                                      instance=str(uuid.uuid4()))
                for api, host in ((storage, 'host-a'), (other, 'host-b'))]
        for api in (storage, other):
            for attachment in made:
                api.complete_attachment(attachment)
                seen = api.get_attachment(attachment.id)
                self.assertEqual('attached', seen.status)
                self.assertTrue(seen.connection_info)
            self.assertEqual('in-use', api.get_volume(volume.id).status)
        self.assertNotEqual(storage.get_endpoint(), other.get_endpoint())
        for api, attachment in zip((other, storage), made, strict=True):
            api.delete_attachment(attachment, ignore_missing=False)
        self.assertEqual('available', other.get_volume(volume.id).status)

    def check_nothing_is_left(self, record):
        self.assertFalse(self.state.exists())
        self.assertFalse(os.path.exists(record['scratch']))
        self.assertEqual([], [*carrying(record['mark'])])
        for process in record['processes'].values():
            if process['port']:
                with self.assertRaises(ConnectionRefusedError):
                    socket.create_connection((servers.LOOPBACK, process['port']), 5).close()


def carrying(mark):
    """Yield the ids of processes with the mark of a cloud."""
    for proc in pathlib.Path('/proc').iterdir():
        with contextlib.suppress(OSError):
            if proc.name.isdigit() and f'{VARIABLE}={mark}'.encode() in (
                    proc / 'environ').read_bytes():
                yield proc.name


class OwnServersTest(DevcloudTestCase):
    """Cloud on a machine without servers, which starts all of them."""

    def setUp(self):
        super().setUp()
        for kind in (servers.MYSQL, servers.RABBITMQ):
            expected = servers.EXPECTED[kind]
            place = sa.make_url(expected.usual).set(port=servers.free_port())
            self.environment[expected.variable] = place.render_as_string(False)

    def test_up_status_and_down(self):
        self.cut_off('Started mysql', signal.SIGKILL)
        cut_off = self.record()
        self.assertTrue([*carrying(cut_off['mark'])])
        said = self.up()
        self.assertIn('Removing an earlier cloud', said)
        self.assertEqual([], [*carrying(cut_off['mark'])])
        self.assertFalse(os.path.exists(cut_off['scratch']))
        with self.subTest('all processes are up'):
            states = self.table(good=True)
            self.assertLessEqual(OURS | {'mysql', 'rabbitmq', 'keystone'}, set(states))
            self.assertEqual({WELL}, set(states.values()))
            self.assertIn(str(self.state / 'openrc'), said)
        with self.subTest('secrets are private'):
            self.check_secrets()
        member = self.connect('demo-openrc')
        volume = self.a_volume(member)
        with self.subTest('attach by both APIs'):
            self.check_attaches(member, self.connect('demo-openrc', 'internal'), volume)
        with self.subTest('every process responds over the bus'):
            self.check_logs()
        with self.subTest('a second up changes nothing'):
            before = self.pids()
            self.up()
            self.assertEqual(before, self.pids())
        with self.subTest('ended and hanging processes are restarted'):
            self.check_starts_again('api-2', 'volume-1')
            self.check_attaches(self.connect(), self.connect(interface='internal'), volume)
        record = self.record()
        self.assertEqual(0, self.run_devcloud('down').returncode)
        self.check_nothing_is_left(record)
        self.assertEqual(1, self.run_devcloud('status').returncode)
        self.assertEqual(0, self.run_devcloud('down').returncode)

    def check_logs(self):
        """Check the log levels of one API process and of each listed service.

        A volume manager with two backends is listed twice.
        """
        api = self.connect()
        services = [(one['binary'], one['host']) for one in api.get('/os-services').json()[
            'services']]
        self.assertEqual(
            {'cinder-scheduler': 2, 'cinder-volume': 3},
            collections.Counter(binary for binary, _ in services))
        answer = api.put('/os-services/get-log', json={}, microversion='3.32')
        (first, host), *others = [(one['binary'], one['host']) for one in answer.json()[
            'log_levels']]
        self.assertEqual('cinder-api', first)
        self.assertRegex(host, '^devcloud-[12]$')
        self.assertEqual(sorted(services), sorted(others))

    def check_starts_again(self, killed, suspended):
        before = self.pids()
        os.kill(before[killed], signal.SIGKILL)
        os.kill(before[suspended], signal.SIGSTOP)
        # Other processes may also miss a report on a machine that stands still for a moment.
        self.assertTrue(base.wait_for(
            lambda: (found := self.table(good=False))[killed] == ('ended', '-')
            and found[suspended][1].startswith('no report') and {killed, suspended} == {
                name for name, state in found.items() if state != WELL}, SECONDS))
        port = self.record()['ports'][killed]
        with self.subTest('another process uses its port'), socket.create_server(
                (servers.LOOPBACK, port)):
            done = self.run_devcloud('up')
            self.assertEqual(1, done.returncode)
            self.assertRegex(done.stderr, rf'^tools/devcloud: {killed} ended: .*{port}.*\n$')
        self.up()
        self.assertEqual({WELL}, set(self.table(good=True).values()))
        self.assertEqual({killed, suspended}, {name for name, pid in self.pids().items()
                                               if pid != before[name]})

    def check_secrets(self):
        for path in (self.state, *self.state.rglob('*')):
            if not path.is_socket():
                self.assertEqual(0, stat.S_IMODE(path.stat().st_mode) & 0o077, path)
        words = re.findall(r'^(?:password|memcache_secret_key) = (.+)$|:([^:@/]{20,})@',
                           (self.state / 'etc/blockattach.conf').read_text(), re.M)
        secrets = [one or other for one, other in words]
        self.assertGreaterEqual(len(secrets), 2)
        for proc in pathlib.Path('/proc').iterdir():
            with contextlib.suppress(OSError):
                said = (proc / 'cmdline').read_text('utf-8', 'replace')
                for secret in secrets:
                    self.assertNotIn(secret, said)


class ServersOfOthersTest(DevcloudTestCase):
    """Cloud on existing servers, which must be unchanged afterwards."""

    def setUp(self):
        super().setUp()
        self.outside_program(database.why_missing(database.MYSQL) is None, 'MariaDB')
        self.outside_program(rabbit.why_missing() is None, 'RabbitMQ')
        try:
            self.keystone = keystone.Keystone()
        except servers.CannotStart as exc:
            self.outside_program(False, str(exc))
        self.addCleanup(self.keystone.close)
        self.keystone.start()
        (self.folder / 'clouds.yaml').write_text(json.dumps({'clouds': {
            'theirs': self.keystone.login()}}))
        self.environment['OS_CLIENT_CONFIG_FILE'] = str(self.folder / 'clouds.yaml')

    def what_is_theirs(self):
        identity = self.keystone.cloud().identity
        engine = sa.create_engine(servers.url(servers.MYSQL), poolclass=sa.NullPool)
        with engine.connect() as connection:
            names = [name for query in ('SHOW DATABASES', 'SELECT user FROM mysql.user')
                     for name, in connection.execute(sa.text(query))]
        return {'databases and accounts': [name for name in names if 'devcloud' in name],
                **{noun: sorted(one.id for one in getattr(identity, noun)())
                   for noun in ('domains', 'regions', 'users', 'projects', 'services',
                                'endpoints')}}

    def check_no_queue(self, prefix):
        with rabbit.connect(servers.url(servers.RABBITMQ)) as broker:
            for name in (f'{prefix}-scheduler', f'{prefix}-attachments.devcloud-1',
                         f'{prefix}-volume.devcloud-2@disks-2'):
                with self.assertRaises(broker.channel_errors):
                    kombu.Queue(name, channel=broker.channel()).queue_declare(passive=True)

    def test_up_status_and_down(self):
        before = self.what_is_theirs()
        with self.subTest('Ctrl-C removes the started processes'):
            self.assertEqual(130, self.cut_off('Started api-1', signal.SIGINT, '--cloud',
                                               'theirs'))
            self.assertFalse(self.state.exists())
            self.assertEqual(before, self.what_is_theirs())
        self.up('--cloud', 'theirs')
        states = self.table(good=True)
        self.assertEqual({('external', 'ready')}, {states.pop(name) for name in (
            'mysql', 'rabbitmq', 'keystone')})
        self.assertEqual({WELL}, set(states.values()))
        volume = self.a_volume(self.connect())
        self.check_attaches(self.connect(), self.connect(interface='internal'), volume)
        with self.subTest('the machine has crashed'):
            for pid in carrying(self.record()['mark']):
                os.kill(int(pid), signal.SIGKILL)
            self.assertEqual({('ended', '-'), ('external', 'ready')},
                             set(self.table(good=False).values()))
        record = self.record()
        self.assertEqual(0, self.run_devcloud('down').returncode)
        self.check_nothing_is_left(record)
        self.assertEqual(before, self.what_is_theirs())
        self.check_no_queue(f'devcloud-{record["mark"][:8]}')


class WithoutBrokerTest(DevcloudTestCase):
    """Cloud with ``--no-broker``: processes of two logical hosts send messages over HTTP."""

    def test_a_database_is_all_that_it_needs(self):
        self.up('--no-broker')
        states = self.table(good=True)
        self.assertNotIn('rabbitmq', states)
        self.assertEqual({WELL}, set(states.values()) - {('external', 'ready')})
        member = self.connect('demo-openrc')
        volume = self.a_volume(member)
        self.check_attaches(member, self.connect('demo-openrc', 'internal'), volume)
        for process in ('volume-1', 'volume-2', 'scheduler-1'):
            os.kill(self.pids()[process], signal.SIGKILL)
        self.up('--no-broker')
        self.check_attaches(member, self.connect('demo-openrc', 'internal'), volume)
        self.a_volume(member)
        done = self.run_devcloud('up')
        self.assertEqual(1, done.returncode)
        self.assertIn('has no broker', done.stderr)
        record = self.record()
        self.assertEqual(0, self.run_devcloud('down').returncode)
        self.check_nothing_is_left(record)


class StrangersTest(DevcloudTestCase):
    """Processes and directories of others are left alone."""

    def test_a_number_that_was_given_again(self):
        stranger = subprocess.Popen(['sleep', '600'])
        self.addCleanup(stranger.wait)
        self.addCleanup(stranger.kill)
        self.state.mkdir(mode=0o700)
        (self.state / 'lock').touch()
        (self.state / 'record.json').write_text(json.dumps({
            'mark': uuid.uuid4().hex, 'scratch': str(self.folder / 'scratch'), 'found': {},
            'processes': {'api-1': {
                'name': 'api-1', 'pid': stranger.pid, 'born': 'another boot:1', 'port': None,
                'since': '2026-01-01 00:00:00', 'health': str(self.folder / 'none')}}}))
        self.assertEqual(('ended', '-'), self.table(good=False)['api-1'])
        self.assertEqual(0, self.run_devcloud('down').returncode)
        self.assertFalse(self.state.exists())
        self.assertIsNone(stranger.poll())

    def test_a_folder_of_others(self):
        self.state.mkdir()
        (self.state / 'thesis.txt').touch()
        for command in ('up', 'down'):
            done = self.run_devcloud(command)
            self.assertEqual(1, done.returncode)
            self.assertIn('contains other files', done.stderr)
        self.assertEqual(['thesis.txt'], os.listdir(self.state))

    def test_a_cloud_that_there_is_not(self):
        done = self.run_devcloud('up', '--cloud', 'atlantis')
        self.assertEqual(1, done.returncode)
        self.assertIn('atlantis', done.stderr)
        self.assertNotIn('Traceback', done.stderr)
        self.assertFalse(self.state.exists())
