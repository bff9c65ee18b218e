"""Who is on this machine."""
import unittest

import webob

from blockattach.http import loopback


class AddressesTest(unittest.TestCase):

    def test_addresses(self):
        for address, wanted in (
                ('127.0.0.1', True), ('127.8.9.10', True), ('::1', True),
                ('::ffff:127.0.0.1', True), ('::1%lo', True), ('0.0.0.0', False), ('::', False),
                ('192.0.2.1', False), ('::ffff:192.0.2.1', False), ('fe80::1%eth0', False),
                ('localhost', False), ('', False)):
            with self.subTest(address=address):
                self.assertEqual(wanted, loopback.is_loopback(address))

    def test_where_one_listens(self):
        for host, wanted in (('127.0.0.1', True), ('::1', True), ('localhost', True),
                             ('0.0.0.0', False), ('::', False), ('', False), ('192.0.2.1', False),
                             ('no-such-name.invalid', False)):
            with self.subTest(host=host):
                self.assertEqual(wanted, loopback.stands_for_loopback(host))


class LayerTest(unittest.TestCase):

    def test_whoever_comes_from_elsewhere_is_refused(self):
        handle = loopback.serve_locally(lambda request: webob.Response('served'))
        for environ, status in (
                ({'REMOTE_ADDR': '127.0.0.1'}, 200), ({'REMOTE_ADDR': '::1'}, 200),
                # over a Unix socket
                ({}, 200), ({'REMOTE_ADDR': ''}, 200),
                ({'REMOTE_ADDR': '192.0.2.1'}, 403), ({'REMOTE_ADDR': 'unknown'}, 403),
                ({'REMOTE_ADDR': '192.0.2.1', 'HTTP_X_FORWARDED_FOR': '127.0.0.1'}, 403)):
            with self.subTest(environ=environ):
                answer = handle(webob.Request.blank('/', environ=environ))
                self.assertEqual(status, answer.status_code)
                if status == 403:
                    self.assertIn('same machine', answer.json['forbidden']['message'])
