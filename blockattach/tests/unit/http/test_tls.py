"""Built-in HTTP server with TLS."""
import contextlib
import io
import os
import pathlib
import socket
import ssl
import struct
import tempfile
import unittest

from cryptography.hazmat.primitives import serialization

from blockattach.platform import errors
from blockattach.platform.conf import api as api_conf
from blockattach.platform.webserver import server
from blockattach.platform.webserver import tls
from blockattach.tests.fixtures import certificates
from blockattach.tests.fixtures import polling

SECONDS = polling.LIMIT
LARGE = 20000000
REQUEST = b'GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n'


class Case(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.authority = certificates.Authority()
        self.addCleanup(self.authority.close)
        folder = tempfile.TemporaryDirectory(prefix='blockattach-')
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.issued = self.authority.issue(self.folder, 'server')

    def files(self, **more):
        return api_conf.TlsFiles(str(self.issued.cert), str(self.issued.key), **more)

    def bind(self, **more):
        self.certificate = tls.Certificate(self.files(**more))
        self.server = server.Server(application, certificates.LOOPBACK, 0,
                                    secured=self.certificate)
        self.addCleanup(self.server.stop)

    def serve(self, **more):
        self.bind(**more)
        self.server.start()

    def context(self):
        return ssl.create_default_context(cafile=self.authority.cert)

    @contextlib.contextmanager
    def connected(self, context=None):
        with (socket.create_connection((certificates.LOOPBACK, self.server.port),
                                       SECONDS) as plain,
              (context or self.context()).wrap_socket(
                  plain, server_hostname='localhost') as secured):
            yield secured

    def talk(self, sent, context=None):
        with self.connected(context) as secured:
            secured.sendall(sent)
            return until_closed(secured)


def application(environ, start_response):
    body = f'{environ["wsgi.url_scheme"]} {environ["PATH_INFO"]}'.encode()
    if body == b'https /large':
        body = environ['wsgi.input'].read() * (LARGE // 100000)
    start_response('200 OK', [('Content-Length', str(len(body)))])
    return [body]


def until_closed(connection):
    """Return all that the server answers until it closes the connection."""
    parts = []
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(65536):
            parts.append(part)
    return b''.join(parts)


def closing(path):
    return REQUEST.replace(b'\r\n\r\n', b'\r\nConnection: close\r\n\r\n') % path


class ServerTest(Case):

    def test_request_served_over_tls(self):
        self.serve()
        self.assertIn(b'https /a', self.talk(closing(b'a')))

    def test_pipelined_requests_in_one_record_served(self):
        """The second request is decrypted together with the first one."""
        self.serve()
        filling = io.DEFAULT_BUFFER_SIZE - len(REQUEST % b'')
        answer = self.talk(REQUEST % (b'a' * filling) + closing(b'b'))
        self.assertEqual(2, answer.count(b'200 OK'), answer)
        self.assertTrue(answer.endswith(b'https /b'))

    def test_body_larger_than_tls_record(self):
        """Both the request and the answer exceed a record, and the client reads late."""
        self.serve()
        length = 100000
        sent = b'POST /%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n'
        answer = self.talk(sent % (b'large', length) + b'x' * length)
        self.assertTrue(answer.endswith(b'x' * LARGE), answer[:200])

    def test_plain_http_request_answered_with_400(self):
        self.serve()
        with socket.create_connection((certificates.LOOPBACK, self.server.port),
                                      SECONDS) as plain:
            plain.sendall(REQUEST % b'a')
            answer = until_closed(plain)
        self.assertTrue(answer.startswith(b'HTTP/1.1 400 '), answer)
        self.assertIn(b'HTTPS', answer)

    def test_silent_client_delays_no_other(self):
        self.serve()
        with contextlib.ExitStack() as silent:
            for _ in range(4):
                silent.enter_context(socket.create_connection(
                    (certificates.LOOPBACK, self.server.port), SECONDS))
            self.assertIn(b'https /a', self.talk(closing(b'a')))

    def test_client_reset_before_accept_delays_no_other(self):
        self.bind()
        for sent in (b'', REQUEST):
            gone = socket.create_connection((certificates.LOOPBACK, self.server.port), SECONDS)
            gone.sendall(sent)
            # Closed like this, it is reset.
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
            gone.close()
        self.server.start()
        self.assertIn(b'https /a', self.talk(closing(b'a')))

    def test_client_without_required_certificate_rejected(self):
        self.serve(client_ca=str(self.authority.cert))
        with contextlib.suppress(OSError):
            self.assertEqual(b'', self.talk(closing(b'a')))
        own = self.authority.issue(self.folder, 'client')
        context = self.context()
        context.load_cert_chain(own.cert, own.key)
        self.assertIn(b'https /a', self.talk(closing(b'a'), context))
        with certificates.Authority() as stranger:
            other = stranger.issue(self.folder, 'stranger')
            context.load_cert_chain(other.cert, other.key)
            with contextlib.suppress(OSError):
                self.assertEqual(b'', self.talk(closing(b'a'), context))

    def serial(self):
        with self.connected() as secured:
            return secured.getpeercert()['serialNumber']

    def test_certificate_reloaded_without_restart(self):
        self.serve()
        before = self.serial()
        with self.connected() as old:
            self.issued = self.authority.issue(self.folder, 'server')
            self.certificate.reload()
            self.assertNotEqual(before, self.serial())
            old.sendall(closing(b'a'))
            self.assertIn(b'https /a', until_closed(old))
        now = self.serial()
        self.issued.cert.write_text('nothing')
        with self.assertLogs('blockattach.platform.webserver.tls', 'ERROR'):
            self.certificate.reload()
        self.assertEqual(now, self.serial())


class FilesTest(Case):

    def assert_unusable(self, files, what):
        with self.assertRaisesRegex(errors.ConfigurationError, f'cannot use {what}'):
            tls.Certificate(files)

    def test_unusable_certificate_files_rejected(self):
        self.assert_unusable(api_conf.TlsFiles('/no/such/file'), '/no/such/file')
        self.assert_unusable(self.files(client_ca='/no/such/file'), '/no/such/file')
        # without its key
        self.assert_unusable(api_conf.TlsFiles(str(self.issued.cert)), self.issued.cert)
        other = self.authority.issue(self.folder, 'other')
        self.assert_unusable(api_conf.TlsFiles(str(self.issued.cert), str(other.key)),
                             self.issued.cert)

    def test_encrypted_key_rejected_without_prompt(self):
        key = serialization.load_pem_private_key(self.issued.key.read_bytes(), None)
        self.issued.key.write_bytes(key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b'secret')))
        self.assert_unusable(self.files(), self.issued.cert)

    def test_certificate_and_key_in_one_file_accepted(self):
        with self.issued.cert.open('ab') as file:
            file.write(self.issued.key.read_bytes())
        os.unlink(self.issued.key)
        tls.Certificate(api_conf.TlsFiles(str(self.issued.cert)))
