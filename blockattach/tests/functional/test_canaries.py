"""No secret leaves its place: a run of all processes, and then every place is searched.

On its way to whoever may attach, a credential passes the bus once: in the answer to a consumer
there. That is the one exception, and these credentials are looked for everywhere else.
"""
import json
import pathlib
import secrets as random_source
import signal
import subprocess
import sys
import uuid

import requests
import sqlalchemy as sa

from blockattach.db import messages
from blockattach.domain import messages as domain_messages
from blockattach.drivers.targets import tgtd
from blockattach.testing import database
from blockattach.testing import keystone
from blockattach.testing import servers
from blockattach.testing import stack
from blockattach.tests.functional import base
from blockattach.tests.functional import canaries
from blockattach.tests.functional import clouds
from blockattach.tests.functional import consumer
from blockattach.tests.functional import processes

SECONDS = 60
ALL = ('volume', 'scheduler', 'api', 'control')
LEVELS = ','.join(f'{name}=DEBUG' for name in (
    'sqlalchemy', 'oslo_messaging', 'oslo.messaging', 'amqp', 'taskflow', 'cheroot',
    'keystonemiddleware', 'keystoneauth', 'urllib3', 'requests', 'stevedore', 'oslo_db',
    'oslo_policy', 'oslo.cache'))


def secret():
    """One that stands out in any text, and needs no quotes."""
    return f'canary{random_source.token_hex(16)}'


class Rabbit(servers.RabbitMQ):
    """With a password of its own."""

    password = secret()


class CanaryTest(processes.ProcessesTestCase):

    def setUp(self):
        super().setUp()
        self.outside_program(tgtd.program(), 'tgtd')
        self.secrets = {'password of the broker': Rabbit.password}
        self.told_on_the_bus = {}
        broker = clouds.started(Rabbit)
        self.enterContext(broker)
        self.wiretap = canaries.Wiretap(broker.port)
        self.addCleanup(self.wiretap.close)
        self.keystone = clouds.started(keystone.Keystone)
        self.enterContext(self.keystone)
        self.rows = database.DatabaseFixture(database.MYSQL, migrated=False)
        self.addCleanup(self.rows.close)
        self.evidence = canaries.Evidence(self.rows.database.engine, self.wiretap, self.folder)
        self.addCleanup(self.end)
        parts = sa.make_url(self.rows.url)
        self.configure({
            ('DEFAULT', 'state_path'): f'{self.folder}/state',
            ('DEFAULT', 'transport_url'): broker.url.replace(
                f':{broker.port}/', f':{self.wiretap.port}/'),
            ('DEFAULT', 'debug'): 'true', ('DEFAULT', 'default_log_levels'): LEVELS,
            ('oslo_messaging_notifications', 'driver'): 'messagingv2',
            ('service', 'host'): processes.HOST,
            ('database', 'connection'): parts.set(
                **self.account(parts.database)).render_as_string(hide_password=False),
            ('api', 'host'): servers.LOOPBACK, ('api', 'port'): str(self.port),
            ('api', 'auth_strategy'): 'keystone', **self.authtoken(),
            ('disks', 'target_ip_address'): servers.LOOPBACK, ('disks', 'target_port'): '0'})

    def account(self, name):
        """An account of the database server that has a password."""
        found = {'username': f'canary_{uuid.uuid4().hex[:8]}', 'password': secret()}
        server = sa.create_engine(servers.url(servers.MYSQL), poolclass=sa.NullPool)

        def run(*statements):
            with server.connect() as connection:
                for statement in statements:
                    connection.exec_driver_sql(statement)

        run(f"CREATE USER {found['username']}@'%%' IDENTIFIED BY '{found['password']}'",
            f"GRANT ALL ON {name}.* TO {found['username']}@'%%'")
        self.addCleanup(run, f"DROP USER {found['username']}@'%%'")
        self.secrets['password of the database'] = found['password']
        return found

    def authtoken(self):
        password = self.keystone.person('blockattach', 'service', 'service')
        self.secrets['password of the service'] = password
        lines = self.keystone.authtoken('blockattach', password, 'service').splitlines()[1:]
        return {('keystone_authtoken', key): value
                for key, value in (line.split(' = ', 1) for line in lines if line)}

    def token(self, *person):
        """A token, which is a secret as well."""
        found = self.keystone.cloud(*person).auth_token
        self.secrets[f'token of {person or "the administrator"}'] = found
        return found

    def ask(self, method, path, body=None, token=None):
        """Status and body; whatever runs meanwhile is looked at."""
        self.evidence.look_at_processes()
        answer = requests.request(
            method, f'http://{servers.LOOPBACK}:{self.port}/v3{path}', json=body, timeout=SECONDS,
            headers={'X-Auth-Token': token or self.admin,
                     'OpenStack-API-Version': 'volume 3.71'})
        self.evidence.look_at_processes()
        self.note_sealing_keys()
        return answer.status_code, answer.json() if answer.text else None

    def note_sealing_keys(self):
        for key in pathlib.Path(self.folder, 'state', 'seal.key').read_text().split():
            self.secrets[f'sealing key {key[:4]}'] = key

    def up(self):
        try:
            status, found = self.ask('GET', '/os-services')
        except (OSError, requests.RequestException):
            return False
        return status == 200 and [one['state'] for one in found['services']] == ['up', 'up']

    def begin(self):
        self.assertEqual(0, self.run_once('manage', 'db', 'sync')[0])
        self.assertEqual(0, self.run_once('manage', 'service', 'list')[0])
        for name in ALL:
            self.start(name)
        self.admin = self.token()
        self.assertTrue(base.wait_for(self.up, SECONDS))

    def volume(self, **wanted):
        status, made = self.ask('POST', '/volumes', {'volume': {'size': 1, **wanted}})
        self.assertEqual(202, status, made)
        path = f'/volumes/{made["volume"]["id"]}'
        self.assertTrue(base.wait_for(
            lambda: self.ask('GET', path)[1]['volume']['status'] == 'available', SECONDS))
        return made['volume']['id']

    def attached(self, volume_id, host, **more):
        """The status and the answer; its password is remembered."""
        key = f'{host}-{len(self.secrets)}'
        self.secrets[f'secret in the connector of {key}'] = hidden = secret()
        status, made = self.ask('POST', '/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': base.instance(host), **more,
            'connector': {**base.connector(host), 'chap_secret': hidden}}})
        if status == 200:
            self.secrets[f'password of {key}'] = made['attachment']['connection_info'][
                'auth_password']
        return status, made

    def consume(self, volume_id):
        """A consumer over the bus: what it is told passes there, and nowhere else."""
        with subprocess.Popen(
                [sys.executable, consumer.__file__, '--config-file',
                 f'{self.folder}/blockattach.conf', self.project, self.keystone.name, volume_id,
                 base.instance('consumer')],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            told = json.loads(process.stdout.readline())
            self.told_on_the_bus['password of the consumer'] = told['info']['auth_password']
            process.communicate('go on\n', timeout=SECONDS)

    def live(self):
        """Attach, fail in several ways, replace the keys, detach."""
        self.begin()
        self.assertEqual(200, self.ask('POST', '/types', {'volume_type': {
            'name': 'multiattach', 'extra_specs': {'multiattach': '<is> True'}}})[0])
        volume_id = self.volume(volume_type='multiattach')
        first = self.attached(volume_id, 'one')[1]['attachment']
        self.assertEqual(200, self.attached(volume_id, 'two', mode='ro')[0])
        self.assertEqual(204, self.ask('POST', f'/attachments/{first["id"]}/action', {
            'os-complete': {}})[0])
        self.assertEqual(404, self.attached(str(uuid.uuid4()), 'three')[0])
        self.assertEqual(401, self.ask('GET', '/volumes', token=secret())[0])
        self.project = self.ask('GET', f'/volumes/{volume_id}')[1]['volume'][
            'os-vol-tenant-attr:tenant_id']
        self.consume(self.volume())
        for step in ('prepare', 'promote', 'reseal', 'finish'):
            self.assertEqual(0, self.run_once('manage', 'secrets', 'rotate', f'--{step}')[0])
            self.note_sealing_keys()
            self.assertEqual(200, self.attached(volume_id, step)[0])
        self.assertEqual(0, self.run_once('manage', 'secrets', 'check')[0])
        # Whoever is told to go while the service is away is shut out later.
        volume = next(process for path, process in self.started.items() if 'volume' in path)
        volume.send_signal(signal.SIGSTOP)
        status, _ = self.ask('DELETE', f'/attachments/{first["id"]}')
        volume.send_signal(signal.SIGCONT)
        self.assertIn(status, (502, 504))
        for path in ('/volumes/detail', '/attachments/detail', '/messages', '/os-services'):
            self.assertEqual(200, self.ask('GET', path)[0])

    def test_they_are_nowhere(self):
        self.live()
        everything = {**self.secrets, **self.told_on_the_bus}
        # The evidence is there at all.
        self.assertIn(b'INSERT INTO grants', self.evidence.logs())
        self.assertIn(b'volume.attach.end', self.wiretap.heard())
        self.assertIn(b'grants (', self.evidence.dump())
        self.assertTrue(self.evidence.started(b'tgtd'))
        self.assertTrue(self.evidence.started(b'blockattach.cmd.volume'))
        self.assertGreater(self.wiretap.logins, len(ALL))
        self.assertGreater(len(everything), 15)
        # What a consumer says of itself, and is told, it says and hears over the bus.
        allowed = {('bus', name) for name in self.told_on_the_bus}
        self.assertEqual(allowed, self.evidence.find(everything))
        self.end()
        self.assertEqual(allowed, self.evidence.find(everything))

    def test_what_is_planted_is_found(self):
        planted = {name: secret() for name in ('log', 'bus', 'database', 'arguments')}
        self.begin()
        # As a driver would tell of it that forgets itself, and a user who is told.
        messages.create(self.rows.database, 'p', None, domain_messages.DELETE_FAILED, 'volume',
                        planted['database'])
        self.ask('GET', f'/volumes/{planted["log"]}')
        self.ask('POST', '/types', {'volume_type': {'name': 'plain'}})
        with subprocess.Popen([sys.executable, '-c', 'input()', planted['arguments']],
                              stdin=subprocess.PIPE) as process:
            self.evidence.look_at_processes()
            process.communicate(b'\n', timeout=stack.STOP_SECONDS)
        self.volume(name=planted['bus'])
        found = self.evidence.find(planted)
        self.assertLessEqual({(name, name) for name in planted}, found)
