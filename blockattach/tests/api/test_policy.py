"""Which persona may do what: the tables of ``policy/*.yaml``, each cell tried.

A stranger is answered that a thing does not exist, never that it belongs to another project.
"""
import pathlib
import re

import yaml

from blockattach.api import routes
from blockattach.db import messages
from blockattach.domain import messages as domain_messages
from blockattach.tests.api import base
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make

FOLDER = pathlib.Path(__file__).parent / 'policy-stories'
KEYS = {'operation', 'id', 'key', 'query', 'body', 'asks_for', 'status'}

PERSONAS = {
    'admin': 'an administrator of the project',
    'other_admin': 'an administrator of another project',
    'member': 'a member of the project',
    'service': 'a member whose request a service brings, with a token of its own besides',
    'reader': 'a reader of the project',
    'service_only': 'of the project with the role service and no other',
    'nobody': 'of the project with a role that no rule knows',
    'stranger': 'a member of another project',
}


def tables():
    """The rows by the name of their file."""
    return {path.stem: yaml.safe_load(path.read_text(encoding='utf-8'))
            for path in sorted(FOLDER.glob('*.yaml'))}


class PolicyTest(base.ApiTestCase):

    def setUp(self):
        super().setUp()
        self.personas = {
            'other_admin': http.Persona(self.http, 'admin,member,reader', http.OTHER_PROJECT),
            'service_only': http.Persona(self.http, 'service'),
            **{name: getattr(self.http, f'as_{name}') for name in (
                'admin', 'member', 'service', 'reader', 'nobody', 'stranger')}}
        self.connector = make.connector()
        # What a row acts on (id), or names in its body (<...>).
        self.things = {
            'volume': self.volume,
            'attached volume': self.attached_volume,
            'held volume': lambda: self.acted('os-reserve', self.volume()),
            'connected volume': lambda: self.acted(
                'os-initialize_connection', self.acted('os-reserve', self.volume()),
                {'connector': self.connector}),
            'announced volume': lambda: self.acted('os-begin_detaching', self.attached_volume()),
            'attachment': lambda: self.reserve(self.volume()),
            'type': lambda: make.volume_type(self.http.database,
                                             extra_specs={'multiattach': '<is> True'}).id,
            'plain type': lambda: make.volume_type(self.http.database).id,
            'encrypted type': lambda: make.encrypted_type(self.http.database).id,
            'qos specs': lambda: make.qos(self.http.database).id,
            'message': self.message,
            'transfer': lambda: self.transfer()['id'],
            'key of the transfer': lambda: self.auth_key,
            'connector': lambda: self.connector,
            'project': lambda: http.PROJECT,
            'new id': base.new_id,
        }

    def attached_volume(self):
        volume_id = self.volume()
        self.attached(volume_id)
        return volume_id

    def acted(self, action, volume_id, body=None):
        """The volume after an action on it."""
        reply = self.http.as_member.post(f'/volumes/{volume_id}/action', {action: body})
        self.assertLess(reply.status, 300, reply.text)
        return volume_id

    def message(self):
        messages.create(self.http.database, http.PROJECT, None, domain_messages.ATTACH_FAILED,
                        base.ABSENT)
        return self.http.as_member.get('/messages?limit=1').body['messages'][0]['id']

    def transfer(self):
        made = self.http.as_member.post('/volume-transfers', {
            'transfer': {'volume_id': self.volume()}}).body['transfer']
        self.auth_key = made['auth_key']
        return made

    def filled(self, body):
        """The body with its things in their places."""
        if isinstance(body, dict):
            return {key: self.filled(value) for key, value in body.items()}
        name = body[1:-1] if isinstance(body, str) and body.endswith('>') else None
        return self.things[name]() if name in self.things else body

    def send(self, row, persona):
        method, path, *_ = row['operation'].split(' ')
        if 'id' in row:
            path = path.replace('{id}', self.things[row['id']]())
        path = re.sub('{key}|{encryption_id}', row.get('key', ''), path)
        path = path.replace('{host}', http.HOST)
        name, sign, value = row.get('query', '').partition('=')
        if sign:
            path = f'{path}?{name}={self.filled(value)}'
        asked = f'volume {http.LATEST}'
        if 'asks_for' in row:
            asked = f'{asked}, {row["asks_for"]}'
        return persona.send(method, path, self.filled(row.get('body')), None,
                            {'OpenStack-API-Version': asked})

    def check(self, name):
        for row in tables()[name]:
            for role, status in row['status'].items():
                with self.subTest(operation=row['operation'], role=role):
                    reply = self.send(row, self.personas[role])
                    self.assert_status(status, reply)
                    if status == 403:
                        self.assertRegex(reply.fault[1],
                                         r"^Policy doesn't allow \S+ to be performed\.$")

    def test_attachments(self):
        self.check('attachments')

    def test_limits(self):
        self.check('limits')

    def test_messages(self):
        self.check('messages')

    def test_qos_specs(self):
        self.check('qos_specs')

    def test_quota_sets(self):
        self.check('quota_sets')

    def test_services(self):
        self.check('services')

    def test_transfers(self):
        self.check('transfers')

    def test_types(self):
        self.check('types')

    def test_volume_actions(self):
        self.check('volume_actions')

    def test_volumes(self):
        self.check('volumes')

    def test_no_table_is_forgotten(self):
        run = {name.removeprefix('test_') for name in dir(self) if name.startswith('test_')}
        self.assertEqual(set(), tables().keys() - run)

    def test_no_operation_is_missing(self):
        served = {row.name for row in routes.operations() if not row.public}
        rows = [row for table in tables().values() for row in table]
        named = {row['operation'].partition('?')[0] for row in rows}
        self.assertEqual(set(), served - named)
        self.assertEqual(set(), named - served)

    def test_no_row_is_incomplete(self):
        for table in tables().values():
            for row in table:
                with self.subTest(operation=row['operation']):
                    self.assertEqual(PERSONAS.keys(), row['status'].keys())
                    self.assertEqual(set(), row.keys() - KEYS)
