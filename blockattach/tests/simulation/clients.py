"""Clients of a simulated deployment: each sends one random request after another, as consumers do.

What a client was answered, it remembers; without an answer it asks again under the same name, or
gives up. One request is one operation.
"""
import abc
import contextlib
import dataclasses
import io
import json
import random
from collections import Counter
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from blockattach.tests.simulation import baton as batons
from blockattach.tests.simulation import deployment
from blockattach.tests.simulation import promises

HOSTS = ('a', 'b', 'c', 'd')
SERVERS = 6
VOLUMES = 5
PROJECT = '5cd3bdcbf5904a9c8a9a8a1b33d1a0ee'
MULTIATTACH, SINGLE_WRITER = 'shared', 'single-writer'
USER = 'c7f8ab7c3d1c4c1d9a3ad8a0e1ad1a01'
_PATIENCE_SECONDS = 60.0
_TRIES = 4
# How likely a client asks no more for what it got no answer to.
_GIVES_UP = 0.35
# How likely a client that was answered asks once more under the same name, as if the answer was
# lost.
_ASKS_AGAIN = 0.15
# How likely a client asks about what another one has just asked about.
_SAME = 0.35
_UNKNOWN = 0
"""In place of a status: the connection ended without an answer."""
_NOTHING_CHANGED = 'Nothing was changed'
_CANNOT_TELL = 'whether the change is stored'


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
        return (self.status == _UNKNOWN or self.status == 503 and not self.final
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


class Consumers:
    """What all clients know together, and how they ask.

    ``known`` are attachments that somebody has seen, with their volumes.
    """

    def __init__(self, baton: batons.Baton, deployed: deployment.Deployment, judge: 'Judge',
                 ) -> None:
        self.judge = judge
        self.promised = promises.Promises()
        self.known: dict[str, str] = {}
        self.volumes: dict[str, str] = {}
        """Their kinds by their ids."""
        self.last: str | None = None
        """The attachment that somebody has asked about last: others ask about it, too."""
        self.changes: Counter[str] = Counter()
        """How often what a volume itself is was going to be changed, and has been."""
        self.at_work: Counter[str] = Counter()
        """How many requests that concern a volume are being worked on at this moment."""
        self._begun: Counter[str] = Counter()
        self._baton = baton
        self._deployed = deployed
        self._names = 0

    def ask(self, method: str, path: str, body: Any = None,
            headers: Mapping[str, str] | None = None) -> Answer:
        """One request to one of the APIs; waits as long as a client does."""
        serving = [part for part in self._deployed.apis if part.serving is not None]
        if not serving:
            self._baton.wait(0.2)
            return Answer(_UNKNOWN, None)
        part = self._baton.chance.choice(serving)
        asking = self._baton.current
        found: list[Answer] = []
        process, application = part.process, part.serving
        end = self._working_on(process, path, body)

        def work() -> None:
            try:
                found.append(_call(application, method, path, body, headers or {}))
                process.check()
                self._baton.wake(asking)
            finally:
                end()

        def die() -> None:
            end()
            self._baton.wake(asking)
        process.on_death.append(die)
        self._baton.spawn(process, f'{method} {path}', work)
        self._baton.wait(_PATIENCE_SECONDS)
        if found and die in process.on_death:
            process.on_death.remove(die)
        answer = found[0] if found and not process.dead else Answer(_UNKNOWN, None)
        self.judge.note(method, path, answer)
        return answer

    def _working_on(self, process: batons.Process, path: str,
                    body: Any) -> Callable[[], None]:
        """Count a request until what is returned is called, once or more often."""
        name = path.split('/')[2] if path.count('/') > 1 else ''
        volume_id = self.known.get(name, name) or (
            (body or {}).get('attachment', {}).get('volume_uuid', ''))
        self.at_work[volume_id] += 1
        self._begun[volume_id] += 1
        working = [volume_id]

        def end() -> None:
            if working:
                self.at_work[working.pop()] -= 1
                self.at_work += Counter()
        return end

    def changing(self, method: str, path: str, body: Any, attachment_id: str,
                 into: str | None) -> Answer:
        """A request that changes an attachment. What is answered as done is done, and what has
        failed for good has changed nothing: that is looked at where nobody else is at work on the
        volume.

        :param into: the state that it leads to; None: it is gone
        """
        volume_id = self.known[attachment_id]
        self.promised.use(attachment_id)
        before = None if self.at_work[volume_id] else self.judge.held(volume_id)
        begun = self._begun[volume_id]
        answer = self.ask(method, path, body)
        if (before is None or self._begun[volume_id] != begun + 1 or self.at_work[volume_id]
                or not (answer.final or 200 <= answer.status < 300)):
            return answer
        said, after = f'{method} {path} is answered {answer.status}', self.judge.held(volume_id)
        if answer.final:
            self.judge.failed(said, before, after)
        elif after is None or into != (
                after[attachment_id][0] if attachment_id in after else None):
            self.judge.not_done(said, after)
        return answer

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
            self._baton.wait(1 + 5 * self._baton.chance.random())
            answer = self.ask('POST', path, body, headers)
            lost |= answer.lost
        return answer, lost and not answer.conclusive

    def _ask_again(self, path: str, body: Any, headers: Mapping[str, str],
                   answer: Answer) -> None:
        if answer.status < 300 and self._baton.chance.random() < _ASKS_AGAIN:
            again = self.ask('POST', path, body, headers)
            if 200 <= again.status < 300 and again.made != answer.made:
                self.judge.made_twice(path, answer, again)


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
    told = b''.join(application(environ, lambda line, *_: status.append(line)))
    return Answer(int(status[0][:3]), json.loads(told) if told else None)


class Judge(abc.ABC):
    """An observer of all answers."""

    @abc.abstractmethod
    def note(self, method: str, path: str, answer: Answer) -> None:
        """Called with every answer."""

    @abc.abstractmethod
    def refused(self, volume_id: str, answer: Answer) -> None:
        """Nobody has changed a shared volume, and it takes nobody in."""

    @abc.abstractmethod
    def held(self, volume_id: str) -> promises.Held | None:
        """The attachments of a volume as they are; None: somebody is at work on one."""

    @abc.abstractmethod
    def failed(self, request: str, before: promises.Held, after: promises.Held | None) -> None:
        """A request says that it has changed nothing, and nobody else was there."""

    @abc.abstractmethod
    def not_done(self, request: str, after: promises.Held | None) -> None:
        """A request says that it is done, and nobody else was there."""

    @abc.abstractmethod
    def made_twice(self, path: str, first: Answer, again: Answer) -> None:
        """A request that came again is answered with something else than before."""

    @abc.abstractmethod
    def widened(self, attachment_id: str, answer: Answer) -> None:
        """One that was answered that it may read is answered that it may write."""


class Client:
    """One of them: its `operate` is one operation."""

    def __init__(self, consumers: Consumers, chance: random.Random) -> None:
        self._all = consumers
        self._chance = chance

    def operate(self) -> str:
        """Send one request; returns what it was."""
        if len(self._all.volumes) < VOLUMES and self._chance.random() < 0.3:
            self._create_volume()
            return 'create volume'
        if not self._all.volumes:
            self._create_volume()
            return 'create volume'
        (name, act), = self._chance.choices(list(_OPERATIONS), [
            *_OPERATIONS.values()])
        act(self)
        return name

    def _volume(self) -> str:
        return self._chance.choice(list(self._all.volumes))

    def _attachment(self) -> str | None:
        known = self._all.known
        if self._all.last not in known or self._chance.random() >= _SAME:
            self._all.last = self._chance.choice(list(known)) if known else None
        return self._all.last

    def _host(self) -> str:
        return self._chance.choice(HOSTS)

    def _server(self) -> str:
        return server(self._chance.randrange(SERVERS))

    def _mode(self) -> dict[str, str]:
        mode = self._chance.choice((None, 'rw', 'ro'))
        return {} if mode is None else {'mode': mode}

    def _create_volume(self) -> None:
        kind = self._chance.choice((None, MULTIATTACH, MULTIATTACH, SINGLE_WRITER))
        wanted: dict[str, Any] = {'size': self._chance.randrange(1, 4)}
        if kind is not None:
            wanted['volume_type'] = kind
        answer, lost = self._all.make('/volumes', {'volume': wanted},
                                      self._chance.random() < _GIVES_UP)
        if answer.status == 202:
            self._all.volumes[answer.body['volume']['id']] = kind or 'plain'
            self._all.promised.tell_volume(answer.body['volume']['id'])
        elif lost:
            self._all.promised.forsake_volume()

    def _delete_volume(self) -> None:
        volume_id = self._volume()
        if self._all.changes[volume_id] % 2:
            return
        with self._changing(volume_id):
            answer = self._all.ask('DELETE', f'/volumes/{volume_id}')
        if answer.status in (202, 404):
            self._all.volumes.pop(volume_id, None)

    def _reserve(self) -> None:
        self._attach({})

    def _attach_at_once(self) -> None:
        self._attach({'connector': connector(self._host())})

    def _attach(self, more: dict[str, Any]) -> None:
        volume_id, server_id, promised = self._volume(), self._server(), self._all.promised
        changes, endings = self._all.changes[volume_id], promised.endings(volume_id)
        read_only = not promised.writes(volume_id)
        wanted = {'volume_uuid': volume_id, 'instance_uuid': server_id, **self._mode(), **more}
        answer, lost = self._all.make('/attachments', {'attachment': wanted},
                                      self._chance.random() < _GIVES_UP)
        if answer.status == 200:
            self._told(answer, wanted, endings)
            if (read_only and not promised.writes(volume_id)
                    and answer.body['attachment']['attach_mode'] != promises.READ_ONLY):
                self._all.judge.widened(answer.body['attachment']['id'], answer)
        elif (answer.status == 400 and self._all.volumes.get(volume_id) == MULTIATTACH
                and changes == self._all.changes[volume_id] and not changes % 2):
            self._all.judge.refused(volume_id, answer)
        if lost:
            promised.forsake(volume_id, server_id)

    def _told(self, answer: Answer, wanted: dict[str, Any], endings: int) -> None:
        made, volume_id = answer.body['attachment'], wanted['volume_uuid']
        self._all.known[made['id']] = volume_id
        self._all.promised.tell(made['id'], volume_id, made['attach_mode'], endings)
        # Of a plain volume a second one has the mode of the first.
        if (wanted.get('mode') == promises.READ_ONLY != made['attach_mode']
                and self._all.volumes.get(volume_id) in (MULTIATTACH, SINGLE_WRITER)):
            self._all.judge.widened(made['id'], answer)

    def _update(self) -> None:
        attachment_id = self._attachment()
        if attachment_id is None:
            return
        answer = self._all.changing(
            'PUT', f'/attachments/{attachment_id}',
            {'attachment': {'connector': {**connector(self._host()), **self._mode()}}},
            attachment_id, 'connected')
        self._of(attachment_id, answer)
        if answer.status == 200 and self._all.promised.is_read_only(attachment_id) and (
                answer.body['attachment']['connection_info']['access_mode']
                != promises.READ_ONLY):
            self._all.judge.widened(attachment_id, answer)

    def _complete(self) -> None:
        attachment_id = self._attachment()
        if attachment_id is not None:
            self._of(attachment_id, self._all.changing(
                'POST', f'/attachments/{attachment_id}/action', {'os-complete': None},
                attachment_id, 'attached'))

    def _delete(self) -> None:
        attachment_id = self._attachment()
        if attachment_id is not None:
            self._all.promised.end(attachment_id)
            answer = self._all.changing('DELETE', f'/attachments/{attachment_id}', None,
                                        attachment_id, None)
            if answer.status == 200:
                self._all.known.pop(attachment_id, None)
                self._all.promised.gone(attachment_id)
            self._of(attachment_id, answer)

    def _show(self) -> None:
        attachment_id = self._attachment()
        if attachment_id is not None:
            self._of(attachment_id, self._all.ask('GET', f'/attachments/{attachment_id}'))

    def _list(self) -> None:
        noun = self._chance.choice(('attachments', 'volumes'))
        answer = self._all.ask('GET', f'/{noun}/detail')
        if answer.status == 200 and noun == 'attachments':
            self._all.known.update((one['id'], one['volume_id'])
                                   for one in answer.body['attachments'])

    def _of(self, attachment_id: str, answer: Answer) -> None:
        if answer.status == 404:
            self._all.known.pop(attachment_id, None)

    @contextlib.contextmanager
    def _changing(self, volume_id: str) -> Iterator[None]:
        self._all.changes[volume_id] += 1
        try:
            yield
        finally:
            self._all.changes[volume_id] += 1

    def _action(self, name: str, told: Any, volume_id: str | None = None) -> Answer:
        return self._all.ask('POST', f'/volumes/{volume_id or self._volume()}/action',
                             {name: told})

    def _held(self) -> None:
        self._action(self._chance.choice(('os-reserve', 'os-unreserve', 'os-begin_detaching',
                                          'os-roll_detaching')), {})

    def _connection(self) -> None:
        volume_id = self._volume()
        # The second one may end any attachment: of the others nothing is promised then.
        name = self._chance.choices(
            ('os-initialize_connection', 'os-terminate_connection'), (3, 1))[0]
        told = {'connector': connector(self._host())}
        if name == 'os-terminate_connection':
            self._end_any(name, told, volume_id)
        else:
            self._action(name, told, volume_id)

    def _end_any(self, name: str, told: Any, volume_id: str) -> None:
        self._all.promised.end_any(volume_id)
        if self._action(name, told, volume_id).status != _UNKNOWN:
            self._all.promised.ended_any(volume_id)

    def _os_attach(self) -> None:
        volume_id, server_id = self._volume(), self._server()
        answer = self._action('os-attach', {
            'instance_uuid': server_id, 'mountpoint': '/dev/vdb', **self._mode()}, volume_id)
        if not 400 <= answer.status < 500:
            # No client learns the id of what it has made.
            self._all.promised.forsake(volume_id, server_id)

    def _os_detach(self) -> None:
        name = self._chance.choice(('os-detach', 'os-detach', 'os-force_detach'))
        attachment_id = self._attachment()
        if attachment_id is None:
            return
        self._all.promised.end(attachment_id)
        self._all.changing('POST', f'/volumes/{self._all.known[attachment_id]}/action',
                           {name: {'attachment_id': attachment_id}}, attachment_id, None)

    def _reset(self) -> None:
        status = self._chance.choice(('available', 'error', 'in-use', 'maintenance'))
        volume_id = self._volume()
        if self._all.changes[volume_id] % 2:
            return
        with self._changing(volume_id):
            shown = self._all.ask('GET', f'/volumes/{volume_id}')
            if shown.status != 200:
                return
            self._end_any('os-reset_status', self._chance.choice((
                {'status': status}, {'attach_status': 'detached'},
                {'status': 'available', 'attach_status': 'detached'})), volume_id)

    def _readonly(self) -> None:
        volume_id, promised = self._volume(), self._all.promised
        read_only, number = self._chance.random() < 0.5, promised.flag(volume_id)
        answer = self._action('os-update_readonly_flag', {'readonly': read_only}, volume_id)
        if answer.status == 202 and read_only:
            promised.flagged(volume_id, number)
        if answer.status != _UNKNOWN:
            # One without an answer may still come: no client learns of this one any more.
            promised.ended_flag(volume_id)


_OPERATIONS: dict[tuple[str, Callable[[Client], None]], float] = {
    ('reserve', Client._reserve): 10,
    ('attach at once', Client._attach_at_once): 14,
    ('update', Client._update): 16,
    ('complete', Client._complete): 12,
    ('delete', Client._delete): 22,
    ('show', Client._show): 4,
    ('list', Client._list): 2,
    ('hold', Client._held): 6,
    ('connection', Client._connection): 6,
    ('os-attach', Client._os_attach): 4,
    ('os-detach', Client._os_detach): 5,
    ('delete volume', Client._delete_volume): 8,
    ('reset', Client._reset): 2,
    ('readonly', Client._readonly): 2,
}
