"""Both ends of the HTTP bus as a test plays them: what sends bytes to a server, and what answers a
client as no server would."""
import concurrent.futures
import contextlib
import queue
import socket
import uuid
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

from blockattach.platform.rpc.http import sites
from blockattach.platform.rpc.http import trust
from blockattach.platform.rpc.http import wire
from blockattach.tests.fixtures import clock as manual
from blockattach.tests.unit.rpc import bus_contract
from blockattach.tests.unit.rpc import probe

SECRET = b'hunter2-' * 4


class CountingStore(sites.MemoryStore):
    """A directory that knows how often it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def find(self, topic: str, server: str | None = None) -> Sequence[sites.Endpoint]:
        self.asked += 1
        return super().find(topic, server)


class SiteTestCase(bus_contract.BusTestCase):
    """A bus whose directory, keys and clock are the test's."""

    own = trust.Key('site', SECRET)
    accepted = None
    more: dict[str, Any] = {}

    def setUp(self) -> None:
        self.url = f'http:///{uuid.uuid4().hex}'
        self.clock = manual.ManualClock()
        self.store = CountingStore()
        self.provide(self.url, self.own, self.accepted, **self.more)
        super().setUp()
        self.topic = f'{self.settings.topic_prefix}-probe'

    def provide(self, url: str, own: trust.Key, accepted: Any = None, **more: Any) -> None:
        sites.REGISTRY.provide(url, sites.Site(self.store, trust.Keyring(own, accepted),
                                               self.clock, **more))
        self.addCleanup(sites.REGISTRY.leave, url)


class RawCaller:
    """Speaks to the server that a directory names, byte by byte."""

    def __init__(self, store: sites.MemoryStore, topic: str, clock: manual.ManualClock,
                 key: trust.Key) -> None:
        self.topic, self.clock, self.key = topic, clock, key
        self.endpoint, = store.find(topic)

    def request(self, method: str = 'hurry', kind: wire.Kind = wire.Kind.CALL,
                monitor: float | None = None, **changed: Any) -> wire.Request:
        body = wire.encode({'context': {'user_id': 'u', 'project_id': 'p'},
                            'message': {'method': method, 'version': '1.0', 'args': {}}})
        values = {'topic': self.topic, 'authority': self.endpoint.authority,
                  'instance': self.endpoint.instance, 'body': body, **changed}
        return wire.Request(kind=kind, monitor=monitor, **values)

    def proof(self, request: wire.Request, key: trust.Key | None = None) -> trust.Proof:
        return trust.prove(key or self.key, self.clock, request.claims, request.body)

    def written(self, request: wire.Request | None = None, key: trust.Key | None = None) -> bytes:
        request = request or self.request()
        return request.written(self.proof(request, key))

    def connect(self) -> socket.socket:
        return socket.create_connection((self.endpoint.host, self.endpoint.port), probe.LIMIT)

    def speak(self, data: bytes) -> bytes:
        """All that is answered to this, and to nothing more."""
        with self.connect() as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            return b''.join(iter(lambda: connection.recv(65536), b''))


class Peer:
    """Listens where a client believes a server, and does as the test says, connection by
    connection."""

    def __init__(self, *scripts: Callable[['Spoken'], None]) -> None:
        self.requests: queue.SimpleQueue[wire.Request] = queue.SimpleQueue()
        self.accepted = 0
        self._current: socket.socket | None = None
        self._listening = socket.create_server(('127.0.0.1', 0))
        self.endpoint = sites.Endpoint('127.0.0.1', self._listening.getsockname()[1], 'peer')
        self._pool = concurrent.futures.ThreadPoolExecutor(1)
        self._played = self._pool.submit(self._play, scripts)

    def _play(self, scripts: Any) -> None:
        with contextlib.ExitStack() as failing:
            # Else a client would wait for it.
            failing.callback(self._listening.close)
            for script in scripts:
                connection, _ = self._listening.accept()
                self.accepted += 1
                self._current = connection
                # A client may end a connection as well.
                with connection, contextlib.suppress(ConnectionError):
                    script(Spoken(connection, self.requests))
            failing.pop_all()
        # Whatever comes now was not to come.
        with contextlib.suppress(OSError):
            self._listening.accept()[0].close()
            self.accepted += 1

    def end(self) -> int:
        """How many connections there were, all of which the client has ended."""
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._played.result()
        self._pool.shutdown()
        self._listening.close()
        return self.accepted

    def cut(self) -> None:
        """Whatever a test that failed has left: nothing waits for it."""
        for each in (self._listening, self._current):
            with contextlib.suppress(AttributeError, OSError):
                each.shutdown(socket.SHUT_RDWR)


class Spoken:
    """One connection of a `Peer`."""

    def __init__(self, connection: socket.socket, requests: Any) -> None:
        self.socket = connection
        self._requests = requests

    def hear(self) -> trust.Proof:
        """Read one request."""
        reader = wire.RequestReader()
        while not reader.whole:
            data = self.socket.recv(65536)
            if not data:
                raise AssertionError('the client has gone')
            reader.feed(data)
        request, proof = reader.request()
        self._requests.put(request)
        return proof

    def say(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self, result: Any = None, status: int = 200) -> None:
        """As a server does."""
        proof, body = self.hear(), wire.encode({'result': result, 'failure': None})
        self.say(wire.answer(status, body, trust.prove_answer(
            trust.Key('site', SECRET), proof.nonce, status, body)))
