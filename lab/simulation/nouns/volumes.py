"""Volumes in the simulation."""
import contextlib
from collections import Counter
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from blockattach.storage.db import derived
from blockattach.storage.domain.invariants import observed
from lab.simulation import clients
from lab.simulation import deployment
from lab.simulation import operations

MOST = 5
# Probability that a client does not repeat a create request without an answer.
GIVES_UP = 0.35


class Volumes(clients.Played):
    """Volumes that clients know, and their requests that may change these volumes.

    :ivar kinds: by ID, the types of the volumes that clients use
    :ivar changes: by volume, the number of starts and ends of changes of the volume itself. An odd
        number means that a change is under way
    """

    def __init__(self, consumers: clients.Consumers) -> None:
        super().__init__(consumers)
        self.kinds: dict[str, str] = {}
        self.changes: Counter[str] = Counter()
        self.endings: Counter[str] = Counter()
        """Number of requests that may end any attachment of a volume."""
        self.ending: Counter[str] = Counter()
        """Number of such requests that are or may be under way."""
        self._flagging: Counter[str] = Counter()
        self._flags: Counter[str] = Counter()
        """Numbers of started and of finished changes of the read-only flag of a volume."""
        self._read_only: set[str] = set()
        self._forsaken = 0
        self._known: set[str] = set()
        self.deleted: set[str] = set()
        """Volumes that a client has ever requested to delete."""

    def any(self) -> str:
        """Return a random volume."""
        return self._chance.choice(list(self.kinds))

    def writes(self, volume_id: str) -> bool:
        """Return True if a host may get write access, as far as clients know."""
        return volume_id not in self._read_only

    def action(self, name: str, body: Any, volume_id: str) -> clients.Answer:
        """Request an action of a volume."""
        return self._all.ask('POST', f'/volumes/{volume_id}/action', {name: body})

    def end_any(self, name: str, body: Any, volume_id: str) -> clients.Answer:
        """Request an action that may end any attachment of the volume.

        Without an answer, the action may still be executed later.
        """
        self.endings[volume_id] += 1
        self.ending[volume_id] += 1
        answer = self.action(name, body, volume_id)
        if answer.status != clients.UNKNOWN:
            self.endings[volume_id] += 1
            self.ending[volume_id] -= 1
        return answer

    def first(self) -> str | None:
        """Create a volume if there are none, or sometimes if there are few."""
        if len(self.kinds) < MOST and self._chance.random() < 0.3 or not self.kinds:
            self._create()
            return 'create volume'
        return None

    def asked(self, method: str, path: str, body: Any, headers: Mapping[str, str],
              ) -> clients.Answer | None:
        parts = path.strip('/').split('/')
        if parts[0] != 'volumes' or method != 'POST':
            return None
        if len(parts) == 1:
            answer = self._all.ask(method, path, body, headers)
            self.remember(answer, answer.lost)
            return answer
        if parts[-1] == 'action' and 'os-reset_status' in body:
            return self.end_any('os-reset_status', body['os-reset_status'], parts[1])
        return None

    def broken(self, facts: observed.Facts) -> Iterator[str]:
        """Yield the pools that have allocated more than their limit."""
        for pool in facts.pools:
            kept = self._all.deployed.storages.get(pool.name.partition('#')[0])
            # Volumes brought under management are allocated even beyond the limit.
            brought_gb = kept.brought_gb if kept is not None else 0
            if pool.limit_gb is not None and pool.allocated_gb > pool.limit_gb + brought_gb:
                yield (f'P6 room_is_claimed: pool {pool.name} has allocated '
                       f'{pool.allocated_gb} GiB of {pool.limit_gb:.0f}')

    def unknown(self, facts: observed.Facts) -> Iterator[str]:
        """Yield the volumes that no client knows, and those on a store without a row."""
        new = {volume.id for volume in facts.volumes if not volume.deleted
               and volume.project_id != deployment.INTERNAL_PROJECT} - self._known
        if len(new) > self._forsaken:
            yield (f'P2 nobody_is_forgotten: no client knows {len(new)} volumes, but only '
                   f'{self._forsaken} were given up')
        self._known |= new
        self._forsaken = 0
        self.ending.clear()
        for address, kept in self._all.deployed.storages.items():
            stored = {name.removeprefix('volume-') for name in kept.store.sizes()
                      if name.startswith('volume-')}
            placed = {volume.id for volume in facts.volumes
                      if volume.pool is not None and volume.pool.startswith(f'{address}#')}
            stored -= {name.removeprefix('volume-') for name in kept.foreign}
            for volume_id in sorted(stored - placed - kept.lied):
                yield f'P2 the store keeps volume {volume_id}, which no row places there'

    def _create(self) -> None:
        kind = self._chance.choice((None, clients.MULTIATTACH, clients.MULTIATTACH,
                                    clients.SINGLE_WRITER))
        wanted: dict[str, Any] = {'size': self._chance.randrange(1, 4)}
        if kind is not None:
            wanted['volume_type'] = kind
        self.make(wanted, kind or 'plain')

    def make(self, wanted: Any, kind: str) -> clients.Answer:
        """Send a create request, and remember its answer."""
        answer, lost = self._all.make('/volumes', {'volume': wanted},
                                      self._chance.random() < GIVES_UP)
        self.remember(answer, lost)
        if answer.status == 202:
            self.kinds[answer.body['volume']['id']] = kind
        return answer

    def remember(self, answer: clients.Answer, lost: bool) -> None:
        """Remember the answer to a create request."""
        if answer.status == 202:
            self._known.add(answer.body['volume']['id'])
        elif lost:
            self._forsaken += 1

    def _delete(self) -> None:
        volume_id = self.any()
        if not self.changes[volume_id] % 2:
            self.delete(volume_id)

    def delete(self, volume_id: str, query: str = '') -> clients.Answer:
        """Delete a volume that no other client is changing."""
        self.deleted.add(volume_id)
        with self.changing(volume_id):
            answer = self._all.ask('DELETE', f'/volumes/{volume_id}{query}')
        if answer.status in (202, 404):
            self.kinds.pop(volume_id, None)
        return answer

    @contextlib.contextmanager
    def changing(self, volume_id: str) -> Iterator[None]:
        """Mark the volume as being changed, while the context lasts."""
        self.changes[volume_id] += 1
        try:
            yield
        finally:
            self.changes[volume_id] += 1

    def _reset(self) -> None:
        status = self._chance.choice(('available', 'error', 'in-use', 'maintenance'))
        volume_id = self.any()
        if self.changes[volume_id] % 2:
            return
        with self.changing(volume_id):
            if self._all.ask('GET', f'/volumes/{volume_id}').status != 200:
                return
            self.end_any('os-reset_status', self._chance.choice((
                {'status': status}, {'attach_status': 'detached'},
                {'status': 'available', 'attach_status': 'detached'})), volume_id)

    def _set_read_only(self) -> None:
        volume_id = self.any()
        read_only = self._chance.random() < 0.5
        self._flagging[volume_id] += 1
        self._read_only.discard(volume_id)
        number = self._flagging[volume_id]
        answer = self.action('os-update_readonly_flag', {'readonly': read_only}, volume_id)
        if (answer.status == 202 and read_only and self._flagging[volume_id] == number
                and self._flags[volume_id] == number - 1):
            self._read_only.add(volume_id)
        if answer.status != clients.UNKNOWN:
            # A request without an answer may still be executed, after which the flag is unknown.
            self._flags[volume_id] += 1

    OPERATIONS = {
        'delete volume': (_delete, 8),
        'reset': (_reset, 2),
        'readonly': (_set_read_only, 2),
    }


def create(client, _):
    made(client, {'size': 1})


def made(client, wanted):
    """Create a volume and wait until it is created or has failed.

    :returns: its ID; None if the request failed
    """
    status, answer = client.ask('POST', '/volumes', {'volume': wanted})
    if status == 202:
        client.settled(answer['volume']['id'])
        return answer['volume']['id']
    return None


def _delete(client, volume_id):
    client.ask('DELETE', f'/volumes/{volume_id}')
    client.settled(volume_id)


def _settings(client, volume_id):
    client.act(volume_id, 'os-update_readonly_flag', {'readonly': True})
    client.act(volume_id, 'os-reset_status', {'status': 'error'})


def _derive(walk, process, *arguments):
    if arguments[2] == '--counts':
        derived.counts(walk.database(process))
    else:
        derived.volume_status(walk.database(process), arguments[2])


def _clear(client):
    for volume in client.sure((200,), 'GET', '/volumes/detail')['volumes']:
        if volume['id'] not in client.kept_volumes:
            client.remove(volume['id'])


def _left(client):
    volumes = {row['id']: row['status']
               for row in client.sure((200,), 'GET', '/volumes/detail')['volumes']}
    found = [f'volume {one}' for one in set(volumes) ^ client.kept_volumes]
    return found + ([] if volumes.get(client.plain) == 'available'
                    else [f'the plain volume is {volumes.get(client.plain)}'])


_MANAGER = operations.MANAGER
_VOLUME = operations.volume

NOUN = operations.Noun(
    'volumes',
    played=Volumes,
    operations=(
        operations.Operation('create', create, core=True),
        operations.Operation('delete', _delete, _VOLUME, core=True),
        operations.Operation('half done', create, hindered=(
            (_MANAGER, 'volume.volumes.before_create=raise*1'),)),
        operations.Operation('refused create', create, hindered=(
            (_MANAGER, 'backend.store.create.before=refuse'),)),
        operations.Operation('refused delete', _delete, _VOLUME, hindered=(
            (_MANAGER, 'backend.store.delete.before=refuse'),)),
        operations.Operation('settings', _settings, _VOLUME),
        operations.Operation('derive', operations.command, lambda client: (
            operations.MANAGE, 'attachments', 'derive', client.shared)),
        operations.Operation('derive counts', operations.command,
                             operations.manage('attachments', 'derive', '--counts')),
    ),
    clear=_clear,
    left=_left,
    commands={('attachments', 'derive'): _derive},
    at_work=("SELECT COUNT(*) FROM volumes WHERE own_status IN ('creating', 'deleting', "
             "'reverting')",),
    unreached={
        'db.volumes.leave_remains.*': 'data that cannot be deleted at once: '
                                      'tests/functional/test_volume_faults.py',
    },
)
