"""Search for secrets after a run of all processes and operations.

Each secret must be found where it belongs, which proves the search, and nowhere else. A credential
passes the bus once on its way to an authorized caller, in the response to a consumer there.
"""
import base64
import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import unittest
import uuid

import requests
import sqlalchemy as sa

from blockattach.platform.http import dispatch
from blockattach.storage.api import routes
from blockattach.storage.db import messages
from blockattach.storage.domain import messages as domain_messages
from blockattach.storage.drivers.targets import tgtd
from blockattach.testing import stack
from blockattach.tests.fixtures import glance
from blockattach.tests.fixtures import keystone
from blockattach.tests.fixtures import servers
from blockattach.tests.functional import base
from blockattach.tests.functional import consumer
from lab.system import canaries
from lab.system import canary_walk
from lab.system import clouds
from lab.system import processes

SECONDS = 180
ALL = ('volume', 'scheduler', 'api', 'control')
LEVELS = ','.join(f'{name}=DEBUG' for name in (
    'sqlalchemy', 'oslo_messaging', 'oslo.messaging', 'amqp', 'taskflow',
    'keystonemiddleware', 'keystoneauth', 'urllib3', 'requests', 'stevedore', 'oslo_db',
    'oslo_policy', 'oslo.cache'))
CONFIGURATION, KEYS, CLIENTS = canaries.CONFIGURATION, canaries.KEYS, canaries.CLIENTS


class Rabbit(servers.RabbitMQ):
    """RabbitMQ with a secret password."""

    password = canaries.secret()


class CanaryTest(processes.ProcessesTestCase):

    maxDiff = None
    # These loggers log tokens that Keystone does not know, and replies that arrive late.
    OF_OTHERS = ('keystonemiddleware.auth_token', 'oslo_messaging._drivers.amqpdriver')

    def setUp(self):
        super().setUp()
        self.outside_program(tgtd.program(), 'tgtd')
        self.outside_program(shutil.which('mariadb-dump'), 'mariadb-dump')
        self.canaries, self.asked = {}, set()
        broker = clouds.started(Rabbit)
        self.enterContext(broker)
        self.wiretap = canaries.Wiretap(broker.port)
        self.addCleanup(self.wiretap.close)
        self.keystone = clouds.started(keystone.Keystone)
        self.enterContext(self.keystone)
        self.evidence = canaries.Evidence(self.rows.url, self.wiretap, self.folder)
        self.addCleanup(self.end)
        parts = sa.make_url(self.rows.url)
        self.remember('password of the broker', Rabbit.password, CONFIGURATION)
        self.configure({
            ('DEFAULT', 'state_path'): f'{self.folder}/state',
            ('DEFAULT', 'transport_url'): broker.url.replace(
                f':{broker.port}/', f':{self.wiretap.port}/'),
            ('DEFAULT', 'debug'): 'true', ('DEFAULT', 'default_log_levels'): LEVELS,
            ('oslo_messaging_notifications', 'driver'): 'messagingv2',
            ('service', 'host'): processes.HOST, ('rpc', 'call_timeout'): '10',
            ('database', 'connection'): parts.set(
                **self.account(parts.database)).render_as_string(hide_password=False),
            ('api', 'host'): servers.LOOPBACK, ('api', 'port'): str(self.port),
            ('api', 'auth_strategy'): 'keystone', **self.authtoken(),
            **self.glance(),
            ('volume', 'enabled_backends'): 'disks,spare',
            ('spare', 'store'): 'file', ('spare', 'target'): 'tgt',
            **{(backend, f'target_{name}'): value for backend in ('disks', 'spare')
               for name, value in (('ip_address', servers.LOOPBACK), ('port', '0'))}})
        self.evidence.note(CONFIGURATION, pathlib.Path(
            self.folder, 'blockattach.conf').read_text('utf-8'))

    def remember(self, name, text, *places, **more):
        """Register a secret with the places that must contain it, and return its text."""
        self.canaries[name] = canaries.Canary(text, frozenset(places), **more)
        return text

    def account(self, name):
        """Create an account of the database server with a secret password."""
        found = {'username': f'canary_{uuid.uuid4().hex[:8]}', 'password': self.remember(
            'password of the database', canaries.secret(), CONFIGURATION)}
        server = sa.create_engine(servers.url(servers.MYSQL), poolclass=sa.NullPool)

        def run(*statements):
            with server.connect() as connection:
                for statement in statements:
                    connection.exec_driver_sql(statement)

        run(f"CREATE USER {found['username']}@'%%' IDENTIFIED BY '{found['password']}'",
            f"GRANT ALL ON {name}.* TO {found['username']}@'%%'")
        self.addCleanup(run, f"DROP USER {found['username']}@'%%'")
        return found

    def glance(self):
        """Start a stand-in of Glance, and return the options with which the service uses it."""
        self.images = glance.GlanceStandIn()
        self.addCleanup(self.images.close)
        return {('glance', name): value for name, value in {
            'auth_url': self.keystone.url, 'endpoint_override': self.images.url,
            'username': 'blockattach', 'password': self.password}.items()}

    def authtoken(self):
        self.password = self.remember(
            'password of the service', self.keystone.person('blockattach', 'service', 'service'),
            CONFIGURATION)
        lines = self.keystone.authtoken('blockattach', self.password, 'service').splitlines()[1:]
        return {('keystone_authtoken', key): value
                for key, value in (line.split(' = ', 1) for line in lines if line)}

    def token(self, *person):
        """Return a token of a user, registered as a secret."""
        return self.remember(f'token of {person[0] if person else "the administrator"}',
                             self.keystone.cloud(*person).auth_token, CLIENTS)

    def ask(self, method, path, body=None, root=None, **headers):
        """Send a request and return status and body. Running processes and texts are recorded."""
        self.evidence.look_at_processes()
        headers = {'X-Auth-Token': self.admin, 'OpenStack-API-Version': 'volume 3.71', **headers}
        base_path = '/v3' if root is None else root
        answer = requests.request(
            method, f'http://{servers.LOOPBACK}:{self.port}{base_path}{path}', json=body,
            timeout=SECONDS, headers=headers)
        self.evidence.look_at_processes()
        self.evidence.note(CLIENTS, f'{path} {headers} {json.dumps(body)} {answer.text}')
        self.note_sealing_keys()
        # Only successful requests count, since each operation is also refused in this test.
        if answer.status_code < 400:
            self.asked.add((method, base_path + path.partition('?')[0],
                            next(iter(body or {}), None)))
        return answer.status_code, answer.json() if answer.text else None

    def done(self, method, path, body=None, **more):
        """Send a request that must succeed and return its body."""
        status, answer = self.ask(method, path, body, **more)
        self.assertLess(status, 400, (method, path, body, answer))
        return answer

    def note_sealing_keys(self):
        text = pathlib.Path(self.folder, 'state', 'seal.key').read_text('utf-8')
        self.evidence.note(KEYS, text)
        for key in text.split():
            self.remember(f'sealing key {key[:4]}', key, KEYS)

    def run_manage(self, *arguments):
        status, said = self.run_once('manage', *arguments)
        self.assertEqual(0, status, said)
        self.keep(said)

    def keep(self, said):
        """Append the output of a command to a log."""
        with open(f'{self.folder}/commands.log', 'a', encoding='utf-8') as file:
            file.write(said)

    def up(self):
        try:
            status, found = self.ask('GET', '/os-services')
        except (OSError, requests.RequestException):
            return False
        return status == 200 and [one['state'] for one in found['services']] == ['up'] * 3

    def begin(self):
        self.run_manage('db', 'sync')
        self.run_manage('service', 'list')
        for name in ALL:
            self.start(name)
        self.admin = self.token()
        self.service = self.token('blockattach', self.password, 'service')
        self.assertTrue(base.wait_for(self.up, SECONDS))

    def volume(self, **wanted):
        made = self.done('POST', '/volumes', {'volume': {'size': 1, **wanted}})
        path = f'/volumes/{made["volume"]["id"]}'
        self.assertTrue(base.wait_for(
            lambda: self.ask('GET', path)[1]['volume']['status'] == 'available', SECONDS))
        return made['volume']['id']

    def connector(self, host):
        """Return a connector with a secret that the client should not have sent."""
        return {**base.connector(host), 'chap_secret': self.remember(
            f'secret in connector {len(self.canaries)}', canaries.secret(), CLIENTS)}

    def remember_secret(self, connection_info):
        """Register the password of a connection, which only the attaching caller may receive."""
        self.remember(f'password {len(self.canaries)}', connection_info['auth_password'], CLIENTS)

    def attached(self, volume_id, host, **more):
        made = self.done('POST', '/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': base.instance(host),
            'connector': self.connector(host), **more}})['attachment']
        self.remember_secret(made['connection_info'])
        return made['id']

    def consume(self, volume_id):
        """Attach as a consumer over the bus, where the response contains the password."""
        with subprocess.Popen(
                [sys.executable, consumer.__file__, '--config-file',
                 f'{self.folder}/blockattach.conf', self.project, self.keystone.name, volume_id,
                 base.instance('consumer')],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            line = process.stdout.readline()
            self.evidence.note(CLIENTS, line)
            self.remember('password of the consumer', json.loads(line)['info']['auth_password'],
                          CLIENTS, canaries.BUS)
            process.communicate('go on\n', timeout=SECONDS)

    def types(self):
        made = self.done('POST', '/types', {'volume_type': {'name': 'other'}})['volume_type']
        path = f'/types/{made["id"]}'
        self.done('PUT', path, {'volume_type': {'description': 'another'}})
        for one in ('/types', '/types/default', path, f'{path}/extra_specs'):
            self.done('GET', one)
        self.done('POST', f'{path}/extra_specs', {'extra_specs': {'key': 'value'}})
        self.done('PUT', f'{path}/extra_specs/key', {'key': 'more'})
        self.done('GET', f'{path}/extra_specs/key')
        self.done('DELETE', f'{path}/extra_specs/key')
        encryption = self.done('POST', f'{path}/encryption', {'encryption': {
            'provider': 'luks', 'control_location': 'back-end'}})['encryption']
        key = f'{path}/encryption/{encryption["encryption_id"]}'
        self.done('GET', f'{path}/encryption')
        self.done('GET', f'{path}/encryption/provider')
        self.done('PUT', key, {'encryption': {'key_size': 256}})
        self.done('DELETE', key)
        self.qos_specs(made['id'])
        self.done('DELETE', path)

    def qos_specs(self, type_id):
        made = self.done('POST', '/qos-specs', {'qos_specs': {
            'name': 'slow', 'consumer': 'front-end', 'total_iops_sec': '100', 'other': '1'}})
        path = f'/qos-specs/{made["qos_specs"]["id"]}'
        self.done('PUT', path, {'qos_specs': {'total_iops_sec': '200'}})
        self.done('PUT', f'{path}/delete_keys', {'keys': ['other']})
        for one in ('/qos-specs', path, f'{path}/associate?vol_type_id={type_id}',
                    f'{path}/associations', f'{path}/disassociate?vol_type_id={type_id}',
                    f'{path}/disassociate_all'):
            self.done('GET', one)
        self.done('DELETE', path)

    def old_actions(self):
        """Use the actions of volumes that consumers used before the attachments API."""
        path = f'/volumes/{self.volume()}'

        def act(name, **arguments):
            return self.done('POST', f'{path}/action', {name: arguments or None},
                             **{'X-Service-Token': self.service})

        act('os-reserve')
        act('os-unreserve')
        for end in ('os-detach', 'os-force_detach'):
            act('os-reserve')
            connector = self.connector('old')
            self.remember_secret(act('os-initialize_connection', connector=connector)[
                'connection_info']['data'])
            act('os-attach', instance_uuid=base.instance('old'), mountpoint='/dev/vdb')
            act('os-begin_detaching')
            act('os-roll_detaching')
            act('os-begin_detaching')
            if end == 'os-detach':
                act('os-terminate_connection', connector=connector)
            act(end, attachment_id=None)
        act('os-update_readonly_flag', readonly=True)
        act('os-reset_status', status='error')
        for part in ('', '/encryption', '/encryption/encryption_key_id'):
            self.done('GET', f'{path}{part}')
        self.done('DELETE', path)

    def transfers(self):
        for path in ('/os-volume-transfer', '/volume-transfers'):
            for end in ('accept', None):
                made = self.done('POST', path, {'transfer': {
                    'volume_id': self.volume()}})['transfer']
                self.remember(f'key of transfer {made["id"]}', made['auth_key'], CLIENTS)
                for below in ('', '/detail', f'/{made["id"]}'):
                    self.done('GET', f'{path}{below}')
                if end is None:
                    self.done('DELETE', f'{path}/{made["id"]}')
                else:
                    self.done('POST', f'{path}/{made["id"]}/accept', {
                        'accept': {'auth_key': made['auth_key']}})

    def looks(self):
        messages.create(self.rows.database, self.project, None, domain_messages.DELETE_FAILED,
                        str(uuid.uuid4()))
        message, *_ = self.done('GET', '/messages')['messages']
        self.done('GET', f'/messages/{message["id"]}')
        self.done('DELETE', f'/messages/{message["id"]}')
        for path in ('/volumes', '/volumes/detail', '/volumes/summary', '/attachments',
                     '/attachments/detail', '/limits', '/os-services',
                     '/scheduler-stats/get_pools?detail=true',
                     f'/capabilities/{processes.BACKEND}'):
            self.done('GET', path)
        for root in ('/', '/v3', '/v3/'):
            self.done('GET', '', root=root)
        for word in ('disable', 'disable-log-reason', 'enable'):
            self.done('PUT', f'/os-services/{word}', {
                'binary': 'cinder-volume', 'host': processes.BACKEND,
                **({'disabled_reason': 'why not'} if word == 'disable-log-reason' else {})})
        for word in ('freeze', 'thaw'):
            self.done('PUT', f'/os-services/{word}', {'host': processes.BACKEND})
        quotas, extended = f'/os-quota-sets/{self.project}', {
            'OpenStack-API-Version': 'volume 3.71, blockattach 1.7'}
        attachment, *_ = self.done('GET', '/attachments')['attachments']
        for path in (f'/attachments/{attachment["id"]}/history',
                     f'/attachments/{attachment["id"]}/explain',
                     f'/attachments/history?volume_id={attachment["volume_id"]}',
                     '/scheduler-stats/explain_pools?size=1'):
            self.done('GET', path, **extended)
        self.done('PUT', '/os-services/reconcile', {'host': processes.BACKEND}, **extended)
        self.done('PUT', quotas, {'quota_set': {'attachments': 100}}, **extended)
        for path in (quotas, f'{quotas}/defaults'):
            self.done('GET', path, **extended)
        self.done('DELETE', quotas, **extended)
        self.done('PUT', '/os-services/set-log', {'level': 'DEBUG'})
        self.done('PUT', '/os-services/get-log', {})

    def attachments(self):
        """Attach volumes, rotate the keys meanwhile, and detach one."""
        self.done('POST', '/types', {'volume_type': {
            'name': 'multiattach', 'extra_specs': {'multiattach': '<is> True'}}})
        volume_id = self.volume(volume_type='multiattach')
        self.project = self.done('GET', f'/volumes/{volume_id}')['volume'][
            'os-vol-tenant-attr:tenant_id']
        first = f'/attachments/{self.attached(volume_id, "one")}'
        second = self.attached(volume_id, 'two', mode='ro')
        self.done('POST', f'{first}/action', {'os-complete': {}})
        self.done('GET', first)
        body = {'attachment': {'connector': self.connector('one')}}
        self.remember_secret(self.done('PUT', first, body)['attachment']['connection_info'])
        self.consume(self.volume())
        for step in ('--prepare', '--promote', '--reseal', '--finish', None):
            self.run_manage('secrets', 'rotate', *filter(None, [step]))
            self.note_sealing_keys()
            self.attached(volume_id, f'host{step}')
        self.run_manage('secrets', 'check')
        self.done('DELETE', f'/attachments/{second}', **{'X-Service-Token': self.service})
        return first

    def refusals(self, first):
        """Send refused requests with secrets to all operations, and let processes fail."""
        self.assertEqual(401, self.ask('GET', '/volumes', **{'X-Auth-Token': self.remember(
            'a token of nobody', canaries.secret(), CLIENTS)})[0])
        for number, row in enumerate(routes.operations()):
            if row.public:
                continue
            arguments = {'chap_secret': self.remember(
                f'wrong {number}', canaries.secret(), CLIENTS)}
            path = re.sub(r'\{\w+\}', lambda match: str(uuid.uuid4()), row.path)
            self.ask(row.method, path, row.method != 'GET' and (
                {row.action: arguments} if row.action else arguments) or None, **(
                    {'X-Service-Token': arguments['chap_secret']} if row.method == 'GET' else {}))
        volume = self.started['volume']
        base.pause(volume)
        status, _ = self.ask('DELETE', first, **{'X-Service-Token': self.service})
        volume.send_signal(signal.SIGCONT)
        self.assertIn(status, (502, 504))
        for group, name, url in (('database', 'connection', 'mysql+pymysql://u:{}@127.0.0.1:1/x'),
                                 ('DEFAULT', 'transport_url', 'rabbit://u:{}@127.0.0.1:1/')):
            wrong = pathlib.Path(self.folder, f'wrong-{name}.conf')
            wrong.write_text(f'[{group}]\n{name} = ' + url.format(self.remember(
                f'password of a wrong {name}', canaries.secret(), CONFIGURATION)), 'utf-8')
            self.evidence.note(CONFIGURATION, wrong.read_text('utf-8'))
            status, said = self.run_once('scheduler', '--config-file', str(wrong))
            self.assertEqual(1, status, said)
            self.keep(said)

    def verbs_done(self):
        table = dispatch.Table(routes.operations())
        return {row.name for method, path, action in self.asked
                for row in table.match(method, path).route.operations
                if row.action in (None, action)}

    def plant(self):
        """Write a harmless text to each place that must not contain secrets, to test the search.

        Examples are a driver that puts a secret into a user message, and a program with a secret
        argument.
        """
        planted = {name: canaries.Canary(str(uuid.uuid4()), frozenset()) for name in (
            'log', 'bus', 'database', 'arguments')}
        messages.create(self.rows.database, 'p', None, domain_messages.DELETE_FAILED, 'volume',
                        planted['database'].text)
        self.ask('GET', f'/volumes/{planted["log"].text}')
        self.done('POST', '/attachments', {'attachment': {
            'volume_uuid': self.volume(), 'instance_uuid': planted['bus'].text,
            'connector': base.connector('planted')}})
        with subprocess.Popen([sys.executable, '-c', 'input("begun\\n")',
                               planted['arguments'].text],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            # The arguments of a process may not be visible before it runs.
            process.stdout.readline()
            self.evidence.look_at_processes()
            process.communicate(b'\n', timeout=stack.STOP_SECONDS)
        return planted

    def test_they_are_where_they_belong_and_nowhere_else(self):
        self.begin()
        first = self.attachments()
        self.types()
        self.old_actions()
        self.transfers()
        self.looks()
        canary_walk.Walk(self, self.images).walk()
        for number, token in enumerate(sorted({*self.images.tokens} - {None, self.admin})):
            self.remember(f'token {number} of the service for Glance', token)
        self.refusals(first)
        planted = self.plant()
        self.assertEqual({row.name for row in routes.operations()} - canary_walk.REFUSED,
                         self.verbs_done())
        self.end()
        # Evidence of each kind has been recorded.
        for word in (b'DEBUG sqlalchemy.pool', b'DEBUG oslo_messaging', b'DEBUG amqp',
                     b'DEBUG keystonemiddleware', b'Initiator access granted',
                     b'Request failed'):
            self.assertTrue(word in self.evidence.logs(), word)
        self.assertTrue(b' Row (' in self.evidence.places()[canaries.LIBRARIES])
        self.assertTrue(b'volume.attach.end' in self.wiretap.heard())
        self.assertTrue(b'INSERT INTO `grants`' in self.evidence.dump())
        self.assertTrue(self.evidence.started(b'tgtd'))
        self.assertGreater(self.wiretap.logins, len(ALL))
        self.assertGreater(len(self.canaries), 60)
        for name, places in self.evidence.find(planted).items():
            self.assertIn(name, places)
        found = self.evidence.find(self.canaries)
        self.assertEqual({}, {name: (places, self.canaries[name].places)
                              for name, places in found.items()
                              if places != self.canaries[name].places})


class SignsTest(unittest.TestCase):
    """A secret is found in any encoding."""

    def test_in_a_longer_text_of_any_kind(self):
        canary = canaries.Canary(canaries.secret(), frozenset())
        for before in range(6):
            for after in range(4):
                text = b'u' * before + b':' + canary.text.encode() + b'/' * after
                for written in (text, text.hex().encode(), base64.b64encode(text),
                                base64.urlsafe_b64encode(text)):
                    self.assertTrue(any(sign in written for sign in canary.signs()))
        self.assertFalse(any(sign in canaries.secret().encode() for sign in canary.signs()))
