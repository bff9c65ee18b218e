"""Fields and parameters of the API extension ``blockattach 1.0``."""
import contextlib
import functools

from blockattach.storage.db import models
from blockattach.tests.api import base
from blockattach.tests.db import recording
from blockattach.tests.fixtures import make

ASKED = {'OpenStack-API-Version': 'volume 3.71, blockattach 1.0'}
FIELDS = {'project_id', 'host', 'mountpoint', 'connector', 'mode', 'mode_enforced_by',
          'last_error', 'shared_connections'}


class ExtensionTestCase(base.ApiTestCase):

    def send(self, method, path, body=None, client=None, headers=ASKED):
        return (client or self.http.as_member).send(method, path, body, None, headers)

    def show(self, attachment_id):
        reply = self.send('GET', f'/attachments/{attachment_id}')
        self.assert_status(200, reply)
        return reply.body['attachment']

    @contextlib.contextmanager
    def reads(self):
        """Yield a list that collects the SELECT statements sent within the context."""
        sent = []

        def remember(connection, cursor, statement, values, context, many):
            if statement.startswith('SELECT'):
                sent.append(statement)

        with recording.listening(self.http.database, before_cursor_execute=remember):
            yield sent


class AttachmentTest(ExtensionTestCase):

    def test_extension_fields_absent_without_extension(self):
        attachment_id = self.attached(self.volume())
        plain = self.http.as_member.get(f'/attachments/{attachment_id}')
        self.assertEqual(set(), FIELDS & plain.body['attachment'].keys())
        self.assertEqual(FIELDS, self.show(attachment_id).keys()
                         - plain.body['attachment'].keys())

    def test_extension_fields_of_attachment(self):
        connector = make.connector(host='compute-7', mountpoint='/dev/vdb')
        shown = self.show(self.attached(self.volume(), connector=connector))
        self.assertEqual(
            {'project_id': make.PROJECT, 'host': 'compute-7', 'mountpoint': '/dev/vdb',
             'connector': {**connector, 'mode': 'rw'}, 'mode': 'rw',
             'mode_enforced_by': 'target', 'last_error': None, 'shared_connections': []},
            {key: shown[key] for key in FIELDS})

    def test_mode_of_adopted_attachment_enforced_by_consumer(self):
        attachment_id = self.attached(self.volume())
        with self.http.database.writer() as connection:
            connection.execute(models.grants.update().values(adopted=True))
        self.assertEqual('consumer', self.show(attachment_id)['mode_enforced_by'])

    def test_extension_fields_null_without_connector(self):
        shown = self.show(self.reserve(self.volume()))
        self.assertEqual((None, None, None, []), (
            shown['host'], shown['connector'], shown['mode_enforced_by'],
            shown['shared_connections']))

    def test_extension_fields_in_every_attachment_response(self):
        made = self.send('POST', '/attachments', {'attachment': {
            'volume_uuid': self.volume(), 'instance_uuid': base.SERVER}})
        self.assert_status(200, made)
        path = f'/attachments/{made.body["attachment"]["id"]}'
        updated = self.send('PUT', path, {'attachment': {'connector': make.connector()}})
        detailed = self.send('GET', '/attachments/detail')
        for shown in (made.body['attachment'], updated.body['attachment'],
                      *detailed.body['attachments']):
            self.assertLessEqual(FIELDS, shown.keys())

    def test_connector_secrets_masked(self):
        connector = make.connector(
            auth_password='hidden-1', nested={'CHAP_secret': 'hidden-2', 'plain': 'seen'},
            listed=[{'token': 'hidden-3'}], system_uuid='seen-too')
        shown = self.show(self.attached(self.volume(), connector=connector))
        self.assertNotIn('hidden', str(shown['connector']))
        self.assertEqual(('***', {'CHAP_secret': '***', 'plain': 'seen'}, [{'token': '***'}],
                          'seen-too'),
                         tuple(shown['connector'][key] for key in (
                             'auth_password', 'nested', 'listed', 'system_uuid')))


    def test_deeply_nested_connector_shown(self):
        deep = functools.reduce(lambda inner, _: [inner], range(95), 'x')
        attachment_id = self.attached(self.volume(), connector=make.connector(deep=deep))
        self.assertEqual(deep, self.show(attachment_id)['connector']['deep'])
        self.assert_status(200, self.send('GET', '/attachments/detail'))


class SharedConnectionTest(ExtensionTestCase):
    """Two attachments of one host with a shared connection, and one of another host."""

    def setUp(self):
        super().setUp()
        self.volume_id = self.volume(multiattach=True)
        self.host = make.connector()
        self.first = self.attached(self.volume_id, connector=self.host)
        self.second = self.attached(self.volume_id, base.OTHER_SERVER, self.host, mode='ro')
        self.alone = self.attached(self.volume_id, base.new_id(), mode='ro')
        # An attachment of the same host to another volume shares no connection.
        self.attached(self.volume(), connector=self.host)

    def test_shared_connections_list_attachments_of_host(self):
        self.assertEqual([[self.second], [self.first], []], [
            self.show(one)['shared_connections']
            for one in (self.first, self.second, self.alone)])

    def test_os_reserve_reservation_hidden_from_shared_connections(self):
        """The reservation is for another server of the same host, which is not attached yet."""
        for action, value in (('os-reserve', None),
                              ('os-initialize_connection', {'connector': self.host})):
            self.assertLess(self.http.as_member.post(f'/volumes/{self.volume_id}/action', {
                action: value}).status, 300)
        self.assertEqual([self.second], self.show(self.first)['shared_connections'])

    def test_mode_of_shared_connection_enforced_by_consumer(self):
        self.assertEqual(['target', 'consumer', 'target'], [
            self.show(one)['mode_enforced_by']
            for one in (self.first, self.second, self.alone)])
        self.assert_status(200, self.http.as_member.delete(f'/attachments/{self.first}'))
        self.assertEqual('target', self.show(self.second)['mode_enforced_by'])

    def test_delete_response_shows_remaining_shared_connections(self):
        third = self.attached(self.volume_id, base.new_id(), self.host)
        reply = self.send('DELETE', f'/attachments/{third}')
        self.assert_status(200, reply)
        self.assertEqual(
            {self.first: [self.second], self.second: [self.first], self.alone: []},
            {one['id']: one['shared_connections'] for one in reply.body['attachments']})
        plain = self.http.as_member.delete(f'/attachments/{self.second}')
        self.assertNotIn('shared_connections', plain.body['attachments'][0])

    def test_detail_list_needs_one_extra_query(self):
        with self.reads() as plain:
            self.http.as_member.get('/attachments/detail')
        with self.reads() as extended:
            reply = self.send('GET', '/attachments/detail')
        self.assertEqual(4, len(reply.body['attachments']))
        self.assertEqual(len(plain) + 1, len(extended))


class HostFilterTest(ExtensionTestCase):

    def setUp(self):
        super().setUp()
        self.wanted = self.attached(self.volume(), connector=make.connector(host='compute-1'))
        self.attached(self.volume(), connector=make.connector(host='compute-2'))

    def test_host_filter_matches_attachments(self):
        for path in ('/attachments', '/attachments/detail'):
            for client in (self.http.as_member, self.http.as_admin):
                with self.subTest(path=path):
                    reply = self.send('GET', f'{path}?host=compute-1', client=client)
                    self.assertEqual([self.wanted],
                                     [one['id'] for one in reply.body['attachments']])
        self.assertEqual([], self.send('GET', '/attachments?host=x').body['attachments'])
        reply = self.send('GET', '/attachments?host=compute-1', client=self.http.as_stranger)
        self.assertEqual([], reply.body['attachments'])

    def test_host_filter_rejected_without_extension(self):
        self.assert_fault(400, 'Invalid filters host',
                          self.http.as_member.get('/attachments?host=compute-1'))


class ForceTest(ExtensionTestCase):

    def test_force_delete_needs_admin(self):
        attachment_id = self.attached(self.volume())
        self.assert_fault(403, 'blockattach:attachment_force_delete',
                          self.send('DELETE', f'/attachments/{attachment_id}?force=true'))
        self.assertEqual('attached', self.show(attachment_id)['status'])
        self.assert_status(200, self.send('DELETE', f'/attachments/{attachment_id}?force=true',
                                          client=self.http.as_admin))
        self.assert_status(404, self.send('GET', f'/attachments/{attachment_id}'))

    def test_invalid_force_rejected(self):
        attachment_id = self.attached(self.volume())
        self.assert_fault(400, 'force', self.send(
            'DELETE', f'/attachments/{attachment_id}?force=maybe', client=self.http.as_admin))

    def test_force_ignored_without_extension(self):
        for query in ('force=true', 'force=maybe'):
            attachment_id = self.attached(self.volume())
            self.assert_status(200, self.http.as_member.delete(
                f'/attachments/{attachment_id}?{query}'))


class VolumeTest(ExtensionTestCase):

    def test_attachment_count_of_volumes(self):
        shared, single, unused = (self.volume(multiattach=True), self.volume(), self.volume())
        self.reserve(shared)
        self.attached(shared, base.OTHER_SERVER)
        self.attached(single)
        gone = self.reserve(unused)
        self.assert_status(200, self.http.as_member.delete(f'/attachments/{gone}'))
        wanted = {shared: 2, single: 1, unused: 0}
        reply = self.send('GET', '/volumes/detail')
        self.assertEqual(wanted, {one['id']: one['attachment_count']
                                  for one in reply.body['volumes']})
        for volume_id, count in wanted.items():
            shown = self.send('GET', f'/volumes/{volume_id}').body['volume']
            self.assertEqual(count, shown['attachment_count'])
            self.assertNotIn('attachment_count', self.shown(volume_id))

    def test_attachment_count_of_new_volume_zero(self):
        made = self.send('POST', '/volumes', {'volume': {'size': 1}})
        self.assertEqual(0, made.body['volume']['attachment_count'])

    def test_volume_detail_list_needs_one_extra_query(self):
        for _ in range(3):
            self.volume()
        with self.reads() as plain:
            self.http.as_member.get('/volumes/detail')
        with self.reads() as extended:
            self.send('GET', '/volumes/detail')
        self.assertEqual(len(plain) + 1, len(extended))


class NegotiationTest(ExtensionTestCase):

    def test_response_names_negotiated_version(self):
        self.assertEqual('volume 3.71, blockattach 1.0',
                         self.send('GET', '/volumes').headers['OpenStack-API-Version'])
        self.assertEqual('volume 3.71',
                         self.http.as_member.get('/volumes').headers['OpenStack-API-Version'])

    def test_unsupported_extension_version_rejected(self):
        for asked, status in (('blockattach 1.8', 406), ('blockattach x', 400)):
            with self.subTest(asked=asked):
                self.assert_status(status, self.send(
                    'GET', '/volumes', headers={'OpenStack-API-Version': asked}))
