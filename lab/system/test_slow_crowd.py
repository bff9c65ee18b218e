"""All-in-one service with 5,000 clients that each send a byte every three seconds."""
import contextlib
import resource
import socket
import threading
import urllib.request

from blockattach.tests.functional import base

CROWD = 5000
OTHER_FILES = 200
SECONDS = 180
DRIP_SECONDS = 3
ASKED = 50
HALF = b'POST /v3/volumes HTTP/1.1\r\nHost: localhost\r\nX-A: '
HEADER = b'POST /v3/volumes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n'


class SlowCrowdTest(base.StackTestCase):

    def setUp(self):
        super().setUp()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = CROWD + OTHER_FILES
        if hard != resource.RLIM_INFINITY and hard < wanted:
            reason = f'a process may have {hard} files open, and {wanted} are needed'
            print(f'{self.id()}: {reason}')
            self.skipTest(reason)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        self.over = threading.Event()

    def serve(self, options=''):
        self.service = self.a_stack(settings=f'[api]\n{options}\n')
        self.port = int(self.service.url.rpartition(':')[2])
        self.api = base.Api(self.service.endpoint, SECONDS)

    def connect(self, sent):
        made = socket.create_connection(('127.0.0.1', self.port), SECONDS)
        self.addCleanup(made.close)
        made.sendall(sent)
        return made

    def crowd(self):
        """Connect all clients. Half of them send a header, and half of them a body."""
        made = [self.connect(HEADER if number % 2 else HALF) for number in range(CROWD)]
        dripping = threading.Thread(target=self.drip, args=(made,))
        dripping.start()
        self.addCleanup(dripping.join)
        self.addCleanup(self.over.set)
        return made

    def drip(self, clients):
        while not self.over.wait(DRIP_SECONDS):
            for client in clients:
                with contextlib.suppress(OSError):
                    client.send(b'1')

    def assert_served(self):
        for _ in range(ASKED):
            with urllib.request.urlopen(f'http://127.0.0.1:{self.port}/healthcheck',
                                        timeout=SECONDS) as answer:
                self.assertEqual(b'OK', answer.read())
            self.assertEqual(200, self.api.ask('GET', '/volumes')[0])

    def test_others_are_served_beside_them(self):
        self.serve('header_timeout = 3600\nbody_timeout = 3600')
        clients = self.crowd()
        self.assert_served()
        volume_id = self.a_volume(self.api)
        self.assertEqual('available', self.settled(self.api, volume_id))
        # The slow clients are still connected, and their requests are answered as well.
        self.over.set()
        clients[-2].sendall(b'\r\n\r\n')
        self.assertIn(b'HTTP/1.1 400 ', clients[-2].recv(65536))

    def test_they_are_cut(self):
        self.serve('header_timeout = 1\nbody_timeout = 2')
        clients = self.crowd()
        for client in (clients[0], clients[1], clients[-2], clients[-1]):
            self.assertIn(b'HTTP/1.1 408 ', client.recv(65536))
        self.assert_served()
