"""What functional tests share: a service of their own in a process of its own, asked over HTTP."""
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
    """Plain requests: status and body, whatever they are. One connection a request."""

    def __init__(self, endpoint, seconds=SECONDS, versions='volume 3.71', headers=None):
        self._headers = {'OpenStack-API-Version': versions, 'Content-Type': 'application/json',
                         **(headers or {})}
        self._parts = urllib.parse.urlsplit(endpoint)
        self._seconds = seconds

    def ask(self, method, path, body=None):
        """The status and the body, read; OSError if there is no answer."""
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
        """All of a noun, in detail."""
        return self.ask('GET', path or f'/{noun}/detail')[1][noun]


def connector(host):
    """The connector of a host."""
    return {'initiator': f'iqn.2026-01.org.example:{host}', 'host': host, 'ip': '127.0.0.1'}


def instance(host):
    """The server that runs on a host, for calls without a connector."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, host))


def wait_for(condition, seconds=SECONDS, tick=_TICK):
    """What the condition says in the end: as soon as it is true, at the latest after so long.

    :param tick: how many seconds lie between two looks
    """
    time = clock.Clock()
    never = threading.Event()
    deadline = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < deadline:
        time.wait(never, tick)
    return found


def pause(process):
    """Let a process of ours stand still; returns when it does.

    When the signal has been sent, its threads may still go on for a while on a busy machine.
    """
    process.send_signal(signal.SIGSTOP)
    until_still(process.pid)


def until_still(pid):
    """Return when a process that was stopped stands still."""
    assert wait_for(lambda: is_still(pid)), f'{pid} does not stand still'


def is_still(pid):
    """Whether all threads of a process stand still, as SIGSTOP lets them one by one."""
    try:
        states = {(one / 'stat').read_text('ascii', 'replace').rpartition(')')[2].split()[0]
                  for one in pathlib.Path(f'/proc/{pid}/task').iterdir()}
    except OSError:
        # One has ended since it was listed, so they run.
        return False
    return states == {'T'}


def settled(read_status):
    """The status of a volume once it is no longer being made; False if that never ends."""
    return wait_for(lambda: (status := read_status()) != 'creating' and status)


class ForkedStack(stack.Stack):
    """One whose process need not import anything."""

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
    """A test that starts the service."""

    def a_stack(self, backend='fake', **options):
        """A service that serves, until the end of the test."""
        made = ForkedStack(backend, **options)
        self.addCleanup(made.remove)
        self.addCleanup(made.stop)
        made.start()
        return made

    def outside_program(self, present, name):
        """Skip without an outside program; where CI is true, its absence is a failure."""
        if not present:
            if os.environ.get('CI') == 'true':
                self.fail(f'{name} is not installed')
            print(f'{self.id()}: {name} is not installed')
            self.skipTest(f'{name} is not installed')

    def random(self):
        """Chance that can be had again: from the seed that is printed."""
        seed = int(os.environ.get('BLOCKATTACH_TEST_SEED') or random.randrange(2 ** 32))
        print(f'{self.id()}: BLOCKATTACH_TEST_SEED={seed}')
        return random.Random(seed)

    def a_volume(self, api, **wanted):
        """The id of a volume that is available."""
        status, made = api.ask('POST', '/volumes', {'volume': {'size': 1, **wanted}})
        self.assertEqual(202, status, made)
        volume_id = made['volume']['id']
        self.assertEqual('available', self.settled(api, volume_id))
        return volume_id

    def settled(self, api, volume_id):
        """The status of a volume once it is no longer being made."""
        return settled(lambda: api.ask('GET', f'/volumes/{volume_id}')[1]['volume']['status'])
