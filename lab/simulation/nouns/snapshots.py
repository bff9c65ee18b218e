"""Snapshots in the simulation.

A snapshot that a client was given stays until a client deletes it or its volume. The store has
each available snapshot. No snapshot is kept that no client knows.
"""
import dataclasses
from collections import Counter
from collections.abc import Iterator
from typing import Any

from blockattach.storage.domain import snapshots
from blockattach.storage.domain.invariants import observed
from lab.simulation import clients
from lab.simulation import operations
from lab.simulation.nouns import volumes

_PATH = '/snapshots'
_MOST = 8
_CREATE = 'backend.store.create_snapshot.before=refuse'
_DELETE = 'backend.store.delete_snapshot.before=refuse'


@dataclasses.dataclass(slots=True)
class _Known:
    """Snapshot that clients know.

    ``cascades``: the number of cascading deletions of the volume when the snapshot was requested.
    ``ends``: a request may have ended the snapshot. ``ended``: an answer said that it is gone.
    """

    volume_id: str
    cascades: int
    ends: bool = False
    ended: bool = False


class Snapshots(clients.Played):
    """Snapshots that clients know."""

    def __init__(self, consumers: clients.Consumers) -> None:
        super().__init__(consumers)
        self._known: dict[str, _Known] = {}
        self._cascades: Counter[str] = Counter()
        """Number of requests to delete a volume with its snapshots."""
        self._forsaken = 0

    @property
    def _volumes(self) -> volumes.Volumes:
        return self._all.of(volumes.Volumes)

    def volume_of(self, name: str, body: Any) -> str | None:
        """Return the volume of a known or requested snapshot."""
        if name in self._known:
            return self._known[name].volume_id
        return (body.get('snapshot') or {}).get('volume_id')

    def _live(self) -> list[str]:
        return [name for name, one in self._known.items() if not one.ended]

    def any(self) -> str | None:
        """Return a random snapshot that may exist; None if there is none."""
        found = self._live()
        return self._chance.choice(found) if found else None

    def _create(self) -> None:
        if len(self._live()) >= _MOST:
            return
        self.make(_PATH, {'volume_id': self._volumes.any()},
                  self._chance.random() < volumes.GIVES_UP)

    def make(self, path: str, wanted: dict[str, Any], once: bool) -> None:
        """Send a create request, and remember its answer."""
        volume_id = wanted['volume_id']
        cascades = self._cascades[volume_id]
        answer, lost = self._all.make(path, {'snapshot': wanted}, once)
        if answer.status == 202:
            self._known.setdefault(answer.made, _Known(volume_id, cascades))
        elif lost:
            self._forsaken += 1

    def _find(self) -> None:
        """List the snapshots, including those whose creation got no answer."""
        answer = self._all.ask('GET', _PATH)
        if answer.status == 200:
            for found in answer.body['snapshots']:
                # A listed snapshot may be gone by now, so that nothing is expected of it.
                self._known.setdefault(found['id'], _Known(found['volume_id'], -1))

    def _delete(self) -> None:
        name = self.any()
        if name is not None:
            self.end(name, 'DELETE')

    def end(self, name: str, method: str, path: str = '', body: Any = None) -> None:
        """Send a request that ends a snapshot."""
        self._known[name].ends = True
        self._ask_for(name, method, path, body)

    def _show(self) -> None:
        name = self.any()
        if name is not None:
            self._ask_for(name, 'GET')

    def _ask_for(self, name: str, method: str, path: str = '', body: Any = None) -> None:
        answer = self._all.ask(method, f'{_PATH}/{name}{path}', body)
        if answer.status == 404 and name in self._known:
            self._known[name].ended = True

    def _delete_all(self) -> None:
        """Delete a volume with its snapshots."""
        volume_id = self._volumes.any()
        if not self._volumes.changes[volume_id] % 2:
            self._cascades[volume_id] += 1
            self._volumes.delete(volume_id, '?cascade=true')

    def _revert(self) -> None:
        name = self.any()
        if name is None:
            return
        volume_id = self._known[name].volume_id
        if not self._volumes.changes[volume_id] % 2:
            with self._volumes.changing(volume_id):
                self._volumes.action('revert', {'snapshot_id': name}, volume_id)

    def broken(self, facts: observed.Facts) -> Iterator[str]:
        """Yield the snapshots that differ from the answers, or are missing on their store."""
        live = {row.id for row in facts.snapshots}
        for name, one in self._known.items():
            if one.ended:
                if name in live:
                    yield f'P6 gone_is_gone: snapshot {name} was reported gone, but exists'
            elif (name not in live and not one.ends
                    and one.cascades == self._cascades[one.volume_id]):
                yield f'P4 snapshot_stays: snapshot {name} is gone, but no client deleted it'
        for address, kept in self._all.deployed.storages.items():
            stored = kept.store.sizes()
            for row in _on(address, facts):
                if (row.status == snapshots.Status.AVAILABLE and row.id not in kept.lied
                        and f'snapshot-{row.id}' not in stored):
                    yield f'P4 available_is_kept: no store has the available snapshot {row.id}'

    def unknown(self, facts: observed.Facts) -> Iterator[str]:
        """Yield the snapshots that no client knows, and those on a store without a row."""
        new = {row.id: row.volume_id for row in facts.snapshots if row.id not in self._known}
        if len(new) > self._forsaken:
            yield (f'P2 nobody_is_forgotten: no client knows {len(new)} snapshots, but only '
                   f'{self._forsaken} were given up')
        self._forsaken = 0
        live = {row.id for row in facts.snapshots}
        self._known = {name: one for name, one in self._known.items() if name in live}
        self._known |= {name: _Known(volume_id, -1) for name, volume_id in new.items()}
        for address, kept in self._all.deployed.storages.items():
            stored = {name.removeprefix('snapshot-') for name in kept.store.sizes()
                      if name.startswith('snapshot-')}
            stored -= {name.removeprefix('snapshot-') for name in kept.foreign}
            for name in sorted(stored - {row.id for row in _on(address, facts)} - kept.lied):
                yield f'P2 the store keeps snapshot {name}, which no row places there'

    OPERATIONS = {
        'snapshot': (_create, 8),
        'find snapshots': (_find, 2),
        'show snapshot': (_show, 2),
        'delete snapshot': (_delete, 4),
        'delete volume with snapshots': (_delete_all, 2),
        'revert': (_revert, 3),
    }


def _on(address: str, facts: observed.Facts) -> Iterator[observed.SnapshotFact]:
    return (row for row in facts.snapshots
            if row.pool is not None and row.pool.startswith(f'{address}#'))


def _snapshot(client, volume_id):
    status, answer = client.ask('POST', _PATH, {'snapshot': {'volume_id': volume_id}})
    if status == 202:
        client.settled(answer['snapshot']['id'], 'snapshot')


def prepared(client):
    """Create a volume with an available snapshot, and return the IDs of both."""
    volume_id = client.volume()
    made = client.sure((202,), 'POST', _PATH, {'snapshot': {'volume_id': volume_id}})
    assert client.settled(made['snapshot']['id'], 'snapshot') == 'available'
    return volume_id, made['snapshot']['id']


def _delete(client, prepared):
    client.ask('DELETE', f'{_PATH}/{prepared[1]}')
    client.settled(prepared[1], 'snapshot')


def _cascade(client, prepared):
    client.ask('DELETE', f'/volumes/{prepared[0]}?cascade=true')
    client.settled(prepared[0])


def _revert(client, prepared):
    client.act(prepared[0], 'revert', {'snapshot_id': prepared[1]})
    client.settled(prepared[0])


def _settings(client, prepared):
    path = f'{_PATH}/{prepared[1]}'
    client.ask('PUT', path, {'snapshot': {'name': 'n'}})
    client.ask('PUT', f'{path}/metadata', {'metadata': {'k': 'v'}})
    client.ask('POST', f'{path}/action', {'os-reset_status': {'status': 'creating'}})
    client.ask('POST', f'{path}/action', {'os-update_snapshot_status': {'status': 'error'}})


def _clear(client):
    for found in client.sure((200,), 'GET', _PATH)['snapshots']:
        # A snapshot whose status was reset to a transitional one cannot be deleted.
        client.sure((202, 404, 409), 'POST', f'{_PATH}/{found["id"]}/action',
                    {'os-reset_status': {'status': 'error'}})
        client.remove(found['id'], 'snapshot')


def _left(client):
    return [f'snapshot {one["id"]}' for one in client.sure((200,), 'GET', _PATH)['snapshots']]


_MANAGER = operations.MANAGER

NOUN = operations.Noun(
    'snapshots',
    played=Snapshots,
    operations=(
        operations.Operation('snapshot', _snapshot, operations.volume, core=True),
        operations.Operation('delete snapshot', _delete, prepared, core=True),
        operations.Operation('cascade', _cascade, prepared, core=True),
        operations.Operation('revert', _revert, prepared, core=True),
        operations.Operation('half done snapshot', _snapshot, operations.volume, hindered=(
            (_MANAGER, 'volume.snapshots.before_create=raise*1'),)),
        operations.Operation('refused snapshot', _snapshot, operations.volume,
                             hindered=((_MANAGER, _CREATE),)),
        operations.Operation('refused snapshot removal', _delete, prepared,
                             hindered=((_MANAGER, _DELETE),)),
        operations.Operation('refused revert', _revert, prepared, hindered=(
            (_MANAGER, 'backend.store.revert.before=refuse'),)),
        operations.Operation('snapshot settings', _settings, prepared),
    ),
    clear=_clear,
    left=_left,
    at_work=("SELECT COUNT(*) FROM snapshots WHERE status IN ('creating', 'deleting') AND NOT "
             "status_reset AND NOT deleted",),
    # Random requests rarely delete a volume with snapshots. The operation `cascade` does.
    rare=('volume.snapshots.after_delete_of',),
    passed=('control.snapshots.', 'volume.snapshots.', 'volume.reverts.', 'db.snapshots.start_',
            'db.reverts.start.', 'backend.store.create_snapshot.',
            'backend.store.delete_snapshot.', 'backend.store.revert.'),
    unreached={
        'db.snapshots.leave_remains.*': 'data that cannot be deleted at once: '
                                        'tests/functional/test_snapshot_faults.py',
        'work.snapshot.cleanup.*': 'the same',
    },
    seeds=((11, 400),),
)
