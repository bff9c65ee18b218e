"""Overload of real processes: the API under uWSGI, with RabbitMQ and MariaDB."""
import collections
import concurrent.futures
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request

from blockattach.platform import clock
from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import rabbit
from blockattach.tests.fixtures import servers
from blockattach.tests.functional import base
from blockattach.tests.rules import sources
from lab.system import site

HOST = 'storage-1'
JOINS = 2500
OVERLOAD_SECONDS = 60
# Each client is a thread that needs little stack.
STACK_BYTES = 262144
SECONDS = 3600
# A queue timeout must not occur, even if other tests slow the machine down.
QUEUE_SECONDS = 3600
SETTINGS = {('disks', 'store'): 'fake', ('disks', 'target'): 'fake',
            ('slow', 'store'): 'fake', ('slow', 'target'): 'fake',
            ('volume', 'enabled_backends'): 'disks, slow',
            ('control', 'backend_seconds'): str(QUEUE_SECONDS + 90),
            ('api', 'queue_timeout'): str(QUEUE_SECONDS)}


class BackPressureTest(base.StackTestCase):
    """API with two processes, a scheduler, and a volume manager with two backends."""

    def setUp(self):
        super().setUp()
        self.outside_program(rabbit.why_missing() is None, 'RabbitMQ')
        self.outside_program(database.why_missing(database.MYSQL) is None, 'MariaDB')
        folder = tempfile.TemporaryDirectory(prefix='blockattach-')
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        rows = database.DatabaseFixture(database.MYSQL)
        self.addCleanup(rows.close)
        broker = rabbit.RabbitFixture()
        self.addCleanup(broker.close)
        broker.serves('scheduler', HOST)
        for backend in ('disks', 'slow'):
            broker.serves('volume', f'{HOST}@{backend}')
        self.site = site.Site(folder.name, rows.url)
        self.addCleanup(self.site.close)
        self.site.configure(HOST, {**SETTINGS, **broker.options()})
        self.site.start(HOST, only=('scheduler', 'volume'))
        self.serve()
        self.api = base.Api(f'http://127.0.0.1:{self.site.port(HOST)}/v3', SECONDS)
        self.assertTrue(base.wait_for(self.up, site.SECONDS))
        self.addCleanup(threading.stack_size, threading.stack_size(STACK_BYTES))
        self.addCleanup(self.release)

    def serve(self):
        """Start the API under uWSGI with the example configuration."""
        example = (sources.ROOT / 'etc' / 'uwsgi' / 'blockattach-api.ini').read_text()
        self.health_port = servers.free_port()
        ini = self.folder / 'blockattach-api.ini'
        ini.write_text(example.replace('127.0.0.1:8776', f'127.0.0.1:{self.site.port(HOST)}')
                       .replace('127.0.0.1:8777', f'127.0.0.1:{self.health_port}'))
        with (self.folder / 'uwsgi.log').open('wb') as log:
            process = subprocess.Popen(
                ['uwsgi', '--ini', str(ini)], stdout=log, stderr=log, cwd=self.folder,
                env={**os.environ, 'PYTHONPATH': str(sources.ROOT),
                     'PATH': f'{os.path.dirname(sys.executable)}:{os.environ["PATH"]}',
                     'BLOCKATTACH_CONFIG_FILES': str(self.folder / f'{HOST}.conf')})
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)

    def up(self):
        """Return True if all services are up. An API that is being loaded refuses requests."""
        with contextlib.suppress(KeyError):
            return self.site.is_up(HOST, self.api)
        return False

    @property
    def held(self):
        return self.folder / HOST / 'hold-slow'

    def release(self):
        self.held.unlink(missing_ok=True)

    def volume(self, backend):
        """Create a multiattach volume on a backend."""
        made = self.api.ask('POST', '/types', {'volume_type': {'name': backend, 'extra_specs': {
            'multiattach': '<is> True', 'volume_backend_name': backend}}})
        self.assertEqual(200, made[0], made)
        return self.a_volume(self.api, volume_type=backend)

    def join(self, volume_id, host):
        return self.api.ask('POST', '/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': base.instance(host),
            'connector': base.connector(host)}})

    def states(self, volume_id):
        """Return the numbers of attachments of a volume by status, read in pages."""
        found, page = collections.Counter(), '/attachments/detail?limit=500'
        while page:
            status, content = self.api.ask('GET', page)
            self.assertEqual(200, status, content)
            found.update(one['status'] for one in content['attachments']
                         if one['volume_id'] == volume_id)
            marker = content['attachments'] and content['attachments'][-1]['id']
            page = marker and f'/attachments/detail?limit=500&marker={marker}'
        return found

    def healthy(self):
        with contextlib.suppress(urllib.error.URLError), urllib.request.urlopen(
                f'http://127.0.0.1:{self.health_port}/healthcheck',
                timeout=SECONDS) as answer:
            return answer.read() == b'OK'
        return False

    def test_2500_hosts_join_one_volume_at_once(self):
        volume_id = self.volume('disks')
        with concurrent.futures.ThreadPoolExecutor(JOINS) as many:
            answers = [many.submit(self.join, volume_id, f'host-{number}')
                       for number in range(JOINS)]
            self.assertTrue(base.wait_for(self.healthy, site.SECONDS))
            statuses = collections.Counter(one.result()[0] for one in answers)
        self.assertEqual({200: JOINS}, statuses)
        self.assertEqual(JOINS, self.states(volume_id).total())

    def test_others_go_on_while_a_backend_answers_nobody(self):
        slow, fast = self.volume('slow'), self.volume('disks')
        self.held.touch()
        with concurrent.futures.ThreadPoolExecutor(200) as many:
            waiting = [many.submit(self.join, slow, f'host-{number}') for number in range(200)]
            self.assertTrue(base.wait_for(
                lambda: self.states(slow)['attaching'] >= 16, site.SECONDS))
            for number in range(20):
                self.assertEqual(200, self.join(fast, f'host-{number}')[0])
            self.assertFalse(any(one.done() for one in waiting))
            self.release()
            self.assertEqual([200] * 200, [one.result()[0] for one in waiting])

    def test_overload_ends_with_every_attachment_in_a_final_state(self):
        """More clients than threads repeat their cycles. All attachments end in a final state."""
        volume_id = self.volume('disks')
        time, over = clock.Clock(), threading.Event()
        end = time.monotonic() + OVERLOAD_SECONDS
        statuses = collections.Counter()

        def client(number):
            while not over.is_set() and time.monotonic() < end:
                status, made = self.join(volume_id, f'host-{number}')
                statuses[status] += 1
                if status != 200:
                    continue
                path = f'/attachments/{made["attachment"]["id"]}'
                for method, where, body in (('POST', f'{path}/action', {'os-complete': {}}),
                                            ('DELETE', path, None)):
                    while (status := self.api.ask(method, where, body)[0]) == 503:
                        statuses[status] += 1
                    statuses[status] += 1

        with concurrent.futures.ThreadPoolExecutor(400) as many:
            for one in [many.submit(client, number) for number in range(400)]:
                one.result()
        self.assertLessEqual(set(statuses), {200, 204, 503}, statuses)
        self.assertEqual({}, dict(self.states(volume_id)))
        self.assertEqual('available', self.settled(self.api, volume_id))
