"""API under the WSGI servers of the examples in etc/, with several processes and many threads."""
import concurrent.futures
import contextlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request

from blockattach.testing import stack
from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import servers
from blockattach.tests.functional import base
from blockattach.tests.rules import sources

ETC = sources.ROOT / 'etc'
CONFIGURATION = """
[DEFAULT]
state_path = {folder}/state
transport_url = {broker}
[database]
connection = {database}
[volume]
enabled_backends = disks
[disks]
store = fake
target = fake
"""
REQUESTS = 60
WORKERS = 2


def own_address():
    """Return an address of this machine for other machines, or None if there is none."""
    with (contextlib.suppress(OSError),
          socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe):
        # Connecting a UDP socket sends nothing.
        probe.connect(('192.0.2.1', 9))
        found = probe.getsockname()[0]
        return None if found.startswith('127.') else found
    return None


class WsgiServersTest(base.StackTestCase):

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix='blockattach-')
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.port = servers.free_port()
        self.log = self.folder / 'server.log'
        self.configuration = self.folder / 'blockattach.conf'
        # No message is sent, so that the missing broker has no effect.
        self.configuration.write_text(CONFIGURATION.format(
            folder=folder.name, database=self.a_database(),
            broker=f'rabbit://guest:guest@127.0.0.1:{servers.free_port()}/'))

    def a_database(self):
        """Create a migrated database and return its URL."""
        rows = database.DatabaseFixture()
        self.addCleanup(rows.close)
        return rows.url

    def serve(self, *command, **environment):
        with self.log.open('wb') as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self.folder,
                env={**os.environ, **environment,
                     'PATH': f'{os.path.dirname(sys.executable)}:{os.environ["PATH"]}',
                     'BLOCKATTACH_CONFIG_FILES': str(self.configuration)})
        self.addCleanup(self.end, process)
        self.api = base.Api(f'http://127.0.0.1:{self.port}/v3')
        self.assertTrue(base.wait_for(lambda: self.answers() or process.poll() is not None,
                                      stack.START_SECONDS), self.log.read_text())
        self.assertIsNone(process.poll(), self.log.read_text())
        return process

    def answers(self):
        with contextlib.suppress(OSError):
            return self.api.ask('GET', '/volumes')[0] == 200
        return False

    def end(self, process):
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(stack.STOP_SECONDS)
        finally:
            process.kill()
            process.wait()

    def check_serves(self, process):
        status, made = self.api.ask('POST', '/types', {'volume_type': {'name': 'shared'}})
        self.assertEqual(200, status, made)
        with concurrent.futures.ThreadPoolExecutor(8) as many:
            # A worker builds its application at its first request, which may take long.
            self.assertTrue(base.wait_for(lambda: all(
                many.map(lambda _: self.answers(), range(16))), stack.START_SECONDS),
                self.log.read_text())
            answers = list(many.map(lambda _: self.api.ask('GET', '/types/' + made[
                'volume_type']['id'])[0], range(REQUESTS)))
        self.assertEqual([200] * REQUESTS, answers)
        self.assertEqual(404, self.api.ask('GET', f'/volumes/{base.instance("none")}')[0])
        self.check_refuses()
        self.end(process)
        log = self.log.read_text()
        self.assertNotIn('Traceback', log, log)

    def check_refuses(self):
        """Check that the service refuses requests that some of the servers accept."""
        host = f'Host: 127.0.0.1:{self.port}\r\n'
        for status, line, headers in (
                (415, 'POST /v3/types', 'Content-Encoding: gzip\r\nContent-Length: 2\r\n'),
                (400, 'GET /v3/types', host.replace('\r', f', 127.0.0.1:{self.port}\r'))):
            with socket.create_connection(('127.0.0.1', self.port), base.SECONDS) as client:
                client.sendall(f'{line} HTTP/1.1\r\nConnection: close\r\n{headers}'
                               f'{"" if "Host" in headers else host}\r\n{{}}'.encode())
                answer = client.recv(65536)
                self.assertTrue(answer.startswith(b'HTTP/1.1 %d ' % status), answer)

    def test_uwsgi(self):
        example = (ETC / 'uwsgi' / 'blockattach-api.ini').read_text()
        self.assertIn('127.0.0.1:8776', example)
        # An additional process only answers health checks.
        self.assertIn(f'processes = {WORKERS + 1}\n', example)
        self.assertIn('127.0.0.1:8777', example)
        health = servers.free_port()
        ini = self.folder / 'blockattach-api.ini'
        ini.write_text(example.replace('127.0.0.1:8776', f'127.0.0.1:{self.port}').replace(
            '127.0.0.1:8777', f'127.0.0.1:{health}'))
        process = self.serve('uwsgi', '--ini', str(ini))
        # The application is loaded once, before the fork.
        self.assertEqual(1, self.log.read_text().count('WSGI app 0 '))
        # A worker may respond before the master has logged the start of the last one.
        self.assertTrue(base.wait_for(lambda: self.log.read_text().count(
            'spawned uWSGI worker ') == WORKERS + 1), self.log.read_text())
        with urllib.request.urlopen(f'http://127.0.0.1:{health}/healthcheck/live',
                                    timeout=base.SECONDS) as answer:
            self.assertEqual(b'OK', answer.read())
        self.check_serves(process)

    def test_each_worker_has_its_metrics(self):
        first = servers.free_port()
        with self.configuration.open('a', encoding='utf-8') as file:
            file.write(f'[metrics]\nport = {first}\n')
        process = self.serve(
            'uwsgi', '--http-socket', f'127.0.0.1:{self.port}', '--module',
            'blockattach.wsgi:application', '--master', '--processes', '2', '--lazy-apps',
            '--enable-threads', '--need-app', '--die-on-term',
            '--skip-atexit-teardown', '--add-header', 'Connection: close')

        def requests_seen():
            """Return True if both workers have started, and have counted a request."""
            self.answers()
            served = re.findall(r'Metrics server started host=127.0.0.1 port=(\d+)',
                                self.log.read_text())
            return len(set(served)) == 2 and all(self.requests_at(port) for port in served)

        self.assertTrue(base.wait_for(requests_seen, stack.START_SECONDS))
        self.end(process)
        self.assertNotIn('Traceback', self.log.read_text())

    def requests_at(self, port):
        with urllib.request.urlopen(f'http://127.0.0.1:{port}/', timeout=base.SECONDS) as answer:
            return re.search(r'http_request_seconds_count\{operation="GET /volumes",'
                             r'status="2xx"\} [1-9]', answer.read().decode())

    def test_without_authentication_only_this_machine_is_served(self):
        """The server listens on all addresses, but requests from elsewhere are refused."""
        own = own_address()
        self.outside_program(own, 'a network')
        self.serve(str(ETC / 'granian' / 'blockattach-api.sh'), HOST='0.0.0.0',
                   PORT=str(self.port))
        self.check_refused(own)

    def test_without_authentication_uwsgi_serves_only_this_machine(self):
        own = own_address()
        self.outside_program(own, 'a network')
        self.serve('uwsgi', '--http-socket', f'0.0.0.0:{self.port}', '--module',
                   'blockattach.wsgi:application', '--master', '--lazy-apps', '--enable-threads',
                   '--need-app', '--die-on-term', '--skip-atexit-teardown', '--buffer-size',
                   '65535', '--add-header', 'Connection: close')
        self.check_refused(own)

    def check_refused(self, own):
        status, answer = base.Api(f'http://{own}:{self.port}/v3').ask('GET', '/volumes')
        self.assertEqual(403, status)
        self.assertIn('same machine', answer['forbidden']['message'])
