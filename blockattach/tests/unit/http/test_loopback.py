"""Restriction of requests to clients of this machine."""
import unittest

import webob

from blockattach.platform.http import loopback
from blockattach.platform.http import middleware


class AddressesTest(unittest.TestCase):

    def test_loopback_addresses(self):
        for address, wanted in (
                ('127.0.0.1', True), ('127.8.9.10', True), ('::1', True),
                ('::ffff:127.0.0.1', True), ('::1%lo', True), ('0.0.0.0', False), ('::', False),
                ('192.0.2.1', False), ('::ffff:192.0.2.1', False), ('fe80::1%eth0', False),
                ('localhost', False), ('', False)):
            with self.subTest(address=address):
                self.assertEqual(wanted, loopback.is_loopback(address))

    def test_listen_hosts_that_are_loopback(self):
        for host, wanted in (('127.0.0.1', True), ('::1', True), ('localhost', True),
                             ('0.0.0.0', False), ('::', False), ('', False), ('192.0.2.1', False),
                             ('no-such-name.invalid', False)):
            with self.subTest(host=host):
                self.assertEqual(wanted, loopback.stands_for_loopback(host))


class NamesTest(unittest.TestCase):

    def test_local_names_in_host_header(self):
        for host, wanted in (
                ('localhost', True), ('localhost:8776', True), ('LocalHost', True),
                ('api.localhost:8776', True), ('127.0.0.1:8776', True), ('127.9.9.9', True),
                ('[::1]:8776', True), ('[::ffff:127.0.0.1]', True),
                ('', False), ('evil.example', False), ('localhost.evil.example', False),
                ('127.0.0.1.evil.example', False), ('192.0.2.1:8776', False), ('[::1', False),
                ('notlocalhost', False)):
            with self.subTest(host=host):
                self.assertEqual(wanted, loopback.is_local_name(host))


class LayerTest(unittest.TestCase):

    def answer(self, allowed=(), method='GET', **environ):
        """Return the answer to a request on the address of the API."""
        handle = loopback.serve_locally(allowed)(self.serve)
        request = webob.Request.blank('/', base_url='http://127.0.0.1:8776', method=method,
                                      environ={'REMOTE_ADDR': '127.0.0.1', **environ})
        return handle(request)

    def serve(self, request):
        self.request = request
        return webob.Response('served')

    def assert_refused(self, status, said, **environ):
        answer = self.answer(**environ)
        self.assertEqual(status, answer.status_code, environ)
        self.assertIn(said, answer.json['badMediaType' if status == 415 else 'forbidden'][
            'message'])

    def test_remote_client_forbidden(self):
        for environ in ({'REMOTE_ADDR': '192.0.2.1'}, {'REMOTE_ADDR': 'unknown'},
                        {'REMOTE_ADDR': '192.0.2.1', 'HTTP_X_FORWARDED_FOR': '127.0.0.1'}):
            self.assert_refused(403, 'same machine', **environ)
        # The last two came over a Unix socket.
        for address in ('127.0.0.1', '::1', '', None):
            self.assertEqual(200, self.answer(REMOTE_ADDR=address).status_code)

    def test_foreign_host_name_forbidden(self):
        self.assert_refused(403, 'header Host', HTTP_HOST='evil.example:8776')
        for host in ('localhost:8776', '[::1]:8776', 'volume.localhost'):
            self.assertEqual(200, self.answer(HTTP_HOST=host).status_code)

    def test_request_from_other_origin_forbidden(self):
        for origin in ('http://evil.example', 'null', '', 'https://127.0.0.1:8776',
                       'http://127.0.0.1:3000', 'http://127.0.0.1:8776.evil.example',
                       'http://[::1'):
            for method in ('GET', 'POST', 'PUT', 'DELETE', 'OPTIONS'):
                self.assert_refused(403, 'web pages', method=method, HTTP_ORIGIN=origin)
        self.assertEqual(200, self.answer(HTTP_ORIGIN='http://127.0.0.1:8776').status_code)

    def test_request_from_allowed_origin_served(self):
        for allowed in (['https://dashboard.example'], ['*']):
            self.assertEqual(200, self.answer(
                allowed, HTTP_ORIGIN='https://dashboard.example',
                HTTP_SEC_FETCH_SITE='cross-site').status_code)
            self.assertNotIn(middleware.MUST_NOT_WRITE, self.request.environ)

    def test_body_without_content_type_rejected(self):
        for environ in ({'CONTENT_LENGTH': '2'}, {'HTTP_TRANSFER_ENCODING': 'chunked'},
                        {'CONTENT_LENGTH': '2', 'CONTENT_TYPE': ''}):
            self.assert_refused(415, '', method='POST', **environ)
        for environ in ({'CONTENT_LENGTH': '2', 'CONTENT_TYPE': 'application/json'},
                        {'CONTENT_LENGTH': '0'}, {'CONTENT_LENGTH': ''}, {}):
            self.assertEqual(200, self.answer(method='POST', **environ).status_code)

    def test_cross_site_request_must_not_write(self):
        for environ, may_write in (
                ({}, True), ({'HTTP_SEC_FETCH_SITE': 'none'}, True),
                ({'HTTP_SEC_FETCH_SITE': 'same-origin'}, True),
                ({'HTTP_REFERER': 'http://127.0.0.1:8776/v3/'}, True),
                ({'HTTP_SEC_FETCH_SITE': 'same-site'}, False),
                ({'HTTP_SEC_FETCH_SITE': 'cross-site'}, False),
                ({'HTTP_SEC_FETCH_SITE': 'anything'}, False),
                ({'HTTP_REFERER': 'http://evil.example/page'}, False),
                ({'HTTP_REFERER': 'http://127.0.0.1:3000/'}, False)):
            with self.subTest(environ=environ):
                self.assertEqual(200, self.answer(**environ).status_code)
                self.assertEqual(may_write,
                                 middleware.MUST_NOT_WRITE not in self.request.environ)
