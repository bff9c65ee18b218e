"""Separate processes by configuration alone: a database server, RabbitMQ, and what the guide says.

The configuration is the one of ``doc/source/install/separate_processes.rst``, with other places.
"""
import configparser
import contextlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import uuid

import kombu

from blockattach.drivers.targets import tgtd
from blockattach.testing import database
from blockattach.testing import servers
from blockattach.testing import stack
from blockattach.tests.functional import base
from blockattach.tests.rules import sources

URL = servers.url(servers.RABBITMQ)
AMQP_URL = URL.replace('rabbit://', 'amqp://', 1)
GUIDE = sources.ROOT / 'doc' / 'source' / 'install' / 'separate_processes.rst'
PROCESSES = ('volume', 'scheduler', 'api')


def guided():
    """The configuration file that the guide shows."""
    shown = re.search(r'^\.\. code-block:: ini\n\n((?:    .*\n|\n)+)', GUIDE.read_text(), re.M)
    parser = configparser.ConfigParser(interpolation=None, default_section='')
    parser.read_string(''.join(line[4:] + '\n' for line in shown[1].splitlines()))
    return parser


class ProcessesTest(base.StackTestCase):

    def setUp(self):
        super().setUp()
        self.outside_program(tgtd.program(), 'tgtd')
        self.outside_program(self.broker_answers(), 'RabbitMQ')
        self.outside_program(database.why_missing(database.MYSQL) is None, 'MariaDB')
        rows = database.DatabaseFixture(database.MYSQL, migrated=False)
        self.addCleanup(rows.close)
        folder = tempfile.TemporaryDirectory(prefix='blockattach-')
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.exchange = f'test-{uuid.uuid4().hex}'
        self.addCleanup(self.clear_broker)
        self.started = {}
        self.addCleanup(self.end)
        with socket.create_server(('127.0.0.1', 0)) as probe:
            self.port = probe.getsockname()[1]
        self.configure({
            ('DEFAULT', 'state_path'): f'{self.folder}/state',
            ('DEFAULT', 'transport_url'): URL,
            ('database', 'connection'): rows.url,
            # Nothing is left behind in the broker, and nobody's exchange is in the way.
            ('DEFAULT', 'control_exchange'): self.exchange,
            ('rpc', 'topic_prefix'): self.exchange,
            ('oslo_messaging_rabbit', 'amqp_auto_delete'): 'true',
            ('api', 'host'): '127.0.0.1', ('api', 'port'): str(self.port),
            ('disks', 'target_ip_address'): '127.0.0.1', ('disks', 'target_port'): '0'})

    def broker_answers(self):
        with contextlib.suppress(OSError), kombu.Connection(AMQP_URL, connect_timeout=5) as broker:
            broker.connect()
            return True
        return False

    def clear_broker(self):
        """Exchanges outlive those who used them."""
        with kombu.Connection(AMQP_URL, connect_timeout=5) as broker:
            for name in (self.exchange, *(f'{self.exchange}-{topic}_fanout'
                                          for topic in ('scheduler', 'volume'))):
                kombu.Exchange(name, channel=broker.default_channel).delete()

    def configure(self, places):
        parser = guided()
        for (group, name), value in places.items():
            if not parser.has_section(group):
                parser.add_section(group)
            parser.set(group, name, value)
        with open(f'{self.folder}/blockattach.conf', 'w', encoding='utf-8') as file:
            parser.write(file)

    def command(self, name, *arguments):
        return [sys.executable, '-m', f'blockattach.cmd.{name}',
                '--config-file', f'{self.folder}/blockattach.conf', *arguments]

    def start(self, name):
        """A process that is ended in order, and has said nothing of a failure by then."""
        path = f'{self.folder}/{name}.log'
        self.started[path] = subprocess.Popen(self.command(name, '--log-file', path))

    def end(self):
        for process in self.started.values():
            process.send_signal(signal.SIGTERM)
        for path, process in self.started.items():
            try:
                self.assertEqual(0, process.wait(stack.STOP_SECONDS), path)
            finally:
                process.kill()
            with open(path, encoding='utf-8') as log:
                self.assertNotIn('Traceback', log.read())

    def run_once(self, name, *arguments):
        done = subprocess.run(self.command(name, *arguments), text=True, capture_output=True,
                              timeout=stack.START_SECONDS, check=False)
        return done.returncode, done.stdout + done.stderr

    def everything_up(self):
        with contextlib.suppress(OSError):
            services = self.api.list('services', '/os-services')
            return len([one for one in services if one['state'] == 'up']) == 2
        return False

    def test_the_story_by_configuration_alone(self):
        status, words = self.run_once('scheduler')
        self.assertEqual((1, True), (status, 'blockattach-manage db sync' in words), words)
        self.assertEqual(0, self.run_once('manage', 'db', 'sync')[0])
        for name in PROCESSES:
            self.start(name)
        self.api = base.Api(f'http://127.0.0.1:{self.port}/v3')
        self.assertTrue(base.wait_for(self.everything_up))
        self.assertEqual(200, self.api.ask('POST', '/types', {'volume_type': {
            'name': 'multiattach', 'extra_specs': {'multiattach': '<is> True'}}})[0])
        volume_id = self.a_volume(self.api, volume_type='multiattach')
        made = [self.attached(volume_id, host) for host in ('one', 'two')]
        self.assertEqual('in-use', self.api.ask('GET', f'/volumes/{volume_id}')[1]['volume'][
            'status'])
        for attachment_id in made:
            self.assertEqual(200, self.api.ask('DELETE', f'/attachments/{attachment_id}')[0])
        self.assertEqual(202, self.api.ask('DELETE', f'/volumes/{volume_id}')[0])
        self.assertTrue(base.wait_for(
            lambda: self.api.ask('GET', f'/volumes/{volume_id}')[0] == 404))

    def attached(self, volume_id, host):
        status, made = self.api.ask('POST', '/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': base.instance(host),
            'connector': base.connector(host)}})
        self.assertEqual(200, status, made)
        attachment_id = made['attachment']['id']
        self.assertEqual(204, self.api.ask(
            'POST', f'/attachments/{attachment_id}/action', {'os-complete': {}})[0])
        return attachment_id
