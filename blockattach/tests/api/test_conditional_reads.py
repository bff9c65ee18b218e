"""Conditional reads of a volume or an attachment.

A request with a matching If-None-Match gets 304 as long as no shown value has changed.
"""
import datetime
import json

import sqlalchemy as sa
import webob

from blockattach.storage.db import models
from blockattach.storage.domain import attachment_lifecycle
from blockattach.tests.api import base
from blockattach.tests.fixtures import make

EXTENDED = '3.71, blockattach latest'
NAMED = 'If-None-Match'
HOUR = datetime.timedelta(hours=1)


class ReadsTestCase(base.ApiTestCase):
    """Test case with an attached volume, its attachment, and requests that read both."""

    def setUp(self):
        super().setUp()
        self.volume_id = self.volume(multiattach=True, name='one', metadata={'a': 'b'})
        self.attachment_id = self.attached(self.volume_id)
        self.of_volume = f'/volumes/{self.volume_id}'
        self.of_attachment = f'/attachments/{self.attachment_id}'

    def read(self, path, persona=None, version=EXTENDED, **headers):
        return (persona or self.http.as_admin).get(path, version, **headers)

    def tagged(self, path, persona=None, version=EXTENDED):
        """Read a resource, and return the response and its ETag."""
        reply = self.read(path, persona, version)
        self.assert_status(200, reply)
        self.assertRegex(reply.headers['ETag'], r'^W/"[0-9a-f]{32}"$')
        return reply, reply.headers['ETag']

    def conditional(self, path, tag, persona=None, version=EXTENDED):
        return self.read(path, persona, version, **{NAMED: tag})

    def assert_unchanged(self, path, tag, *how):
        """Check that a conditional read gets 304 with the ETag and without a body."""
        reply = self.conditional(path, tag, *how)
        self.assert_status(304, reply)
        self.assertEqual('', reply.text)
        self.assertEqual(self.tagged(path, *how)[1], reply.headers['ETag'])
        self.assertFalse({'content-length', 'content-type'} & {
            name.lower() for name in reply.headers})
        self.assertIn('x-openstack-request-id', {name.lower() for name in reply.headers})


class TagTest(ReadsTestCase):

    def test_unchanged_resource_returns_304(self):
        for path in (self.of_volume, self.of_attachment):
            for version in ('3.27', '3.71', EXTENDED):
                for persona in (self.http.as_admin, self.http.as_member, self.http.as_reader):
                    with self.subTest(path=path, version=version, persona=persona.token):
                        _, tag = self.tagged(path, persona, version)
                        self.assert_unchanged(path, tag, persona, version)

    def test_if_none_match_forms(self):
        for path in (self.of_volume, self.of_attachment):
            _, tag = self.tagged(path)
            strong = tag.removeprefix('W/')
            for named in (tag, strong, '*', ' * ', f'"x", {tag}', f'W/"x",{strong},"y"'):
                with self.subTest(named):
                    self.assert_unchanged(path, named)
            for other in ('', '"x"', 'W/"x"', strong.strip('"'), tag[:-2], '"*"', f'{tag[:-1]}x"'):
                with self.subTest(other):
                    reply = self.conditional(path, other)
                    self.assert_status(200, reply)
                    self.assertEqual(tag, reply.headers['ETag'])

    def test_head_returns_etag(self):
        _, tag = self.tagged(self.of_volume)
        for named, status in ((tag, 304), ('"x"', 200)):
            reply = self.http.as_admin.send('HEAD', self.of_volume, None, EXTENDED, {NAMED: named})
            self.assertEqual((status, tag), (reply.status, reply.headers['ETag']))

    def test_etag_differs_by_response(self):
        """The response depends on version, extension, permissions and the address of the API."""
        for path in (self.of_volume, self.of_attachment):
            tags = {}
            for version in ('3.27', '3.48', '3.71', '3.71, blockattach 1.0', EXTENDED):
                for persona in (self.http.as_admin, self.http.as_member, self.http.as_service):
                    reply, tag = self.tagged(path, persona, version)
                    former = tags.setdefault(tag, (version, reply.text))
                    self.assertEqual(former, (version, reply.text))
            self.assertLessEqual(5, len({version for version, _ in tags.values()}))
        member, admin = (self.tagged(self.of_volume, persona)
                         for persona in (self.http.as_member, self.http.as_admin))
        self.assertNotEqual(member[0].body, admin[0].body)
        self.assertNotEqual(member[1], admin[1])
        self.assert_status(200, self.conditional(self.of_volume, member[1]))
        # The links of a response have the project id if the path of the request has it.
        without_project = self.http.answer(webob.Request.blank(f'/v3{self.of_volume}', headers={
            'X-Auth-Token': self.http.as_admin.token,
            'OpenStack-API-Version': f'volume {EXTENDED}', NAMED: admin[1]}))
        self.assert_status(200, without_project)
        self.assertNotEqual(admin[0].body, without_project.body)

    def test_matching_etag_reveals_nothing_to_unauthorized(self):
        for path in (self.of_volume, self.of_attachment):
            _, tag = self.tagged(path)
            for persona in (self.http.as_stranger, self.http.as_nobody):
                plain = self.read(path, persona)
                self.assertIn(plain.status, (403, 404))
                for named in (tag, '*'):
                    reply = self.conditional(path, named, persona)
                    self.assertEqual((plain.status, plain.body), (reply.status, reply.body))
                    self.assertNotIn('ETag', reply.headers)
        for noun in ('volumes', 'attachments'):
            self.assert_status(404, self.conditional(f'/{noun}/{base.ABSENT}', '*'))
        self.http.as_member.delete(self.of_attachment)
        self.assert_status(404, self.conditional(self.of_attachment, '*'))

    def test_unsupported_version_rejected_despite_etag(self):
        self.assert_status(406, self.conditional(self.of_volume, '*', version='3.999'))

    def test_lists_have_no_etag(self):
        for path in ('/volumes', '/volumes/detail', '/attachments', '/attachments/detail'):
            reply = self.conditional(path, '*')
            self.assert_status(200, reply)
            self.assertNotIn('ETag', reply.headers)

    def test_metadata_etag_stays_md5(self):
        path = f'{self.of_volume}/metadata'
        tag = self.read(path).headers['ETag']
        self.assertRegex(tag, '^[0-9a-f]{32}$')
        for named in (tag, f'"{tag}"', '*'):
            self.assert_status(200, self.conditional(path, named))

    def test_unencodable_response_has_no_etag(self):
        """The connector of the attachment has a lone surrogate."""
        self.sql("UPDATE attachments SET connector = '{\"initiator\": \"i\", \"x\": \"\\ud800\"}'")
        reply = self.conditional(self.of_attachment, '*', version='3.71')
        self.assert_status(200, reply)
        self.assertNotIn('ETag', reply.headers)


class ChangesTest(ReadsTestCase):
    """Requests that change a shown value and so its ETag."""

    def put(self, path, body):
        self.assertLess(self.http.as_admin.put(path, body).status, 300)

    def post(self, path, body):
        self.assertLess(self.http.as_admin.post(path, body).status, 300)

    def act(self, name, body):
        self.post(f'{self.of_volume}/action', {name: body})

    def assert_seen(self, path, changes):
        for name, change in changes.items():
            with self.subTest(name):
                before, tag = self.tagged(path)
                self.assert_unchanged(path, tag)
                change()
                after = self.conditional(path, tag)
                self.assert_status(200, after)
                self.assertNotEqual(before.body, after.body)
                self.assertNotEqual(tag, after.headers['ETag'])
                self.assert_unchanged(path, after.headers['ETag'])

    def test_volume_changes_change_etag(self):
        metadata = f'{self.of_volume}/metadata'
        type_id = self.multiattach_type().id
        other = make.volume_type(self.http.database, 'other', multiattach=True)
        second = []
        self.assert_seen(self.of_volume, {
            'name': lambda: self.put(self.of_volume, {'volume': {'name': 'two'}}),
            'description': lambda: self.put(self.of_volume, {'volume': {'description': 'x'}}),
            'a value of metadata': lambda: self.put(f'{metadata}/a', {'meta': {'a': 'c'}}),
            'another key': lambda: self.post(metadata, {'metadata': {'k': 'v'}}),
            'a key less': lambda: self.http.as_admin.delete(f'{metadata}/k'),
            'all of it': lambda: self.put(metadata, {'metadata': {}}),
            'metadata of an image': lambda: self.act(
                'os-set_image_metadata', {'metadata': {'os': 'x'}}),
            'and of none': lambda: self.act('os-unset_image_metadata', {'key': 'os'}),
            'bootable': lambda: self.act('os-set_bootable', {'bootable': True}),
            'name of its type': lambda: self.put(
                f'/types/{type_id}', {'volume_type': {'name': 'renamed'}}),
            'another attachment': lambda: second.append(
                self.reserve(self.volume_id, base.OTHER_SERVER)),
            'that is in use': lambda: (self.connect(second[0], make.connector()),
                                       self.complete(second[0])),
            'and gone': lambda: self.http.as_member.delete(f'/attachments/{second[0]}'),
            'size': lambda: self.act('os-extend', {'new_size': 2}),
            'its last attachment': lambda: self.http.as_member.delete(self.of_attachment),
            'readonly': lambda: self.act('os-update_readonly_flag', {'readonly': True}),
            'type': lambda: self.act('os-retype', {
                'new_type': other.name, 'migration_policy': 'never'}),
            'status': lambda: self.act('os-reset_status', {'status': 'error'}),
        })

    def test_attachment_changes_change_etag(self):
        host = make.connector()
        self.attachment_id = self.reserve(self.volume_id, base.OTHER_SERVER)
        path = f'/attachments/{self.attachment_id}'
        self.assert_seen(path, {
            'a connector': lambda: self.connect(self.attachment_id, host),
            'another one': lambda: self.connect(self.attachment_id, make.connector()),
            'the first again': lambda: self.connect(self.attachment_id, host),
            'another attachment of its host': lambda: self.connect(
                self.reserve(self.volume_id, base.new_id()), host),
            'in use': lambda: self.complete(self.attachment_id),
        })


class ColumnsTest(ReadsTestCase):
    """Changes of any column of the rows that make up a response.

    The column is written directly in the database. Either the response is the same, or its ETag
    differs.
    """

    # Other values of columns that accept only certain values.
    STATES = sorted(state.value for state in attachment_lifecycle.State)
    OTHER = {
        'own_status': ['error', 'extending'], 'status': ['error', 'managing'],
        'attach_status': ['detached', 'x'], 'pool': ['storage-2@fake#other', None],
        'mode': ['rw', 'ro', None], 'previous_mode': ['ro', None], 'attached_mode': ['ro', 'rw'],
        'state': STATES, 'previous_state': STATES,
        'previous_connector': ['{"initiator": "i", "enforce_multipath": true}'],
        'deleted': [],
    }
    # Keys to change in columns of JSON objects.
    WITHIN = {'connector': ['multipath', 'enforce_multipath', 'x'],
              'connection': ['target_discovered', 'discard']}

    def setUp(self):
        super().setUp()
        self.post = self.http.as_admin.post
        self.assertLess(self.post(f'{self.of_volume}/action', {
            'os-set_image_metadata': {'metadata': {'os': 'x'}}}).status, 300)
        self.connector = make.connector()
        self.connect(self.reserve(self.volume_id, base.OTHER_SERVER), self.connector)
        self.second = self.reserve(self.volume_id, base.new_id())
        self.connect(self.second, self.connector)
        self.other_type = make.volume_type(self.http.database, 'other', multiattach=True)
        self.readers = [(path, persona, version)
                        for path in (self.of_volume, f'/attachments/{self.second}')
                        for persona in (self.http.as_admin, self.http.as_member)
                        for version in ('3.71', EXTENDED)]

    def others(self, column, value):
        """Return other valid values of a column."""
        if column.name in self.OTHER:
            return [other for other in self.OTHER[column.name] if other != value]
        if column.name == 'sealed_password':
            return [self.http.database.sealer.sealed('another password').text]
        if column.name == 'volume_type_id':
            return [self.other_type.id]
        kind = column.type.python_type
        if kind is bool:
            return [not value]
        if kind is int:
            return [(value or 0) + 1]
        if kind is datetime.datetime:
            return [(value or self.http.database.clock.utcnow()) + HOUR]
        if column.name in self.WITHIN:
            return [json.dumps({**json.loads(value), key: True})
                    for key in self.WITHIN[column.name]]
        return [base.new_id() if column.type.length == 36 else f'{value or ""}x']

    def write(self, table, row, **values):
        keys = [column == getattr(row, column.name) for column in table.primary_key]
        with self.http.database.writer() as connection:
            connection.execute(table.update().where(*keys).values(**values))

    def rows(self):
        """Yield each row that contributes to a response, with its table."""
        with self.http.database.reader() as connection:
            for table in (models.volumes, models.volume_types, models.attachments,
                          models.volume_metadata, models.volume_image_metadata, models.grants):
                for row in connection.execute(sa.select(table)).all():
                    yield table, row

    def test_column_changes_change_etag_or_nothing(self):
        shown, silent = set(), set()
        before = [self.tagged(*how) for how in self.readers]
        for table, row in list(self.rows()):
            for column in table.c:
                # Identifiers of the row and of its volume do not change.
                if column.primary_key or column.name == 'volume_id':
                    continue
                value = getattr(row, column.name)
                for other in self.others(column, value):
                    self.write(table, row, **{column.name: other})
                    name = f'{table.name}.{column.name}'
                    for how, (was, tag) in zip(self.readers, before, strict=True):
                        now = self.read(*how)
                        with self.subTest(name, other=other, how=how):
                            if now.status != 200:
                                continue
                            changed = now.body != was.body
                            (shown if changed else silent).add(name)
                            if changed:
                                self.assertNotEqual(tag, now.headers['ETag'])
                                self.assert_status(200, self.conditional(how[0], tag, *how[1:]))
                    self.write(table, row, **{column.name: value})
        self.assertEqual([tag for _, tag in before],
                         [self.tagged(*how)[1] for how in self.readers])
        # The check above would also pass if no column changed a response.
        self.assertLessEqual({
            'volumes.name', 'volumes.status', 'volumes.size_gb', 'volumes.pool',
            'volumes.migration_status', 'volumes.updated_at', 'volume_types.name',
            'volume_metadata.value', 'volume_image_metadata.value', 'attachments.mountpoint',
            'attachments.connection', 'attachments.state', 'attachments.last_error',
            'attachments.mode', 'grants.username',
            'grants.sealed_password'}, shown)
        self.assertTrue(silent - shown)
