"""Malformed requests, which get a 4xx response and change nothing in the database."""
import json

import sqlalchemy as sa
import webob

from blockattach.tests.api import base
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make

LATEST = f'volume {http.LATEST}'
BAD_INITIATORS = ('', ' ', 'two words', 'a,b', 'iqn.\u00e9', 'x' * 224, None, 'ALL', '127.0.0.1',
                  '1e5', base.ABSENT)
ACTIONS = {
    'os-reserve': None, 'os-unreserve': None, 'os-begin_detaching': None,
    'os-roll_detaching': None, 'os-detach': {}, 'os-force_detach': {},
    'os-initialize_connection': {'connector': make.connector()},
    'os-terminate_connection': {'connector': None},
    'os-attach': {'instance_uuid': base.OTHER_SERVER, 'mountpoint': '/dev/vdc'},
    'os-reset_status': {'status': 'error'},
    'os-retype': {'new_type': 'x'}, 'os-migrate_volume': {'host': 'x'},
    'os-migrate_volume_completion': {'new_volume': base.ABSENT},
    'os-extend': {'new_size': 9}, 'os-extend_volume_completion': {'error': False},
}


class BadInputTest(base.ApiTestCase):

    def setUp(self):
        super().setUp()
        self.volume_id = self.volume()
        self.free_id = self.volume()
        self.attachment_id = self.attached(self.volume_id)
        self.reserved_id = self.reserve(self.volume(multiattach=True))
        tables = sa.MetaData()
        tables.reflect(self.http.database.engine)
        self.tables = tables.sorted_tables

    def everything(self):
        """Return all rows of the database by table."""
        with self.http.database.reader() as connection:
            return {table.name: sorted(map(repr, connection.execute(table.select())))
                    for table in self.tables}

    def refused(self, status, method, path, body=None, persona=None, **headers):
        """Send a raw request, and check that it is rejected and changes nothing.

        :param status: the expected status, or None for any 4xx
        """
        before = self.everything()
        persona = persona or self.http.as_admin
        request = webob.Request.blank(
            f'/v3/{persona.project_id}{path}', method=method, headers={
                'X-Auth-Token': persona.token, 'OpenStack-API-Version': LATEST,
                'Content-Type': 'application/json',
                **{name.replace('_', '-'): value for name, value in headers.items()}})
        if body is not None:
            request.body = body if isinstance(body, bytes) else json.dumps(body).encode()
        reply = self.http.answer(request)
        if status is None:
            status = reply.status
            self.assertIn(status, range(400, 500))
        self.assert_status(status, reply)
        self.assertEqual([status], [inner['code'] for inner in reply.body.values()])
        self.assertEqual(before, self.everything())
        return reply

    def writes(self):
        """Yield each request that writes an attachment, with a valid body."""
        yield 'POST', '/attachments', {'attachment': {
            'volume_uuid': self.free_id, 'instance_uuid': base.OTHER_SERVER}}
        yield 'PUT', f'/attachments/{self.reserved_id}', {
            'attachment': {'connector': make.connector()}}
        yield 'POST', f'/attachments/{self.reserved_id}/action', {'os-complete': None}
        for action, value in ACTIONS.items():
            yield 'POST', f'/volumes/{self.volume_id}/action', {action: value}

    def test_invalid_json_body_rejected(self):
        for method, path, good in self.writes():
            for body in (b'', b'{', b'\xff', b'{"a": "\\u0000"}', b'[' * 5000, b'{"a": NaN}',
                         json.dumps(good).encode()[:-1], json.dumps(good).encode('utf-16')):
                with self.subTest(path=path, action=next(iter(good)), body=body[:20]):
                    self.refused(400, method, path, body)

    def test_body_of_wrong_shape_rejected(self):
        for method, path, good in self.writes():
            for body in ([], [good], 'text', 5, None, {}, {**good, 'more': 1}, {'zz': good}):
                with self.subTest(path=path, action=next(iter(good)), body=body):
                    self.refused(400, method, path, json.dumps(body).encode())

    def test_unsupported_content_type_rejected(self):
        for method, path, good in self.writes():
            for kind in ('text/plain', 'application/xml', 'multipart/form-data'):
                with self.subTest(path=path, action=next(iter(good)), kind=kind):
                    self.refused(415, method, path, good, Content_Type=kind)

    def test_oversized_connector_rejected(self):
        connector = make.connector(more='x' * 2 ** 20)
        for method, path, body in (
                ('POST', '/attachments', {'attachment': {
                    'volume_uuid': self.free_id, 'connector': connector}}),
                ('PUT', f'/attachments/{self.reserved_id}', {
                    'attachment': {'connector': connector}}),
                ('POST', f'/volumes/{self.free_id}/action', {
                    'os-initialize_connection': {'connector': connector}})):
            with self.subTest(path=path):
                self.refused(413, method, path, body)

    def test_malformed_connector_rejected(self):
        good = make.connector()
        bad = ['text', [good], 5, True, {'host': 'h'}, {**good, 'host': 5},
               {**good, 'host': 'h' * 256}, {**good, 'mountpoint': []},
               *({**good, 'initiator': name} for name in BAD_INITIATORS),
               {**good, 'host': ''}, {**good, 'host': ' '}, {**good, 'host': 'a\r\nb'},
               {**good, 'a': 'x' * 5000}, {**good, 'a': ['x' * 4000] * 5},
               {**good, **{f'k{number}': 1 for number in range(64)}}, {**good, 'nqn': 'nqn.5'},
               {**good, 'initiator': ['iqn.x']}, {**good, 'mode': 'no'}, {**good, 'mode': ['rw']}]
        for connector in bad:
            for method, path, body in (
                    ('POST', '/attachments', {'attachment': {
                        'volume_uuid': self.free_id, 'connector': connector}}),
                    ('PUT', f'/attachments/{self.reserved_id}', {
                        'attachment': {'connector': connector}}),
                    ('POST', f'/volumes/{self.free_id}/action', {
                        'os-initialize_connection': {'connector': connector}})):
                with self.subTest(path=path, connector=connector):
                    self.refused(400, method, path, body)

    def test_error_truncates_quoted_input(self):
        long = 'x' * 50_000
        for method, path, body in (
                ('POST', '/attachments', {'attachment': {'volume_uuid': long}}),
                ('POST', '/attachments', {'attachment': {'volume_uuid': [long] * 2}}),
                ('POST', '/attachments', {'attachment': {'volume_uuid': self.free_id, long: 1}}),
                ('POST', '/attachments', {'attachment': {
                    'volume_uuid': self.free_id, 'connector': {'host': long}}}),
                ('POST', f'/volumes/{self.volume_id}/action', {long: None}),
                ('POST', '/volumes', {'volume': {'size': long}}),
                ('POST', '/volumes', {'volume': {'size': 1, 'availability_zone': long[:255]}}),
                ('POST', '/volumes', {'volume': {'size': 1, 'volume_type': long[:255]}})):
            with self.subTest(path=path, body=str(body)[:40]):
                reply = self.refused(None, method, path, body)
                self.assertLess(len(reply.text), 1000)
                self.assertNotIn('x' * 201, reply.text)

    def test_escaped_backslash_before_u0000_accepted(self):
        for body, status in ((b'{"volume": {"size": 1, "name": "a\\\\u0000b"}}', 202),
                             (b'{"volume": {"size": 1, "name": "a\\\\\\u0000b"}}', 400)):
            reply = self.http.as_member.post('/volumes', body)
            self.assert_status(status, reply)
            if status == 202:
                self.assertEqual('a\\u0000b', reply.body['volume']['name'])

    def test_malformed_and_unknown_ids_not_found(self):
        for asked in (base.ABSENT, 'x', 'a' * 300, '%E2%98%83', f'{self.attachment_id}%20',
                      self.volume_id):
            with self.subTest(asked=asked):
                self.refused(404, 'GET', f'/attachments/{asked}')
                self.refused(404, 'DELETE', f'/attachments/{asked}')
                self.refused(404, 'PUT', f'/attachments/{asked}', {
                    'attachment': {'connector': make.connector()}})
                self.refused(404, 'POST', f'/attachments/{asked}/action', {'os-complete': None})
        for action, value in ACTIONS.items():
            for asked in (base.ABSENT, 'x', self.attachment_id):
                with self.subTest(asked=asked, action=action):
                    self.refused(404, 'POST', f'/volumes/{asked}/action', {action: value})
        self.refused(404, 'POST', '/attachments', {'attachment': {'volume_uuid': base.ABSENT}})

    def test_resources_of_another_project_not_found(self):
        stranger = self.http.as_stranger
        for method, path, good in self.writes():
            with self.subTest(path=path, action=next(iter(good))):
                self.refused(404, method, path, good, stranger)
                # A project id in the path that is not the caller's gives 404.
                request = webob.Request.blank(
                    f'/v3/{http.PROJECT}{path}', method=method, headers={
                        'X-Auth-Token': stranger.token, 'OpenStack-API-Version': LATEST})
                request.body = json.dumps(good).encode()
                request.content_type = 'application/json'
                self.assert_fault(400, 'Malformed request url', self.http.answer(request))
        self.refused(404, 'DELETE', f'/attachments/{self.attachment_id}', persona=stranger)
        other = self.http.as_stranger.post('/volumes', {'volume': {'size': 1}}).body['volume']
        for action in ('os-detach', 'os-force_detach'):
            # The volume is the stranger's, but the named attachment belongs to another project.
            self.http.as_stranger.post(f'/volumes/{other["id"]}/action', {
                action: {'attachment_id': self.attachment_id}})
        self.assertEqual(['attached', 'reserved'], sorted(
            one['status'] for one in self.http.as_member.get('/attachments').body['attachments']))

    def test_unknown_action_rejected(self):
        for path in (f'/volumes/{self.volume_id}/action',
                     f'/attachments/{self.attachment_id}/action'):
            for body in ({'zz': None}, {'': None}, {'os-\u2603': {}}):
                with self.subTest(path=path, body=body):
                    reply = self.refused(400, 'POST', path, body)
                    self.assertIn('There is no such action', reply.text)
            self.refused(400, 'POST', path, {'os-detach': None, 'os-complete': None})

    def test_invalid_microversion_rejected(self):
        for method, path, good in self.writes():
            for version, status in (('volume 3.72', 406), ('volume 4.0', 406), ('volume x', 400),
                                    ('volume', 400), ('volume 3.71, blockattach 9.0', 406)):
                with self.subTest(path=path, action=next(iter(good)), version=version):
                    self.refused(status, method, path, good, OpenStack_API_Version=version)
            if path.startswith('/attachments'):
                for version in ('volume 3.26', 'volume 3.0', ''):
                    self.refused(404, method, path, good, OpenStack_API_Version=version)
