"""Clients of a simulated deployment: each sends one random request after another, as consumers do.

What a client was answered, it remembers; without an answer it asks again under the same name, or
gives up. One request is one operation. Which ones there are, and what is remembered of them, says
each noun (`lab.simulation.nouns`).
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
# How likely a client that was answered asks once more under the same name, as if the answer was
# lost.
_ASKS_AGAIN = 0.15
UNKNOWN = 0
"""In place of a status: the connection ended without an answer."""
_NOTHING_CHANGED = 'Nothing was changed'
_CANNOT_TELL = 'The outcome of the request is unknown'


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What a request came to; ``status`` 0: nobody knows."""

    status: int
    body: Any

    @property
    def conclusive(self) -> bool:
        """Whether it says what has happened."""
        return 0 < self.status < 500 and self.status != 409 or self.status == 500

    @property
    def final(self) -> bool:
        """Whether it says that it failed and has changed nothing."""
        return self.status == 500 or self.status == 503 and _NOTHING_CHANGED in str(self.body)

    @property
    def lost(self) -> bool:
        """Whether the process that answered cannot finish it either: it has ended, or has no
        rows."""
        return (self.status == UNKNOWN or self.status == 503 and not self.final
                or self.status == 504 and _CANNOT_TELL in str(self.body))

    @property
    def made(self) -> str:
        """The id of what was made."""
        (thing,) = self.body.values()
        return str(thing['id'])


def connector(host: str) -> dict[str, Any]:
    """What a host says of itself."""
    return {'initiator': f'iqn.2026-01.org.example:{host}', 'host': f'compute-{host}',
            'ip': '127.0.0.1'}


def server(number: int) -> str:
    """A server's id."""
    return f'00000000-0000-4000-8000-{number:012x}'


class Judge(abc.ABC):
    """An observer of all answers."""

    @abc.abstractmethod
    def note(self, method: str, path: str, answer: Answer) -> None:
        """Called with every answer."""

    @abc.abstractmethod
    def violated(self, said: str) -> None:
        """Called with what must not be."""

    @abc.abstractmethod
    def looking(self) -> AbstractContextManager[storage_db.Database]:
        """The rows as they are, for one who looks at them: nothing goes wrong meanwhile."""


class Played:
    """A noun in one simulation: what clients do with it, and what they were answered.

    :cvar OPERATIONS: what a client does at random: names, methods without arguments, and how often
    """

    OPERATIONS: ClassVar[Mapping[str, tuple[Callable[[Any], None], float]]] = {}

    def __init__(self, consumers: 'Consumers') -> None:
        self._all = consumers
        self._chance = consumers.baton.chance

    def first(self) -> str | None:
        """Do what must be done before anything else; its name, None: there is no such thing."""
        return None

    def volume_of(self, name: str, body: Any) -> str | None:
        """The volume that a request concerns.

        :param name: the id in its path
        """
        return None

    def asked(self, method: str, path: str, body: Any, headers: Mapping[str, str],
              ) -> Answer | None:
        """Send a request of a scenario, and remember its answer; None: it is of another noun."""
        return None

    def rewritten(self, volume_id: str) -> None:
        """Somebody asks for other bytes of a volume, which it may have from now on."""

    def broken(self, facts: observed.Facts) -> Iterator[str]:
        """What is not as clients were answered, at any moment."""
        yield from ()

    def unknown(self, facts: observed.Facts) -> Iterator[str]:
        """The same where no work is under way: also what there is, and no client has asked for.
        What there is counts as answered from now on.
        """
        yield from ()


_Played = TypeVar('_Played', bound=Played)


class Consumers:
    """What all clients know together, and how they ask."""

    def __init__(self, baton: batons.Baton, deployed: deployment.Deployment, judge: Judge,
                 nouns: Iterable[type[Played]]) -> None:
        self.judge = judge
        self.baton = baton
        self.deployed = deployed
        self.at_work: Counter[str] = Counter()
        """How many requests that concern a volume are being worked on at this moment."""
        self.begun: Counter[str] = Counter()
        """How many there have been."""
        self._names = 0
        self.nouns = [noun(self) for noun in nouns]

    def of(self, noun: type[_Played]) -> _Played:
        """One noun."""
        return next(one for one in self.nouns if isinstance(one, noun))

    def rewrite(self, volume_id: str) -> None:
        """Somebody asks for other bytes of a volume."""
        for noun in self.nouns:
            noun.rewritten(volume_id)

    def operate(self) -> str:
        """Send one request at random; returns what it was."""
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
        """One request to one of the APIs; waits as long as a client does."""
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
        """The volume that a request concerns; else the id in its path."""
        name = path.split('/')[2] if path.count('/') > 1 else ''
        found = (noun.volume_of(name, body or {}) for noun in self.nouns)
        return next(filter(None, found), name)

    def _working_on(self, volume_id: str) -> Callable[[], None]:
        """Count a request until what is returned is called, once or more often."""
        self.at_work[volume_id] += 1
        self.begun[volume_id] += 1
        working = [volume_id]

        def end() -> None:
            if working:
                self.at_work[working.pop()] -= 1
                self.at_work += Counter()
        return end

    def make(self, path: str, body: Any, once: bool) -> tuple[Answer, bool]:
        """A request that makes something: sent again under its name until it is answered.

        :param once: give up at once where that is not so
        :returns: the answer, and whether it is unknown if it is there
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
                self.judge.violated(f'P2 made_once: POST {path} is answered {answer.made}, and '
                                    f'when it comes again {again.made}')


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
