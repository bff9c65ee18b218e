"""Attachments in the simulation."""
import functools
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain.invariants import observed
from blockattach.storage.rpc import attachments
from lab.simulation import clients
from lab.simulation import operations
from lab.simulation import promises
from lab.simulation import recording
from lab.simulation.nouns import volumes

SERVERS = 6
# Probability that a request concerns the same attachment as the previous one.
_SAME = 0.35
# Statuses because of which a shared volume must not refuse a further host.
_IN_USE = ('available', 'reserved', 'attaching', 'in-use', 'detaching')
_STATES = {'PUT': 'connected', 'POST': 'attached', 'DELETE': None}


class Attachments(clients.Played):
    """Attachments that clients know.

    :ivar known: volume of each known attachment
    :ivar last: attachment of the last request, which further requests prefer
    """

    def __init__(self, consumers: clients.Consumers) -> None:
        super().__init__(consumers)
        self.known: dict[str, str] = {}
        self.last: str | None = None

    @functools.cached_property
    def promised(self) -> promises.Promises:
        """Answers about attachments that clients got."""
        return promises.Promises(self.volumes.endings, self.volumes.ending)

    @property
    def volumes(self) -> volumes.Volumes:
        return self._all.of(volumes.Volumes)

    def volume_of(self, name: str, body: Any) -> str | None:
        """Return the volume of a known or requested attachment."""
        return self.known.get(name) or (body.get('attachment') or {}).get('volume_uuid')

    def broken(self, facts: observed.Facts) -> Iterator[str]:
        """Yield the broken promises, and the exceeded quotas."""
        yield from self.promised.broken(facts)
        yield from promises.too_many(facts, self._all.deployed.quota)

    def unknown(self, facts: observed.Facts) -> Iterator[str]:
        """Yield the attachments that no client asked for."""
        yield from self.promised.unknown(facts)

    def asked(self, method: str, path: str, body: Any, headers: Mapping[str, str],
              ) -> clients.Answer | None:
        parts = path.strip('/').split('/')
        if path == '/attachments' and method == 'POST':
            return self._made(body, headers)
        if (parts[0] != 'attachments' or parts[1:2] == [] or parts[1] not in self.known
                or method not in _STATES):
            return None
        if method == 'DELETE':
            self.promised.end(parts[1])
        answer = self.changing(method, path, body, parts[1], _STATES[method])
        if method == 'DELETE' and answer.status == 200:
            self.promised.gone(parts[1])
        return answer

    def _made(self, body: Any, headers: Mapping[str, str]) -> clients.Answer:
        volume_id = body['attachment']['volume_uuid']
        endings = self.volumes.endings[volume_id]
        answer = self._all.ask('POST', '/attachments', body, headers)
        if answer.status == 200:
            made = answer.body['attachment']
            self.known[made['id']] = volume_id
            self.promised.answered(made['id'], volume_id, made['attach_mode'], endings)
        elif answer.lost:
            self.promised.forsake(volume_id, body['attachment']['instance_uuid'])
        return answer

    def any(self) -> str | None:
        """Return a random attachment, or None if there are none."""
        if self.last not in self.known or self._chance.random() >= _SAME:
            self.last = self._chance.choice(list(self.known)) if self.known else None
        return self.last

    def host(self) -> str:
        """Return a random host."""
        return self._chance.choice(clients.HOSTS)

    def server(self) -> str:
        """Return the ID of a random server."""
        return clients.server(self._chance.randrange(SERVERS))

    def mode(self) -> dict[str, str]:
        """Return a random access mode for the body of a request."""
        mode = self._chance.choice((None, 'rw', 'ro'))
        return {} if mode is None else {'mode': mode}

    def changing(self, method: str, path: str, body: Any, attachment_id: str,
                 into: str | None) -> clients.Answer:
        """Send a request that changes an attachment, and check its effect.

        A successful request must have the expected effect. A request that failed definitely must
        have changed nothing. The effect is checked only if no other request concerns the volume
        meanwhile.

        :param into: expected state of the attachment afterwards; None if it is to be gone
        """
        volume_id = self.known[attachment_id]
        self.promised.use(attachment_id)
        before = None if self._all.at_work[volume_id] else self._held(volume_id)
        begun = self._all.begun[volume_id]
        answer = self._all.ask(method, path, body)
        if (before is None or self._all.begun[volume_id] != begun + 1
                or self._all.at_work[volume_id]
                or not (answer.final or 200 <= answer.status < 300)):
            return answer
        said, after = f'{method} {path} returned {answer.status}', self._held(volume_id)
        if answer.final:
            if after is None:
                self._all.judge.violated(f'P9 failed_is_failed: {said}, but its work continues')
            for moved in promises.moved(before, after or before):
                self._all.judge.violated(f'P9 failed_is_failed: {said}, but {moved}')
        elif after is None or into != (
                after[attachment_id][0] if attachment_id in after else None):
            self._all.judge.violated(f'P6 done_is_done: {said}, but there is {after}')
        return answer

    def _held(self, volume_id: str) -> promises.Held | None:
        """Return the attachments of a volume; None if work on one of them is under way."""
        with self._all.judge.looking() as database:
            found = attachment_queries.of_volume(database, volume_id, with_legacy=True)
        if any(row.state in attachment_lifecycle.TRANSITIONAL for row in found):
            return None
        return {row.id: (row.state, row.initiator, row.mode) for row in found}

    def _reserve(self) -> None:
        self._attach({})

    def _attach_at_once(self) -> None:
        self._attach({'connector': clients.connector(self.host())})

    def _attach(self, more: dict[str, Any]) -> None:
        volume_id, server_id, known = self.volumes.any(), self.server(), self.volumes
        changes, endings = known.changes[volume_id], known.endings[volume_id]
        read_only = not known.writes(volume_id)
        wanted = {'volume_uuid': volume_id, 'instance_uuid': server_id, **self.mode(), **more}
        answer, lost = self._all.make('/attachments', {'attachment': wanted},
                                      self._chance.random() < volumes.GIVES_UP)
        if answer.status == 200:
            self._answered(answer, wanted, endings)
            made = answer.body['attachment']
            if (read_only and not known.writes(volume_id)
                    and made['attach_mode'] != promises.READ_ONLY):
                self._widened(made['id'], answer)
        elif (answer.status == 400 and known.kinds.get(volume_id) == clients.MULTIATTACH
                and changes == known.changes[volume_id] and not changes % 2
                and any(f'current status is {word}.' in str(answer.body) for word in _IN_USE)):
            # The status of a shared volume must not keep further hosts out.
            self._all.judge.violated(f'P1 the shared volume {volume_id} refuses a host: '
                                     f'{answer.body}')
        if lost:
            self.promised.forsake(volume_id, server_id)

    def _answered(self, answer: clients.Answer, wanted: dict[str, Any], endings: int) -> None:
        made, volume_id = answer.body['attachment'], wanted['volume_uuid']
        self.known[made['id']] = volume_id
        self.promised.answered(made['id'], volume_id, made['attach_mode'], endings)
        # A second attachment of a plain volume gets the mode of the first.
        if (wanted.get('mode') == promises.READ_ONLY != made['attach_mode']
                and self.volumes.kinds.get(volume_id) in (clients.MULTIATTACH,
                                                          clients.SINGLE_WRITER)):
            self._widened(made['id'], answer)

    def _widened(self, attachment_id: str, answer: clients.Answer) -> None:
        self._all.judge.violated(f'P5 read_only_stays: ro was requested for attachment '
                                 f'{attachment_id}, but the answer is {answer.body}')

    def _update(self) -> None:
        attachment_id = self.any()
        if attachment_id is None:
            return
        answer = self.changing(
            'PUT', f'/attachments/{attachment_id}',
            {'attachment': {'connector': {**clients.connector(self.host()), **self.mode()}}},
            attachment_id, 'connected')
        self._of(attachment_id, answer)
        if answer.status == 200 and self.promised.is_read_only(attachment_id) and (
                answer.body['attachment']['connection_info']['access_mode']
                != promises.READ_ONLY):
            self._widened(attachment_id, answer)

    def _complete(self) -> None:
        attachment_id = self.any()
        if attachment_id is not None:
            self._of(attachment_id, self.changing(
                'POST', f'/attachments/{attachment_id}/action', {'os-complete': None},
                attachment_id, 'attached'))

    def _delete(self) -> None:
        attachment_id = self.any()
        if attachment_id is not None:
            self.promised.end(attachment_id)
            answer = self.changing('DELETE', f'/attachments/{attachment_id}', None,
                                   attachment_id, None)
            if answer.status == 200:
                self.known.pop(attachment_id, None)
                self.promised.gone(attachment_id)
            self._of(attachment_id, answer)

    def _show(self) -> None:
        attachment_id = self.any()
        if attachment_id is not None:
            self._of(attachment_id, self._all.ask('GET', f'/attachments/{attachment_id}'))

    def _list(self) -> None:
        noun = self._chance.choice(('attachments', 'volumes'))
        answer = self._all.ask('GET', f'/{noun}/detail')
        if answer.status == 200 and noun == 'attachments':
            self.known.update((one['id'], one['volume_id']) for one in answer.body['attachments'])

    def _of(self, attachment_id: str, answer: clients.Answer) -> None:
        if answer.status == 404:
            self.known.pop(attachment_id, None)

    OPERATIONS = {
        'reserve': (_reserve, 10),
        'attach at once': (_attach_at_once, 14),
        'update': (_update, 16),
        'complete': (_complete, 12),
        'delete': (_delete, 22),
        'show': (_show, 4),
        'list': (_list, 2),
    }


def _ask_to_reserve(client, _):
    client.ask('POST', '/attachments', recording.wish(client.shared, connected=False))


def _ask_to_attach(client, _):
    client.ask('POST', '/attachments', recording.wish(client.shared))


def _reserved(client):
    return client.sure((200,), 'POST', '/attachments',
                       recording.wish(client.shared, connected=False))['attachment']['id']


def _connect(client, made):
    client.ask('PUT', f'/attachments/{made}',
               {'attachment': {'connector': recording.connector(recording.GUEST)}})


def _ask_to_complete(client, made):
    client.ask('POST', f'/attachments/{made}/action', {'os-complete': None})


def _detach(client, made):
    client.ask('DELETE', f'/attachments/{made}')


def _force_detach(client, made):
    client.act(client.shared, 'os-force_detach', {
        'attachment_id': made, 'connector': recording.connector(recording.GUEST)})


def _read_only(client, _):
    client.ask('POST', '/attachments', recording.wish(client.shared, mode='ro'))


def _writer_and_reader(client):
    """Attach a host twice, once to read and once to write."""
    client.attach(client.shared, mode='ro')
    return client.attach(client.shared, mode='rw')


def _consumer(client):
    """Return the arguments of a consumer that attaches, reads and detaches as Nova does."""
    return (operations.CONSUMER, operations.PROJECT, operations.USER, client.shared,
            recording.instance(recording.GUEST))


def _consume(walk, process, *arguments):
    """Send the requests of `blockattach.tests.functional.consumer`."""
    _, _, volume_id, instance = arguments
    bus = walk.cloud.parts[operations.CONTROL].bus_of(process)
    client = attachments.AttachmentsClient(bus)
    user = attachments.caller(clients.PROJECT, clients.USER, ['member', 'reader'])
    held = client.create(user, volume_id, instance)
    client.update(user, held.id, recording.connector('consumer'))
    client.complete(user, held.id)
    client.get(user, held.id)
    client.list(user, {'volume_id': volume_id})
    client.delete(user, held.id)


def _attached(client):
    return client.attached(client.shared)


def _clear(client):
    for row in client.sure((200,), 'GET', '/attachments/detail')['attachments']:
        if row['id'] not in client.kept_attachments:
            client.sure((200, 404), 'DELETE', f'/attachments/{row["id"]}')


def _left(client):
    rows = {row['id'] for row in client.sure((200,), 'GET', '/attachments')['attachments']}
    return [f'attachment {one}' for one in rows ^ client.kept_attachments]


_MANAGER = operations.MANAGER

NOUN = operations.Noun(
    'attachments',
    played=Attachments,
    operations=(
        operations.Operation('reserve', _ask_to_reserve, core=True),
        operations.Operation('attach', _ask_to_attach, core=True),
        operations.Operation('connect', _connect, _reserved, core=True),
        operations.Operation('complete', _ask_to_complete,
                             lambda client: client.attach(client.shared), core=True),
        operations.Operation('detach', _detach, _attached, core=True),
        operations.Operation('force-detach', _force_detach, _attached, core=True),
        operations.Operation('read-only', _read_only),
        operations.Operation('narrow', _detach, _writer_and_reader),
        operations.Operation('consumer', operations.command, _consumer),
        operations.Operation('fallen over', _ask_to_attach, hindered=(
            (_MANAGER, 'backend.target.grant.before=raise*1'),)),
        operations.Operation('refused attach', _ask_to_attach, hindered=(
            (_MANAGER, 'backend.target.grant.before=refuse'),)),
        operations.Operation('refused detach', _detach, _attached, hindered=(
            (_MANAGER, 'backend.target.revoke.before=refuse'),)),
    ),
    clear=_clear,
    left=_left,
    commands={(operations.CONSUMER,): _consume},
    at_work=('SELECT COUNT(*) FROM attachments WHERE owner IS NOT NULL OR deadline IS NOT NULL',),
    passed=('db.attachments.', 'db.leases.', 'db.detaches.'),
    # These are passed only if an announced detach expires, once a day, or by a stop in order.
    rare=('db.detaches._lapse.', 'db.leases.forget.', 'db.leases.leave.'),
    unreached={
        'db.leases.forget.*': 'once a day: tests/db/test_leases.py',
        'db.detaches._lapse.*': 'no announced detach expires here, because no timeout is set: '
                                'tests/db/test_legacy.py, tests/api/test_abandoned.py',
    },
)
