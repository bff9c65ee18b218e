"""Order of the steps of a request, and the errors of each step."""
import unittest

from blockattach.platform import context
from blockattach.platform.http import operation
from blockattach.platform.http import schema
from blockattach.platform.http.operation import V
from blockattach.storage import errors
from blockattach.tests.fixtures import promises
from blockattach.tests.unit.http import tiny

ACTION = '/v3/attachments/a/action'
UPDATE = {'attachment': {'volume_uuid': '6f1b2f7e-4f0e-4c6e-9d3a-6b0d7c4a1e11'}}


class OrderTest(unittest.TestCase):
    """Order of the steps of a request."""

    def setUp(self):
        self.api = tiny.Tiny()

    def test_route_checked_before_authentication(self):
        self.assertEqual(404, self.api.call('GET', '/v3/nothing', token='broken').status_int)

    def test_authentication_checked_before_version(self):
        answer = self.api.call('GET', '/v3/attachments/a', token='broken', version='volume x')
        self.assertEqual(('unauthorized', 401, 'This request requires authentication.'),
                         tiny.fault(answer))

    def test_project_checked_before_version(self):
        answer = self.api.call('GET', f'/v3/{tiny.OTHER}/attachments/a', version='volume x')
        self.assertEqual('Malformed request url', tiny.fault(answer)[2])

    def test_version_checked_before_target(self):
        self.api.call('GET', '/v3/attachments/a', version='volume 3.26')
        self.assertEqual([], self.api.services.log)

    def test_target_loaded_before_policy(self):
        answer = self.api.call('DELETE', '/v3/attachments/none', token=tiny.NOBODY)
        self.assertEqual(
            ('itemNotFound', 404, 'Volume attachment could not be found with filter: '
                                  'attachment_id = none.'), tiny.fault(answer))

    def test_policy_checked_before_schema(self):
        answer = self.api.call('PUT', '/v3/attachments/a', json={}, token=tiny.READER)
        self.assertEqual(('forbidden', 403, "Policy doesn't allow volume:attachment_update to be "
                                            'performed.'), tiny.fault(answer))

    def test_schema_checked_before_handler(self):
        answer = self.api.call('PUT', '/v3/attachments/a', json={})
        self.assertEqual((400, ['target']), (answer.status_int, self.api.services.log))

    def test_handler_called_last(self):
        answer = self.api.call('PUT', '/v3/attachments/a', json=UPDATE)
        self.assertEqual((200, ['target', 'handler']),
                         (answer.status_int, self.api.services.log))


class PolicyTest(unittest.TestCase):
    """Policy check with the project of the target."""

    def setUp(self):
        self.api = tiny.Tiny()

    def test_policy_checked_by_role_and_project(self):
        for token, code in ((tiny.MEMBER, 202), (tiny.READER, 403), (tiny.NOBODY, 403),
                            (tiny.STRANGER, 403), (tiny.ADMIN, 202)):
            with self.subTest(token=token):
                answer = self.api.call('DELETE', '/v3/attachments/a', token=token)
                self.assertEqual(code, answer.status_int)

    def test_policy_without_target_uses_own_project(self):
        for token, code in ((tiny.READER, 200), (tiny.STRANGER, 200), (tiny.NOBODY, 403)):
            with self.subTest(token=token):
                answer = self.api.call('GET', '/v3/attachments', token=token)
                self.assertEqual(code, answer.status_int)

    def test_refusal_answered_as_not_found(self):
        answer = self.api.call('GET', '/v3/attachments/a', token=tiny.STRANGER)
        self.assertEqual(('itemNotFound', 404), tiny.fault(answer)[:2])

    def test_public_operation_needs_no_token(self):
        self.assertEqual(200, self.api.call('GET', '/', token='broken').status_int)
        self.assertEqual(200, self.api.call('GET', '/', token=None, version=None).status_int)

    def test_request_without_project_needs_admin(self):
        """A token of a system or a domain has no project, so a list would have all projects."""
        for admin, roles, code in ((True, ['admin'], 200), (False, ['reader', 'member'], 403),
                                   (False, [], 403)):
            api = tiny.Tiny(authenticate=lambda request, project, admin=admin, roles=roles:
                            context.RequestContext(is_admin=admin, roles=roles, overwrite=False))
            with self.subTest(roles=roles):
                answer = api.call('GET', '/v3/attachments', token=None)
                self.assertEqual(code, answer.status_int)
                self.assertEqual(code == 200, bool(api.services.log))
                if code == 403:
                    self.assertEqual(('forbidden', 403, 'A project-scoped token is required.'),
                                     tiny.fault(answer))
                self.assertEqual(200, api.call('GET', '/', token=None).status_int)
                self.assertEqual(400, api.call(
                    'GET', f'/v3/{tiny.PROJECT}/attachments', token=None).status_int)

    def test_unknown_policy_rejected_at_start(self):
        row = operation.Operation('GET', '/x', tiny.index, policy='volume:no_such_rule')
        with self.assertRaisesRegex(ValueError, 'no_such_rule'):
            tiny.Tiny((row,))


class ActionsTest(unittest.TestCase):
    """Actions, which share a path and are selected by the body."""

    def setUp(self):
        self.api = tiny.Tiny()

    def test_action_selected_by_key(self):
        for body, code in (({'os-complete': None}, 204), ({'os-complete': 'text'}, 204),
                           ({'os-complete': {}}, 204), ({'os-wipe': {}}, 202)):
            with self.subTest(body=body):
                answer = self.api.call('POST', ACTION, json=body)
                self.assertEqual((code, b''), (answer.status_int, answer.body))

    def test_no_content_answer_has_no_type_or_length(self):
        answer = self.api.call('POST', ACTION, json={'os-complete': None})
        self.assertNotIn('Content-Type', answer.headers)
        self.assertNotIn('Content-Length', answer.headers)

    def test_action_body_without_single_key_rejected(self):
        for body in ({}, {'os-complete': None, 'os-wipe': {}}, [], ['os-complete'], 'os-complete',
                     None, 5):
            with self.subTest(body=body):
                answer = self.api.call('POST', ACTION, json=body)
                self.assertEqual(('badRequest', 400, 'Malformed request body'),
                                 tiny.fault(answer))

    def test_unknown_action_rejected(self):
        answer = self.api.call('POST', ACTION, json={'os-dance': {}})
        self.assertEqual(('badRequest', 400, 'There is no such action: os-dance'),
                         tiny.fault(answer))

    def test_action_has_own_schema_and_policy(self):
        answer = self.api.call('POST', ACTION, json={'os-wipe': {'x': 1}})
        self.assertEqual(400, answer.status_int)
        answer = self.api.call('POST', ACTION, json={'os-wipe': {}}, token=tiny.READER)
        self.assertIn('volume:attachment_delete', tiny.fault(answer)[2])


class CallTest(unittest.TestCase):
    """Call that a handler receives."""

    def setUp(self):
        self.api = tiny.Tiny()

    def test_links_have_project_of_request_path(self):
        for middle in ('', f'/{tiny.PROJECT}'):
            with self.subTest(middle=middle):
                body = self.api.call('GET', f'/v3{middle}/attachments/a').json['attachment']
                self.assertEqual(
                    (f'http://localhost/v3{middle}/attachments/a',
                     f'http://localhost{middle}/attachments/a'),
                    tuple(link['href'] for link in body['links']))

    def test_links_use_public_endpoint(self):
        api = tiny.Tiny(public_endpoint='https://s.example.org/vol')
        body = api.call('GET', '/v3/attachments/a').json['attachment']
        self.assertEqual('https://s.example.org/vol/v3/attachments/a', body['links'][0]['href'])

    def test_links_use_host_of_request(self):
        answer = self.api.call('GET', 'http://s.example.org:8776/v3/attachments/a')
        self.assertEqual('http://s.example.org:8776/v3/attachments/a',
                         answer.json['attachment']['links'][0]['href'])

    def test_next_link_keeps_query(self):
        answer = self.api.call('GET', '/v3/attachments/detail?limit=2&marker=x&name=%C3%A4+b')
        self.assertEqual('http://localhost/v3/attachments/detail?limit=2&name=%C3%A4+b&marker=m',
                         answer.json['next'])

    def test_invalid_query_parameter_rejected(self):
        answer = self.api.call('GET', '/v3/attachments?limit=some')
        key, code, message = tiny.fault(answer)
        self.assertEqual(('badRequest', 400), (key, code))
        self.assertIn('Invalid input for query parameters limit. Value: some.', message)

    def test_query_with_invalid_text_rejected(self):
        for query in ('a=%FF', 'a=%00'):
            with self.subTest(query=query):
                self.assertEqual(400, self.api.call('GET', f'/v3/old?{query}',
                                                    version=None).status_int)


class AnswerTest(unittest.TestCase):
    """Return values of a handler, and the schema of its answers."""

    def api(self, value, **more):
        row = operation.Operation('GET', '/x', lambda services, call: value, **more)
        return tiny.Tiny((row,), check_answers=True)

    def test_handler_may_return_value_none_or_answer(self):
        for value, wanted in (
                ({'a': 1}, (200, b'{"a":1}', 'application/json')),
                (None, (200, b'', 'application/json')),
                (operation.Answer({'a': 1}, 202), (202, b'{"a":1}', 'application/json')),
                (operation.Answer(b'OK', headers={'Content-Type': 'text/plain'}),
                 (200, b'OK', 'text/plain'))):
            with self.subTest(value=value):
                answer = self.api(value).call('GET', '/v3/x')
                self.assertEqual(wanted, (answer.status_int, answer.body, answer.content_type))

    def test_headers_of_answer_sent(self):
        answer = self.api(operation.Answer({}, headers={'Etag': 'e'})).call('GET', '/v3/x')
        self.assertEqual('e', answer.headers['Etag'])

    def test_answer_against_schema_raises(self):
        promise = {V(3, 0): schema.obj({'a': {'type': 'integer'}}, ['a'])}
        self.assertEqual(200, self.api({'a': 1}, answer=promise).call(
            'GET', '/v3/x').status_int)
        for value in ({'a': 'x'}, {'a': 1, 'b': 2}, None):
            with self.subTest(value=value), self.assertRaisesRegex(
                    promises.WrongAnswer, r'^GET /x at 3\.71'):
                self.api(value, answer=promise).call('GET', '/v3/x')

    def test_extension_has_own_answer_schema(self):
        promise = {V(3, 0): schema.obj({'a': {'type': 'integer'}}, ['a'])}
        more = {V(1, 0): lambda plain: schema.extend(plain, {'b': {'type': 'integer'}}, ['b'])}
        for value, version, kept in (
                ({'a': 1}, 'volume 3.71', True),
                ({'a': 1}, 'volume 3.71, blockattach 1.0', False),
                ({'a': 1, 'b': 2}, 'volume 3.71', False),
                ({'a': 1, 'b': 2}, 'volume 3.71, blockattach 1.0', True)):
            with self.subTest(value=value, version=version):
                api = self.api(value, answer=promise, extended=more)
                if kept:
                    self.assertEqual(200, api.call('GET', '/v3/x', version=version).status_int)
                    continue
                with self.assertRaises(promises.WrongAnswer):
                    api.call('GET', '/v3/x', version=version)

    def test_error_answer_not_checked_by_schema(self):
        promise = {V(3, 0): schema.obj({'a': {'type': 'integer'}}, ['a'])}
        value = operation.Answer({'wrong': True}, 503)
        self.assertEqual(503, self.api(value, answer=promise).call('GET', '/v3/x').status_int)

    def test_record_without_view_not_sent(self):
        with self.assertLogs('blockattach.platform.http.responses', 'ERROR'):
            answer = self.api({'thing': tiny.Thing('a')}).call('GET', '/v3/x')
        self.assertEqual(500, answer.status_int)

    def test_error_of_handler_answered(self):
        def refuse(services, call):
            raise errors.VolumeTypeExists(name='gold')
        row = operation.Operation('GET', '/x', refuse)
        self.assertEqual(('conflictingRequest', 409, 'Volume Type gold already exists.'),
                         tiny.fault(tiny.Tiny((row,)).call('GET', '/v3/x')))
