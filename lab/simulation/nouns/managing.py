"""Management of existing volumes and snapshots in the simulation.

Operators manage volumes and snapshots that exist on backends, unmanage them, and manage them
again. No bytes are ever lost.
"""
import dataclasses
from collections.abc import Iterator

from blockattach.platform import errors
from blockattach.platform import units
from blockattach.storage.db import models
from blockattach.storage.domain import messages
from blockattach.storage.domain import volume_lifecycle
from blockattach.storage.domain.invariants import observed
from blockattach.storage.drivers import base
from lab.simulation import clients
from lab.simulation import operations
from lab.simulation import storage
from lab.simulation.nouns import snapshots
from lab.simulation.nouns import volumes

_Own = volume_lifecycle.OwnStatus
_POOL = 'pool'
_MOST = 3
_REF = 'source-name'
_BYTES = 2 * units.MIB
"""Offset of the bytes that identify a volume that an operator has created on a backend."""
_AT_WORK = (_Own.MANAGING, _Own.UNMANAGING)
# A manager refuses an accepted request with MANAGE_FAILED. The scheduler refuses the request with
# MANAGE_NO_POOL if the backend goes out of service before a manager has claimed the work.
_REFUSALS = (messages.MANAGE_NO_POOL.event_id, messages.MANAGE_FAILED.event_id)


@dataclasses.dataclass(slots=True)
class _Taken:
    """Volume that was requested to be managed, with the bytes of its source."""

    name: str
    address: str
    content: bytes | None


class Managing(clients.Played):
    """Resources of backends that operators have managed and unmanaged."""

    def __init__(self, consumers: clients.Consumers) -> None:
        super().__init__(consumers)
        self._taken: dict[str, _Taken] = {}
        """Managed volumes by ID."""
        self._accepted: set[str] = set()
        """Managed volumes that were accepted since the last peace."""
        self._wanted: dict[str, set[str]] = {}
        """IDs of the volumes that were requested from a name; empty ID without an answer."""
        self._left: dict[str, bytes | None] = {}
        """Bytes of unmanaged volumes, by their names on the backend."""
        self._origins: dict[str, str] = {}
        """Volumes of the snapshots that were requested to be unmanaged, by name."""
        self._put = 0

    @property
    def _volumes(self) -> volumes.Volumes:
        return self._all.of(volumes.Volumes)

    @property
    def _storages(self) -> dict[str, storage.Storage]:
        return self._all.deployed.storages

    def rewritten(self, volume_id: str) -> None:
        """Stop comparing the bytes of a volume that gets other contents."""
        if volume_id in self._taken:
            self._taken[volume_id].content = None

    def _manage(self) -> None:
        """Manage a new or an existing resource, which other clients may request too."""
        if len(self._volumes.kinds) >= volumes.MOST + _MOST:
            return
        address = self._chance.choice(sorted(self._storages))
        kept = self._storages[address]
        lying = sorted(name for name in kept.foreign & kept.store.sizes().keys()
                       if not name.startswith('snapshot-'))
        name = self._chance.choice(lying) if lying and self._chance.random() < 0.6 \
            else self._put_there(kept)
        if name is None:
            return
        taken = _Taken(name, address, kept.store.contents(name).get(_BYTES))
        kept.brought_gb += kept.store.sizes()[name]
        wanted = self._wanted.setdefault(name, set())
        self._left.pop(name, None)
        answer = self._all.ask('POST', '/manageable_volumes', {'volume': {
            'host': f'{address}#{_POOL}', 'ref': {_REF: name}}})
        self._volumes.remember(answer, answer.lost)
        if answer.lost:
            wanted.add('')
        if answer.status == 202:
            self._volumes.kinds[answer.made] = 'plain'
            self._taken[answer.made] = taken
            wanted.add(answer.made)
            self._accepted.add(answer.made)

    def _put_there(self, kept: storage.Storage) -> str | None:
        """Create a volume directly on a backend, and return its name; None if there is no room."""
        self._put += 1
        name, size_gb = f'disk-{self._put}', self._chance.randrange(1, 3)
        try:
            kept.store.create(base.StoredVolume(name, name, size_gb, _POOL))
        except errors.BackendRefused:
            return None
        kept.store.contents(name)[_BYTES] = name.encode()
        kept.foreign.add(name)
        return name

    def _unmanage(self) -> None:
        volume_id = self._volumes.any()
        if self._volumes.changes[volume_id] % 2:
            return
        name = f'volume-{volume_id}'
        holding = [kept for kept in self._storages.values() if name in kept.store.sizes()]
        for kept in self._storages.values():
            kept.foreign.add(name)
        content = {kept.store.contents(name).get(_BYTES) for kept in holding}
        with self._volumes.changing(volume_id):
            answer = self._volumes.action('os-unmanage', {}, volume_id)
        # Another client may have requested to manage it, and gets it as soon as it is unmanaged.
        if answer.status == 202 and len(holding) == 1 and name not in self._wanted and (
                volume_id not in self._volumes.deleted):
            self._left[name] = content.pop()
        if answer.status in (202, 404):
            self._volumes.kinds.pop(volume_id, None)

    def _unmanage_snapshot(self) -> None:
        known = self._all.of(snapshots.Snapshots)
        name = known.any()
        if name is None:
            return
        self._origins[f'snapshot-{name}'] = str(known.volume_of(name, {}))
        for kept in self._storages.values():
            kept.foreign.add(f'snapshot-{name}')
        known.end(name, 'POST', '/action', {'os-unmanage': {}})

    def _manage_snapshot(self) -> None:
        known = self._all.of(snapshots.Snapshots)
        lying = [name for kept in self._storages.values()
                 for name in sorted(kept.foreign & kept.store.sizes().keys()
                                    & self._origins.keys())]
        if lying:
            name = self._chance.choice(lying)
            known.make('/manageable_snapshots', {
                'volume_id': self._origins[name], 'ref': {_REF: name}}, once=True)

    def _list(self) -> None:
        """Check that resources that exist on a backend all the time are listed."""
        address = self._chance.choice(sorted(self._storages))
        noun = self._chance.choice(('volume', 'snapshot'))
        store = self._storages[address].store

        def lying() -> set[str]:
            return {name for name in store.sizes()
                    if name.startswith('snapshot-') == (noun == 'snapshot')}
        before = lying()
        answer = self._all.ask('GET', f'/manageable_{noun}s/detail?host={address}')
        if answer.status == 200:
            listed = {one['reference'][_REF] for one in answer.body[f'manageable-{noun}s']}
            for name in sorted((before & lying()) - listed):
                self._all.judge.violated(f'P6 all_is_listed: {name} exists on {address}, but is '
                                         f'not listed')

    def broken(self, facts: observed.Facts) -> Iterator[str]:
        """Yield the managed volumes without their bytes, and the lost unmanaged volumes."""
        live = {volume.id: volume for volume in facts.volumes if not volume.deleted}
        for volume_id, taken in list(self._taken.items()):
            volume = live.get(volume_id)
            if volume is None or taken.content is None or volume.own_status != _Own.AVAILABLE:
                continue
            kept = self._storages.get(volume.host or '')
            if kept is not None and volume_id not in kept.lied and kept.store.contents(
                    f'volume-{volume_id}').get(_BYTES) != taken.content:
                yield f'P4 managed_is_whole: volume {volume_id} lacks the bytes of {taken.name}'
        for name, content in list(self._left.items()):
            if name.removeprefix('volume-') in live:
                continue
            if name.removeprefix('volume-') in self._volumes.deleted:
                del self._left[name]
            elif not any(name in kept.store.sizes()
                         and kept.store.contents(name).get(_BYTES) == content
                         for kept in self._storages.values()):
                yield f'P4 left_is_there: {name} was unmanaged, but is not on its backend'

    def unknown(self, facts: observed.Facts) -> Iterator[str]:
        """Yield the requests that failed without a message, and the lost resources of backends."""
        live = {volume.id: volume for volume in facts.volumes if not volume.deleted}
        with self._all.judge.looking() as database, database.reader() as connection:
            informed = {row.resource_id for row in connection.execute(models.messages.select())
                        if row.event_id in _REFUSALS}
        for volume_id in sorted(self._accepted & live.keys()):
            if live[volume_id].own_status == _Own.ERROR_MANAGING and volume_id not in informed:
                yield (f'P2 what_is_accepted_is_done: volume {volume_id} is not managed, and '
                       f'no message explains that')
        for volume in live.values():
            if volume.own_status in _AT_WORK:
                yield f'P9 managing_ends: volume {volume.id} is {volume.own_status} in peace'
        for kept in self._storages.values():
            stored = kept.store.sizes()
            for name in sorted(kept.foreign - stored.keys()):
                kept.foreign.discard(name)
                if name.startswith('disk-') and not any(
                        one not in live or live[one].made or one in kept.lied
                        for one in self._wanted.get(name, ())):
                    yield f'P4 storage_stays: {name} is gone, but no volume was created from it'
            for name in kept.lied:
                if f'volume-{name}' in stored and name not in live:
                    kept.foreign.add(f'volume-{name}')
            self._clear(kept, {f'volume-{one}' for one in live})
        self._accepted.clear()
        self._taken = {one: taken for one, taken in self._taken.items() if one in live}

    def _clear(self, kept: storage.Storage, used: set[str]) -> None:
        """Delete unused resources from a backend, to make room."""
        for name in sorted(kept.foreign - used):
            if name.startswith('snapshot-'):
                continue
            self._left.pop(name, None)
            kept.foreign.discard(name)
            kept.store.delete(base.StoredVolume(name, name, 0, _POOL))

    OPERATIONS = {
        'manage': (_manage, 6),
        'unmanage': (_unmanage, 3),
        'unmanage snapshot': (_unmanage_snapshot, 2),
        'manage snapshot': (_manage_snapshot, 2),
        'list manageable': (_list, 2),
    }


def _host(client):
    return client.cloud.served(operations.MANAGER)


def _left_volume(client):
    """Unmanage a volume, and return its backend and its name there."""
    volume_id = client.volume()
    host = _host_of(client, volume_id)
    client.leaves = True
    client.sure((202,), 'POST', f'/volumes/{volume_id}/action', {'os-unmanage': {}})
    assert client.settled(volume_id) is None
    return host, f'volume-{volume_id}'


def _manage(client, left):
    status, answer = client.ask('POST', '/manageable_volumes', _wish(*left))
    if status == 202:
        client.settled(answer['volume']['id'])


def _wish(host, name):
    return {'volume': {'host': host, 'ref': {_REF: name}}}


def _unmanage(client, volume_id):
    client.leaves = True
    client.act(volume_id, 'os-unmanage')
    client.settled(volume_id)


def _list(client, _):
    for noun in ('volume', 'snapshot'):
        client.ask('GET', f'/manageable_{noun}s/detail?host={_host(client)}')


def _left_snapshot(client):
    """Unmanage a snapshot, and return its volume and its name on the backend."""
    client.leaves = True
    volume_id, snapshot_id = snapshots.prepared(client)
    client.sure((202,), 'POST', f'/snapshots/{snapshot_id}/action', {'os-unmanage': {}})
    return volume_id, f'snapshot-{snapshot_id}'


def _manage_snapshot(client, left):
    status, answer = client.ask('POST', '/manageable_snapshots', {'snapshot': {
        'volume_id': left[0], 'ref': {_REF: left[1]}}})
    if status == 202:
        client.settled(answer['snapshot']['id'], 'snapshot')


def _unmanage_snapshot(client, prepared):
    client.leaves = True
    client.ask('POST', f'/snapshots/{prepared[1]}/action', {'os-unmanage': {}})


def _clear(client):
    """Manage the unmanaged resources, so that they are deleted with the others."""
    if not client.leaves:
        return
    for pool in client.sure((200,), 'GET', '/scheduler-stats/get_pools')['pools']:
        for name in _lying(client, pool['name'], 'snapshot'):
            made = client.sure((202,), 'POST', '/manageable_snapshots', {'snapshot': {
                'volume_id': _volume_on(client, pool['name']), 'ref': {_REF: name}}})
            client.settled(made['snapshot']['id'], 'snapshot')
        for name in _lying(client, pool['name'], 'volume'):
            made = client.sure((202,), 'POST', '/manageable_volumes', _wish(pool['name'], name))
            client.settled(made['volume']['id'])
    client.leaves = False


def _volume_on(client, pool):
    while _host_of(client, made := client.volume()) != pool:
        pass
    return made


def _host_of(client, volume_id):
    return client.sure((200,), 'GET', f'/volumes/{volume_id}')['volume']['os-vol-host-attr:host']


def _lying(client, pool, noun):
    listed = client.sure((200,), 'GET', f'/manageable_{noun}s/detail?host='
                                        f'{pool.partition("#")[0]}')[f'manageable-{noun}s']
    return [one['reference'][_REF] for one in listed if one['safe_to_manage']]


_MANAGER = operations.MANAGER

NOUN = operations.Noun(
    'managing',
    played=Managing,
    operations=(
        operations.Operation('manage', _manage, _left_volume, core=True),
        operations.Operation('refused manage', _manage, _left_volume, hindered=(
            (_MANAGER, 'backend.store.manage.before=refuse'),)),
        operations.Operation('unmanage', _unmanage, operations.volume, core=True),
        operations.Operation('refused unmanage', _unmanage, operations.volume, hindered=(
            (_MANAGER, 'backend.target.unexport.before=refuse'),)),
        operations.Operation('list manageable', _list),
        operations.Operation('manage snapshot', _manage_snapshot, _left_snapshot),
        operations.Operation('unmanage snapshot', _unmanage_snapshot, snapshots.prepared),
    ),
    clear=_clear,
    at_work=("SELECT COUNT(*) FROM volumes WHERE own_status IN ('managing', 'unmanaging')",),
    passed=('control.managing.', 'volume.managing.', 'db.managing.', 'db.unmanaging.',
            'db.volume.manage.', 'db.volume.unmanage.', 'db.snapshot.manage.',
            'backend.store.manage', 'rpc.volume.list_manageable.'),
    unreached={
        'db.volume.manage.refused.*': 'only if a pool cannot be used any more: '
                                      'tests/functional/test_manage_faults.py',
    },
    seeds=((51, 400), (75, 400), (1000, 200)),
    needs=(snapshots.NOUN.name,),
)
