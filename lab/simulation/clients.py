"""Clients of a simulated deployment, each of which sends one random request after another.

A client remembers each answer. If no answer comes, it repeats the request with the same
idempotency key, or gives up. One request is one operation. The nouns (`lab.simulation.nouns`)
define the operations, and what the clients remember of their answers.
"""
import abc
import dataclasses
import io
import json
from collections import Counter
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any
from typing import ClassVar
from typing import TypeVar

from blockattach.storage.db import storage_db
from blockattach.storage.domain.invariants import observed
from lab.simulation import baton as batons
from lab.simulation import deployment

HOSTS = ('a', 'b', 'c', 'd')
PROJECT = '5cd3bdcbf5904a9c8a9a8a1b33d1a0ee'
MULTIATTACH, SINGLE_WRITER = 'shared', 'single-writer'
USER = 'c7f8ab7c3d1c4c1d9a3ad8a0e1ad1a01'
_TIMEOUT_SECONDS = 60.0
_TRIES = 4
# Probability that a client repeats an answered request with the same idempotency key, as if the
# answer was lost.
_ASKS_AGAIN = 0.15
UNKNOWN = 0
"""Status of a request whose connection ended without an answer."""
_NOTHING_CHANGED = 'Nothing was changed'
_CANNOT_TELL = 'The outcome of the request is unknown'


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """Answer to a request. A ``status`` of `UNKNOWN` means that no answer came."""

    status: int
    body: Any

    @property
    def conclusive(self) -> bool:
        """True if the answer says what has happened."""
        return 0 < self.status < 500 and self.status != 409 or self.status == 500

    @property
    def final(self) -> bool:
        """True if the answer says that the request failed and changed nothing."""
        return self.status == 500 or self.status == 503 and _NOTHING_CHANGED in str(self.body)

    @property
    def lost(self) -> bool:
        """True if the answering process cannot finish the request either.

        The process has ended, or has no connection to the database.
        """
        return (self.status == UNKNOWN or self.status == 503 and not self.final
                or self.status == 504 and _CANNOT_TELL in str(self.body))

    @property
    def made(self) -> str:
        """ID of the created resource."""
        (thing,) = self.body.values()
        return str(thing['id'])


def connector(host: str) -> dict[str, Any]:
    """Return the connector properties of a host."""
    return {'initiator': f'iqn.2026-01.org.example:{host}', 'host': f'compute-{host}',
            'ip': '127.0.0.1'}


def server(number: int) -> str:
    """Return the ID of a server."""
    return f'00000000-0000-4000-8000-{number:012x}'


class Judge(abc.ABC):
    """Observer of all answers and violations."""

    @abc.abstractmethod
    def note(self, method: str, path: str, answer: Answer) -> None:
        """Take note of an answer. Called for every request."""

    @abc.abstractmethod
    def violated(self, said: str) -> None:
        """Report a violation, described by ``said``."""

    @abc.abstractmethod
    def looking(self) -> AbstractContextManager[storage_db.Database]:
        """Open the database for an observer, without faults."""


class Played:
    """Noun of one simulation: its random operations and the remembered answers of clients.

    :cvar OPERATIONS: by the name of a random operation, its method without arguments and its
        weight
    """

    OPERATIONS: ClassVar[Mapping[str, tuple[Callable[[Any], None], float]]] = {}

    def __init__(self, consumers: 'Consumers') -> None:
        self._all = consumers
        self._chance = consumers.baton.chance

    def first(self) -> str | None:
        """Perform an operation that must precede all others, if there is any.

        :returns: name of the performed operation; None if there was none
        """
        return None

    def volume_of(self, name: str, body: Any) -> str | None:
        """Return the volume that a request concerns, or None.

        :param name: the ID in the path of the request
        """
        return None

    def asked(self, method: str, path: str, body: Any, headers: Mapping[str, str],
              ) -> Answer | None:
        """Send a request of a scenario, and remember its answer.

        :returns: None if the request belongs to another noun
        """
        return None

    def rewritten(self, volume_id: str) -> None:
        """Take note that a client has requested new contents for a volume."""

    def broken(self, facts: observed.Facts) -> Iterator[str]:
        """Yield the differences between rows and answers that are violations at any moment."""
        yield from ()

    def unknown(self, facts: observed.Facts) -> Iterator[str]:
        """Yield the violations that only show while no work is under way.

        These include resources that no client has asked for. The existing resources count as
        answered afterwards.
        """
        yield from ()


_Played = TypeVar('_Played', bound=Played)


class Consumers:
    """All clients of a simulation, with their common state."""

    def __init__(self, baton: batons.Baton, deployed: deployment.Deployment, judge: Judge,
                 nouns: Iterable[type[Played]]) -> None:
        self.judge = judge
        self.baton = baton
        self.deployed = deployed
        self.at_work: Counter[str] = Counter()
        """Number of requests in progress by volume."""
        self.begun: Counter[str] = Counter()
        """Number of requests ever sent by volume."""
        self._names = 0
        self.nouns = [noun(self) for noun in nouns]

    def of(self, noun: type[_Played]) -> _Played:
        """Return the instance of a noun."""
        return next(one for one in self.nouns if isinstance(one, noun))

    def rewrite(self, volume_id: str) -> None:
        """Notify all nouns that a client has requested new contents for a volume."""
        for noun in self.nouns:
            noun.rewritten(volume_id)

    def operate(self) -> str:
        """Send one random request, and return the name of its operation."""
        for noun in self.nouns:
            if (name := noun.first()) is not None:
                return name
        operations = [(name, act, noun, weight) for noun in self.nouns
                      for name, (act, weight) in noun.OPERATIONS.items()]
        (name, act, noun, _), = self.baton.chance.choices(
            operations, [weight for *_, weight in operations])
        act(noun)
        return name

    def ask(self, method: str, path: str, body: Any = None,
            headers: Mapping[str, str] | None = None) -> Answer:
        """Send a request to one of the APIs, and wait for its answer as long as a client does."""
        serving = [part for part in self.deployed.apis if part.serving is not None]
        if not serving:
            self.baton.wait(0.2)
            return Answer(UNKNOWN, None)
        part = self.baton.chance.choice(serving)
        asking = self.baton.current
        found: list[Answer] = []
        process, application = part.process, part.serving
        end = self._working_on(self.volume_of(path, body))

        def work() -> None:
            try:
                found.append(_call(application, method, path, body, headers or {}))
                process.check()
                self.baton.wake(asking)
            finally:
                end()

        def die() -> None:
            end()
            self.baton.wake(asking)
        process.on_death.append(die)
        self.baton.spawn(process, f'{method} {path}', work)
        self.baton.wait(_TIMEOUT_SECONDS)
        if found and die in process.on_death:
            process.on_death.remove(die)
        answer = found[0] if found and not process.dead else Answer(UNKNOWN, None)
        self.judge.note(method, path, answer)
        return answer

    def volume_of(self, path: str, body: Any = None) -> str:
        """Return the volume that a request concerns, or else the ID in its path."""
        name = path.split('/')[2] if path.count('/') > 1 else ''
        found = (noun.volume_of(name, body or {}) for noun in self.nouns)
        return next(filter(None, found), name)

    def _working_on(self, volume_id: str) -> Callable[[], None]:
        """Count a request as in progress until the returned function is first called."""
        self.at_work[volume_id] += 1
        self.begun[volume_id] += 1
        working = [volume_id]

        def end() -> None:
            if working:
                self.at_work[working.pop()] -= 1
                self.at_work += Counter()
        return end

    def make(self, path: str, body: Any, once: bool) -> tuple[Answer, bool]:
        """Send a create request, and repeat it with the same idempotency key until it is answered.

        :param once: do not repeat the request
        :returns: the answer, and True if the resource may exist although no answer says so
        """
        self._names += 1
        headers = {'HTTP_IDEMPOTENCY_KEY': f'request-{self._names}'}
        answer = self.ask('POST', path, body, headers)
        lost = answer.lost
        for _ in range(0 if once else _TRIES):
            if answer.conclusive:
                self._ask_again(path, body, headers, answer)
                return answer, False
            self.baton.wait(1 + 5 * self.baton.chance.random())
            answer = self.ask('POST', path, body, headers)
            lost |= answer.lost
        return answer, lost and not answer.conclusive

    def _ask_again(self, path: str, body: Any, headers: Mapping[str, str],
                   answer: Answer) -> None:
        if answer.status < 300 and self.baton.chance.random() < _ASKS_AGAIN:
            again = self.ask('POST', path, body, headers)
            if 200 <= again.status < 300 and again.made != answer.made:
                self.judge.violated(f'P2 made_once: POST {path} returned {answer.made}, and '
                                    f'{again.made} when it was repeated')


def _call(application: Any, method: str, path: str, body: Any,
          headers: Mapping[str, str]) -> Answer:
    text = b'' if body is None else json.dumps(body).encode()
    path, _, query = path.partition('?')
    environ: dict[str, Any] = {
        'REQUEST_METHOD': method, 'SCRIPT_NAME': '', 'PATH_INFO': f'/v3/{PROJECT}{path}',
        'QUERY_STRING': query, 'SERVER_NAME': 'localhost', 'SERVER_PORT': '8776',
        'SERVER_PROTOCOL': 'HTTP/1.1', 'REMOTE_ADDR': '127.0.0.1',
        'CONTENT_TYPE': 'application/json', 'CONTENT_LENGTH': str(len(text)),
        'HTTP_HOST': 'localhost:8776', 'HTTP_X_AUTH_TOKEN': f'{USER}:{PROJECT}',
        'HTTP_X_SERVICE_TOKEN': 'nova:service', 'wsgi.input': io.BytesIO(text),
        'HTTP_OPENSTACK_API_VERSION': 'volume 3.71', 'wsgi.url_scheme': 'http',
        'wsgi.version': (1, 0), 'wsgi.errors': io.StringIO(), 'wsgi.multithread': True,
        'wsgi.multiprocess': False, 'wsgi.run_once': False, **headers}
    status: list[str] = []
    answered = b''.join(application(environ, lambda line, *_: status.append(line)))
    return Answer(int(status[0][:3]), json.loads(answered) if answered else None)
