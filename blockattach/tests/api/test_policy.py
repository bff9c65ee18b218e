"""Permissions of the personas, by the tables of ``policy-stories/*.yaml``.

A stranger gets 404, which does not say that the resource belongs to another project. A row with
``makes`` is not checked: a member creates resources with it, on which other rows act. ``makes``
maps the name of each resource to its place in the response.
"""
import functools
import pathlib
import re

import yaml

from blockattach.storage.api import routes
from blockattach.storage.db import messages
from blockattach.storage.db.services import services
from blockattach.storage.db.types import default_types
from blockattach.storage.domain import binaries
from blockattach.storage.domain import messages as domain_messages
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
    """Return the rows to check, by the name of their file."""
    return {name: [row for row in rows if 'makes' not in row] for name, rows in _files()}


def makers():
    """Return the rows that create resources."""
    return [row for name, rows in _files() for row in rows if 'makes' in row]


def _files():
    for path in sorted(FOLDER.glob('*.yaml')):
        yield path.stem, yaml.safe_load(path.read_text(encoding='utf-8'))


class PolicyTest(base.ApiTestCase):

    def setUp(self):
        super().setUp()
        self.personas = {
            'other_admin': http.Persona(self.http, 'admin,member,reader', http.OTHER_PROJECT),
            'service_only': http.Persona(self.http, 'service'),
            **{name: getattr(self.http, f'as_{name}') for name in (
                'admin', 'member', 'service', 'reader', 'nobody', 'stranger')}}
        self.connector = make.connector()
        # Functions that return the id for a row: ``{id}`` in its path, or ``<...>`` in its body.
        self.things = {
            'volume': self.volume,
            'described volume': self.described_volume,
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
            'private type': lambda: make.volume_type(self.http.database, is_public=False).id,
            'encrypted type': lambda: make.encrypted_type(self.http.database).id,
            'qos specs': lambda: make.qos(self.http.database).id,
            'message': self.message,
            'cluster': self.cluster,
            'connector': lambda: self.connector,
            'extension': lambda: 'os-services',
            'project': lambda: http.PROJECT,
            'project with a default type': self.project_with_default_type,
            'new id': base.new_id,
        }
        for row in makers():
            self.knows(row)

    def attached_volume(self):
        volume_id = self.volume()
        self.attached(volume_id)
        return volume_id

    def described_volume(self):
        volume_id = self.volume(metadata={'a': 'b'})
        return self.acted('os-set_image_metadata', volume_id, {'metadata': {'a': 'b'}})

    def acted(self, action, volume_id, body=None):
        """Send an action and return the id of the volume."""
        reply = self.http.as_member.post(f'/volumes/{volume_id}/action', {action: body})
        self.assertLess(reply.status, 300, reply.text)
        return volume_id

    def project_with_default_type(self):
        default_types.change(self.http.database, http.PROJECT,
                             make.volume_type(self.http.database).id)
        return http.PROJECT

    def message(self):
        messages.create(self.http.database, http.PROJECT, None, domain_messages.ATTACH_FAILED,
                        base.ABSENT)
        return self.http.as_member.get('/messages?limit=1').body['messages'][0]['id']

    def cluster(self):
        services.register(self.http.database, binaries.VOLUME, 'node-1@fake', 'nova', 'x',
                          cluster='alpha@fake')
        return 'alpha@fake'

    def knows(self, row):
        """Register the resources that a row creates.

        The first name creates a new resource. The other names are taken from the latest response.
        """
        (name, place), *others = row['makes'].items()
        made = []

        def make():
            reply = self.send(row, self.personas['member'])
            self.assertLess(reply.status, 300, reply.text)
            made[:] = [reply.body]
            return self.found(made, place)

        self.things[name] = make
        for other, its_place in others:
            self.things[other] = functools.partial(self.found, made, its_place)

    def found(self, made, place):
        value = made[0]
        for key in place.split('.'):
            value = value[key]
        return value

    def filled(self, body):
        """Return the body with each ``<name>`` replaced by the id of a resource."""
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

    def test_policy_tables_cover_every_operation(self):
        served = {row.name for row in routes.operations() if not row.public}
        rows = [row for table in tables().values() for row in table]
        named = {row['operation'].partition('?')[0] for row in rows}
        self.assertEqual(set(), served - named)
        self.assertEqual(set(), named - served)

    def test_policy_rows_name_every_persona(self):
        for table in tables().values():
            for row in table:
                with self.subTest(operation=row['operation']):
                    self.assertEqual(PERSONAS.keys(), row['status'].keys())
                    self.assertEqual(set(), row.keys() - KEYS)


def _checks(name):
    return lambda self: self.check(name)


for _name in tables():
    setattr(PolicyTest, f'test_{_name}', _checks(_name))
