"""Behavior that all operations share on the wire."""
import io
import re
import unittest

import webob

from blockattach.tests.unit.http import tiny

UUID = '6f1b2f7e-4f0e-4c6e-9d3a-6b0d7c4a1e11'
NOT_FOUND = ('itemNotFound', 404, 'The resource could not be found.')
GOOD = {'attachment': {'volume_uuid': UUID}}


class PathsTest(unittest.TestCase):
    """Paths with and without the project."""

    def setUp(self):
        self.api = tiny.Tiny()

    def test_project_optional_in_path_at_each_version(self):
        for version in ('volume 3.27', 'volume 3.71'):
            for path in (f'/v3/{tiny.PROJECT}/attachments/a', '/v3/attachments/a'):
                with self.subTest(version=version, path=path):
                    answer = self.api.call('GET', path, version=version)
                    self.assertEqual((200, 'a'), (answer.status_int,
                                                  answer.json['attachment']['id']))

    def test_path_with_project_of_other_token_rejected(self):
        for token in (tiny.MEMBER, tiny.ADMIN):
            with self.subTest(token=token):
                answer = self.api.call('GET', '/v3/00000000000000000000000000000aaa/attachments',
                                       token=token)
                self.assertEqual(('badRequest', 400, 'Malformed request url'),
                                 tiny.fault(answer))

    def test_unknown_route_or_method_not_found(self):
        for method, path in (('GET', '/v3/nothing'), ('GET', f'/v3/{tiny.PROJECT}'),
                             ('GET', '/v2/'), ('PATCH', '/v3/attachments'),
                             ('PUT', '/v3/attachments'), ('GET', '/v3//attachments'),
                             ('GET', '/v3/attachments/'),
                             ('GET', '/v3/attachments/%FF'), ('GET', '/v3/attachments/a%00'),
                             ('OPTIONS', '/v3/attachments')):
            with self.subTest(method=method, path=path):
                for token in (tiny.MEMBER, None):
                    answer = self.api.call(method, path, token=token)
                    self.assertEqual((404, 'application/json', NOT_FOUND), (
                        answer.status_int, answer.content_type, tiny.fault(answer)))

    def test_head_answered_as_get_without_body(self):
        shown = self.api.call('GET', '/v3/attachments/a')
        answer = self.api.call('HEAD', '/v3/attachments/a')
        self.assertEqual((200, b'', shown.content_length),
                         (answer.status_int, answer.body, answer.content_length))


class VersionsTest(unittest.TestCase):
    """Version headers of requests and answers."""

    def setUp(self):
        self.api = tiny.Tiny()

    def test_answer_has_version_and_vary(self):
        for asked, answered in ((tiny.LATEST, 'volume 3.71'), ('volume 3.27', 'volume 3.27'),
                                ('compute 2.89, volume 3.30', 'volume 3.30'),
                                ('volume 3.71, blockattach 1.0', 'volume 3.71, blockattach 1.0')):
            with self.subTest(asked=asked):
                answer = self.api.call('GET', '/v3/attachments/a', version=asked)
                self.assertEqual((200, answered, 'OpenStack-API-Version'), (
                    answer.status_int, answer.headers['OpenStack-API-Version'],
                    answer.headers['Vary']))

    def test_request_without_version_gets_base_version(self):
        answer = self.api.call('GET', '/v3/old', version=None)
        self.assertEqual((200, 'volume 3.0'), (
            answer.status_int, answer.headers['OpenStack-API-Version']))

    def test_operation_before_its_version_not_found(self):
        for method, path, version in (('GET', '/v3/attachments/a', 'volume 3.26'),
                                      ('GET', '/v3/attachments/a', None),
                                      ('GET', '/v3/old', 'volume 3.11'),
                                      ('POST', '/v3/attachments', 'volume 3.26')):
            with self.subTest(path=path, version=version):
                answer = self.api.call(method, path, version=version)
                self.assertEqual(NOT_FOUND, tiny.fault(answer))

    def test_action_before_its_version_not_found(self):
        answer = self.api.call('POST', '/v3/attachments/a/action', json={'os-complete': None},
                               version='volume 3.43')
        self.assertEqual(NOT_FOUND, tiny.fault(answer))

    def test_version_above_maximum_not_acceptable(self):
        answer = self.api.call('GET', '/v3/attachments/a', version='volume 3.72')
        key, code, message = tiny.fault(answer)
        self.assertEqual((406, 'computeFault', 406), (answer.status_int, key, code))
        for version in ('3.72', '3.0', '3.71'):
            self.assertIn(version, message)

    def test_malformed_version_rejected(self):
        for version in ('volume 3', 'volume 3.x', 'volume', 'volume -3.1', 'volume 03.1'):
            with self.subTest(version=version):
                answer = self.api.call('GET', '/v3/attachments/a', version=version)
                self.assertEqual(('badRequest', 400), tiny.fault(answer)[:2])

    def test_extension_operation_needs_header(self):
        path = '/v3/attachments/a/more'
        self.assertEqual(NOT_FOUND, tiny.fault(self.api.call('GET', path)))
        answer = self.api.call('GET', path, version='volume 3.71, blockattach 1.0')
        self.assertEqual('1.0', answer.json['attachment']['extension'])

    def test_version_discovery_ignores_header(self):
        answer = self.api.call('GET', '/', version='volume 9.99')
        self.assertEqual(200, answer.status_int)
        self.assertNotIn('OpenStack-API-Version', answer.headers)


class RequestIdTest(unittest.TestCase):
    """Request id of each answer."""

    def test_both_headers_have_same_request_id(self):
        api = tiny.Tiny()
        seen = set()
        for path in ('/v3/attachments/a', '/v3/attachments/none', '/nothing', '/v3/boom/bug', '/'):
            with self.subTest(path=path):
                answer = api.call('GET', path)
                name = answer.headers['x-openstack-request-id']
                self.assertEqual(name, answer.headers['x-compute-request-id'])
                self.assertRegex(name, re.compile('^req-[0-9a-f-]{36}$'))
                seen.add(name)
        self.assertEqual(5, len(seen))


class BodiesTest(unittest.TestCase):
    """Request bodies that are no JSON, or not the expected JSON."""

    def setUp(self):
        self.api = tiny.Tiny()

    def test_valid_body_reaches_handler(self):
        for kind in ('application/json', 'application/json; charset=UTF-8',
                     'application/vnd.openstack.volume+json', None):
            with self.subTest(kind=kind):
                answer = self.api.call('POST', '/v3/attachments', json=GOOD, content_type=kind)
                self.assertEqual((202, GOOD), (answer.status_int, answer.json))

    def test_unknown_content_type_rejected(self):
        for kind in ('text/plain', 'application/xml', 'application/x-www-form-urlencoded'):
            with self.subTest(kind=kind):
                answer = self.api.call('POST', '/v3/attachments', json=GOOD, content_type=kind)
                self.assertEqual(('badMediaType', 415, 'Unsupported Content-Type'),
                                 tiny.fault(answer))

    def test_content_encoding_rejected(self):
        """The body is not decoded, whatever the HTTP server lets pass."""
        for coding, code in (('identity', 202), ('gzip', 415), ('x', 415), ('', 415)):
            with self.subTest(coding=coding):
                answer = self.api.call('POST', '/v3/attachments', json=GOOD,
                                       headers={'Content-Encoding': coding})
                self.assertEqual(code, answer.status_int)

    def test_several_host_headers_rejected(self):
        """HTTP servers join repeated headers with a comma."""
        for host in ('a,b', 'localhost, localhost'):
            with self.subTest(host=host):
                answer = self.api.call('GET', '/v3/volumes', headers={'Host': host})
                self.assertEqual(('badRequest', 400, 'The Host header must contain one name.'),
                                 tiny.fault(answer))

    def test_body_without_json_rejected(self):
        for body in (b'{', b'nothing', b'\xff\xfe', b'{"attachment": NaN}', b'{"a": "\\u0000"}',
                     b'[' * 100000):
            with self.subTest(body=body[:20]):
                answer = self.api.call('POST', '/v3/attachments', body)
                self.assertEqual(('badRequest', 400, 'Malformed request body'),
                                 tiny.fault(answer))

    def test_body_nested_too_deep_rejected(self):
        for depth, code in ((1, 204), (98, 204), (99, 400), (900, 400), (1000, 400)):
            for left, right in ((b'[', b']'), (b'{"a": ', b'}')):
                with self.subTest(depth=depth, left=left):
                    nested = left * depth + b'1' + right * depth
                    answer = self.api.call('POST', '/v3/attachments/a/action',
                                           b'{"os-complete": [' + nested + b']}')
                    self.assertEqual(code, answer.status_int)

    def test_wide_body_accepted(self):
        body = b'{"os-complete": [' + b','.join([b'[{}]'] * 1000) + b']}'
        self.assertEqual(204, self.api.call('POST', '/v3/attachments/a/action', body).status_int)

    def test_missing_body_rejected(self):
        for method, path in (('POST', '/v3/attachments'), ('PUT', '/v3/attachments/a'),
                             ('POST', '/v3/attachments/a/action')):
            with self.subTest(path=path):
                answer = self.api.call(method, path)
                self.assertEqual(('badRequest', 400, 'Malformed request body'),
                                 tiny.fault(answer))

    def test_body_of_delete_ignored(self):
        answer = self.api.call('DELETE', '/v3/attachments/a', b'what?', content_type='text/plain')
        self.assertEqual((202, b''), (answer.status_int, answer.body))

    def test_too_large_body_rejected(self):
        api = tiny.Tiny(max_body_size=100)
        answer = api.call('POST', '/v3/attachments', b'{' + b' ' * 99 + b'}')
        self.assertEqual(('overLimit', 413, 'Request is too large.'), tiny.fault(answer))

    def test_too_large_body_without_length_rejected(self):
        api = tiny.Tiny(max_body_size=100)
        good = b'{"attachment": {"volume_uuid": "%s"}}' % UUID.encode()
        for body, code in ((good, 202), (good + b' ' * 100, 413)):
            with self.subTest(code=code):
                request = webob.Request.blank('/v3/attachments', method='POST', headers={
                    'X-Auth-Token': tiny.MEMBER, 'OpenStack-API-Version': tiny.LATEST})
                request.environ.pop('CONTENT_LENGTH', None)
                request.environ['wsgi.input'] = io.BytesIO(body)
                request.environ['wsgi.input_terminated'] = True
                self.assertEqual(code, request.get_response(api.app).status_int)

    def test_invalid_length_or_truncated_body_rejected(self):
        class Broken(io.BytesIO):
            def read(self, size=-1):
                raise ValueError('bad chunk')

        for length in ('-1', '-5', '+3', 'x', '0x3', '\u0663', '9' * 30, '3'):
            with self.subTest(length=length):
                request = webob.Request.blank('/v3/attachments', method='POST', headers={
                    'X-Auth-Token': tiny.MEMBER, 'OpenStack-API-Version': tiny.LATEST})
                request.environ['CONTENT_LENGTH'] = length
                request.environ['wsgi.input'] = Broken()
                self.assertEqual(('badRequest', 400, 'Malformed request body'),
                                 tiny.fault(request.get_response(self.api.app)))

    def test_schema_error_names_field_and_reason(self):
        for body, message in (
                ({}, "'attachment' is a required property"),
                ([], "[] is not of type 'object'"),
                ({**GOOD, 'x': 1}, "Additional properties are not allowed ('x' was unexpected)"),
                ({'attachment': {'volume_uuid': 'a'}},
                 "Invalid input for field/attribute volume_uuid. Value: a. 'a' is not a 'uuid'")):
            with self.subTest(body=body):
                answer = self.api.call('POST', '/v3/attachments', json=body)
                self.assertEqual(('badRequest', 400, message), tiny.fault(answer))

    def test_schema_selected_by_version(self):
        body = {'attachment': {'volume_uuid': UUID, 'mode': 'ro'}}
        for version, code in (('volume 3.53', 400), ('volume 3.54', 202), (tiny.LATEST, 202)):
            with self.subTest(version=version):
                answer = self.api.call('POST', '/v3/attachments', json=body, version=version)
                self.assertEqual(code, answer.status_int)


class FaultsTest(unittest.TestCase):
    """Bodies of error answers."""

    def setUp(self):
        self.api = tiny.Tiny()

    def test_known_error_answered_with_fault(self):
        for name, wanted in (
                ('full', ('computeFault', 500,
                          'Unable to create attachment for volume (no room).')),
                ('busy', ('conflictingRequest', 409, 'Resource conflict: busy'))):
            with self.subTest(name=name):
                answer = self.api.call('GET', f'/v3/boom/{name}')
                self.assertEqual(wanted, tiny.fault(answer))
                self.assertEqual((wanted[1], 'application/json'),
                                 (answer.status_int, answer.content_type))

    def test_unforeseen_error_logged_and_hidden(self):
        with self.assertLogs('blockattach.platform.http.responses', 'ERROR') as logged:
            answer = self.api.call('GET', '/v3/boom/bug')
        self.assertEqual(('computeFault', 500), tiny.fault(answer)[:2])
        self.assertNotIn('secret', answer.text)
        self.assertIn('Traceback', logged.output[0])
