"""User messages."""
from blockattach.storage.db import messages
from blockattach.storage.domain import messages as domain_messages
from blockattach.tests.api import base
from blockattach.tests.fixtures import http


class MessagesTest(base.ApiTestCase):

    def setUp(self):
        super().setUp()
        self.volume_ids = [base.new_id() for _ in range(3)]
        texts = (domain_messages.NO_VALID_POOL, domain_messages.ATTACH_FAILED,
                 domain_messages.NO_VALID_POOL)
        for volume_id, text in zip(self.volume_ids, texts, strict=True):
            messages.create(self.http.database, http.PROJECT, 'req-1', text, volume_id)
        messages.create(self.http.database, http.OTHER_PROJECT, None,
                        domain_messages.ATTACH_FAILED, base.ABSENT)

    def list(self, query='', persona=None, version='3.71'):
        reply = (persona or self.http.as_reader).get(f'/messages{query}', version=version)
        self.assert_status(200, reply)
        return reply.body['messages']

    def of(self, *arguments, **more):
        return [one['resource_uuid'] for one in self.list(*arguments, **more)]

    def test_message_keys_and_values(self):
        found = self.list()[0]
        shown = self.http.as_reader.get(f'/messages/{found["id"]}', version='3.3')
        self.assertEqual({'message': found}, shown.body)
        path = f'/{http.PROJECT}/messages/{found["id"]}'
        self.assertGreater(found.pop('guaranteed_until'), found.pop('created_at'))
        self.assertEqual(
            {'event_id': 'VOLUME_VOLUME_001_003', 'message_level': 'ERROR',
             'user_message': 'schedule allocate volume:Could not find any available weighted '
                             'backend.',
             'request_id': 'req-1', 'resource_type': 'VOLUME',
             'resource_uuid': self.volume_ids[2],
             'links': [{'rel': 'self', 'href': f'http://localhost/v3{path}'},
                       {'rel': 'bookmark', 'href': f'http://localhost{path}'}]},
            {key: value for key, value in found.items() if key != 'id'})

    def test_messages_pagination_and_filters_from_3_5(self):
        first, second, third = self.volume_ids
        marker = self.list()[1]['id']
        rows = (
            ('', [third, second, first]), ('?limit=1', [third]), ('?offset=2', [first]),
            (f'?marker={marker}', [first]), ('?sort=created_at:asc', [first, second, third]),
            ('?event_id=VOLUME_VOLUME_002_021', [second]), (f'?resource_uuid={first}', [first]),
            ('?resource_type=VOLUME', [third, second, first]), ('?message_level=INFO', []),
            ('?request_id=req-1&limit=2', [third, second]),
        )
        for query, expected in rows:
            with self.subTest(query=query):
                self.assertEqual(expected, self.of(query, version='3.5'))
                self.assertEqual([third, second, first], self.of(query, version='3.4'))
        body = self.http.as_reader.get('/messages?limit=1').body
        self.assertIn(f'marker={body["messages"][0]["id"]}', body['messages_links'][0]['href'])
        self.assertEqual({'messages'}, self.http.as_reader.get('/messages').body.keys())

    def test_invalid_messages_query_rejected(self):
        for query, status, sentence in (
                ('?limit=-1', 400, 'limit'), ('?sort=zz', 400, 'Invalid sort key'),
                (f'?marker={base.ABSENT}', 404, base.ABSENT),
                ('?zz=1', 400, 'Invalid filters zz')):
            with self.subTest(query=query):
                self.assert_fault(status, sentence,
                                  self.http.as_reader.get(f'/messages{query}'))
        self.assertEqual(3, len(self.list('?zz=1', version='3.30')))
        self.assertEqual([], self.list('?zz=1', self.http.as_admin))

    def test_messages_inexact_filters_from_3_34(self):
        admin = self.http.as_admin
        first, second, third = self.volume_ids
        for query, expected in (('?event_id~=002_0', [second]),
                                (f'?resource_uuid~={first[:20]}', [first]),
                                ('?request_id~=eq-1&event_id~=001', [third, first]),
                                ('?event_id~=%25', []), ('?zz~=1', [])):
            with self.subTest(query=query):
                self.assertEqual(expected, self.of(query, admin, version='3.34'))
                self.assertEqual([], self.of(query, admin, version='3.33'))
        self.assert_fault(400, 'Invalid filters event_id~',
                          self.http.as_member.get('/messages?event_id~=1'))

    def test_messages_scope_by_project(self):
        self.assertEqual([base.ABSENT], self.of(persona=self.http.as_stranger))
        self.assertEqual('', self.list(persona=self.http.as_stranger)[0]['request_id'])
        self.assertEqual(4, len(self.list('?all_tenants=1', self.http.as_admin)))
        self.assertEqual(3, len(self.list('?all_tenants=1')))

    def test_message_detail_visible_to_admin_only(self):
        messages.create(self.http.database, http.PROJECT, 'req-1', domain_messages.DELETE_FAILED,
                        base.ABSENT, 'lvremove: node-7 is busy', words='It is in use.')
        text = 'delete volume:Backend refused to delete the volume. It is in use.'
        for persona, expected in ((self.http.as_reader, text), (self.http.as_member, text),
                                  (self.http.as_admin, f'{text} lvremove: node-7 is busy')):
            listed = self.list(persona=persona)[0]
            shown = persona.get(f'/messages/{listed["id"]}').body['message']
            self.assertEqual([expected] * 2, [listed['user_message'], shown['user_message']])

    def test_message_detail_visible_by_policy(self):
        opened = http.ApiFixture(rules={'blockattach:message_detail': '@'})
        self.addCleanup(opened.close)
        messages.create(opened.database, http.PROJECT, None, domain_messages.ATTACH_FAILED,
                        base.ABSENT, 'node-7 is busy')
        shown = opened.as_reader.get('/messages').body['messages'][0]
        self.assertEqual('attach volume:Failed to attach volume. node-7 is busy',
                         shown['user_message'])

    def test_delete_message(self):
        message_id = self.list()[0]['id']
        path = f'/messages/{message_id}'
        reply = self.http.as_member.delete(path, version='3.3')
        self.assert_status(204, reply)
        self.assertEqual('', reply.text)
        for reply in (self.http.as_member.delete(path), self.http.as_member.get(path)):
            self.assert_fault(404, f'Message {message_id} could not be found.', reply)

    def test_messages_routes_absent_before_3_3(self):
        path = f'/messages/{self.list()[0]["id"]}'
        for method, asked in (('GET', '/messages'), ('GET', path), ('DELETE', path)):
            with self.subTest(method=method, asked=asked):
                self.assert_fault(404, 'The resource could not be found.',
                                  self.http.as_member.send(method, asked, version='3.2'))
