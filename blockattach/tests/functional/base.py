"""Base class of functional tests, which start a service in a separate process."""
import http.client
import json
import os
import pathlib
import random
import signal
import threading
import unittest
import urllib.parse
import uuid

from blockattach.platform import clock
from blockattach.testing import stack
from blockattach.tests.fixtures import forks

SECONDS = 60
_TICK = 0.02


class Api:
    """HTTP client that returns status and body of any response, and connects for each request."""

    def __init__(self, endpoint, seconds=SECONDS, versions='volume 3.71', headers=None):
        self._headers = {'OpenStack-API-Version': versions, 'Content-Type': 'application/json',
                         **(headers or {})}
        self._parts = urllib.parse.urlsplit(endpoint)
        self._seconds = seconds

    def ask(self, method, path, body=None):
        """Send a request and return the status and the parsed body.

        :raises OSError: if there is no response
        """
        connection = http.client.HTTPConnection(self._parts.hostname, self._parts.port,
                                                timeout=self._seconds)
        try:
            connection.request(
                method, self._parts.path + path, None if body is None else json.dumps(body),
                self._headers)
            answer = connection.getresponse()
            text = answer.read()
        except http.client.HTTPException as exc:
            raise ConnectionError(str(exc)) from exc
        finally:
            connection.close()
        return answer.status, json.loads(text) if text else None

    def list(self, noun, path=None):
        """Return the detailed list of a resource."""
        return self.ask('GET', path or f'/{noun}/detail')[1][noun]


def connector(host):
    return {'initiator': f'iqn.2026-01.org.example:{host}', 'host': host, 'ip': '127.0.0.1'}


def instance(host):
    """Return the id of the server on a host, for calls without a connector."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, host))


def wait_for(condition, seconds=SECONDS, tick=_TICK):
    """Wait until a condition is true and return its value.

    After ``seconds`` the last false value is returned.

    :param tick: seconds between two checks
    """
    time = clock.Clock()
    never = threading.Event()
    deadline = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < deadline:
        time.wait(never, tick)
    return found


def pause(process):
    """Send SIGSTOP to a process and wait until all of its threads have stopped.

    On a busy machine, threads continue for a while after the signal has been sent.
    """
    process.send_signal(signal.SIGSTOP)
    until_still(process.pid)


def until_still(pid):
    assert wait_for(lambda: is_still(pid)), f'process {pid} has not stopped'


def is_still(pid):
    """Return True if all threads of a process have stopped, which they do one by one."""
    try:
        states = {(one / 'stat').read_text('ascii', 'replace').rpartition(')')[2].split()[0]
                  for one in pathlib.Path(f'/proc/{pid}/task').iterdir()}
    except OSError:
        # A thread has ended since the folder was listed, so the process still runs.
        return False
    return states == {'T'}


def settled(read_status):
    """Wait until a volume is no longer creating, and return its status or False."""
    return wait_for(lambda: (status := read_status()) != 'creating' and status)


class ForkedStack(stack.Stack):
    """Stack whose process is forked, so that it need not import anything."""

    def begin(self, arguments, log):
        pipe = pathlib.Path(f'{self.log_path}.stdout')
        if not pipe.exists():
            os.mkfifo(pipe)
        process = forks.Fork(['blockattach-all', *arguments], pipe,
                             errors=pathlib.Path(self.log_path), environment=self.environment,
                             prepare=os.setsid)
        process.stdout = pipe.open(encoding='utf-8')
        return process


class StackTestCase(unittest.TestCase):

    def a_stack(self, backend='fake', **options):
        """Start a service that is stopped and removed after the test."""
        made = ForkedStack(backend, **options)
        self.addCleanup(made.remove)
        self.addCleanup(made.stop)
        made.start()
        return made

    def outside_program(self, present, name):
        """Skip the test if a program is not installed, or fail it if CI is true."""
        if not present:
            if os.environ.get('CI') == 'true':
                self.fail(f'{name} is not installed')
            print(f'{self.id()}: {name} is not installed')
            self.skipTest(f'{name} is not installed')

    def random(self):
        """Return a random generator whose seed is printed, or taken from BLOCKATTACH_TEST_SEED."""
        seed = int(os.environ.get('BLOCKATTACH_TEST_SEED') or random.randrange(2 ** 32))
        print(f'{self.id()}: BLOCKATTACH_TEST_SEED={seed}')
        return random.Random(seed)

    def a_volume(self, api, **wanted):
        """Create a volume, wait until it is available, and return its id."""
        status, made = api.ask('POST', '/volumes', {'volume': {'size': 1, **wanted}})
        self.assertEqual(202, status, made)
        volume_id = made['volume']['id']
        self.assertEqual('available', self.settled(api, volume_id))
        return volume_id

    def settled(self, api, volume_id):
        """Wait until a volume is no longer creating, and return its status."""
        return settled(lambda: api.ask('GET', f'/volumes/{volume_id}')[1]['volume']['status'])
