"""Migration of volumes between two backends in the simulation.

At any moment, each volume is complete on the backend that its row names.
"""
from collections.abc import Iterator

from blockattach.storage.domain.invariants import observed
from lab.simulation import clients
from lab.simulation import operations
from lab.simulation.nouns import volumes

# Statuses in which the bytes of a volume may not exist.
_UNSURE = frozenset({'creating', 'deleting', 'error', 'error_deleting', 'deleted'})


class Moving(clients.Played):
    """Bytes that clients have written, and the volumes that they have migrated."""

    def __init__(self, consumers: clients.Consumers) -> None:
        super().__init__(consumers)
        self._written: set[str] = set()
        self._others: set[str] = set()
        """Volumes that got other contents, which are not compared."""

    def rewritten(self, volume_id: str) -> None:
        """Stop comparing the bytes of a volume that gets other contents."""
        self._others.add(volume_id)

    def _migrate(self) -> None:
        known = self._all.of(volumes.Volumes)
        known.action('os-migrate_volume', {
            'host': self._chance.choice(sorted(self._all.deployed.storages)),
            'lock_volume': self._chance.random() < 0.3}, known.any())

    def broken(self, facts: observed.Facts) -> Iterator[str]:
        """Yield the volumes that lack their bytes, and write to new volumes."""
        for volume in facts.volumes:
            kept = self._all.deployed.storages.get(volume.host or '')
            if kept is None or volume.deleted or volume.own_status in _UNSURE \
                    or volume.id in self._others:
                continue
            if any(volume.id in one.lied for one in self._all.deployed.storages.values()):
                continue
            contents = kept.store.contents(f'volume-{volume.id}')
            if volume.id not in self._written:
                if volume.own_status == 'available':
                    self._written.add(volume.id)
                    contents[0] = volume.id.encode()
            elif contents.get(0) != volume.id.encode():
                yield (f'P4 volumes_are_whole: volume {volume.id} is on {volume.pool}, but its '
                       f'bytes are not')

    def unknown(self, facts: observed.Facts) -> Iterator[str]:
        """Yield the volumes that are still migrating or being retyped."""
        for volume in facts.volumes:
            if volume.own_status in ('migrating', 'migrating-locked', 'retyping'):
                yield f'P9 moving_ends: volume {volume.id} is {volume.own_status} in peace'

    OPERATIONS = {'migrate': (_migrate, 8)}


def _retype(client, volume_id):
    status, found = client.ask('POST', '/types', {'volume_type': {'name': f'of {volume_id}'}})
    if status == 200:
        client.act(volume_id, 'os-retype', {'new_type': found['volume_type']['id']})
        client.settled(volume_id)


def _other(client, volume_id):
    """Return a pool that the volume is not on; None if there is none."""
    here = client.sure((200,), 'GET', f'/volumes/{volume_id}')['volume']['os-vol-host-attr:host']
    pools = client.sure((200,), 'GET', '/scheduler-stats/get_pools')['pools']
    return next((pool['name'] for pool in pools if pool['name'] != here), None)


def _to_leave(client):
    """Create a volume, and return it with the pool to migrate it to."""
    volume_id = client.volume()
    return volume_id, _other(client, volume_id)


def _migrate(client, leaving):
    volume_id, host = leaving
    if host is not None:
        client.act(volume_id, 'os-migrate_volume', {'host': host})
        client.settled(volume_id)


def _retype_away(client, leaving):
    volume_id, host = leaving
    if host is None:
        return
    status, found = client.ask('POST', '/types', {'volume_type': {
        'name': f'elsewhere {volume_id}',
        'extra_specs': {'volume_backend_name': host.partition('#')[0].partition('@')[2]}}})
    if status == 200:
        client.act(volume_id, 'os-retype', {'new_type': found['volume_type']['id'],
                                            'migration_policy': 'on-demand'})
        client.settled(volume_id)


_CREATE = 'backend.store.create.before=refuse'

NOUN = operations.Noun(
    'moving',
    played=Moving,
    operations=(
        operations.Operation('retype', _retype, operations.volume),
        operations.Operation('migrate', _migrate, _to_leave, core=True),
        operations.Operation('refused migrate', _migrate, _to_leave,
                             hindered=((operations.MANAGER, _CREATE),)),
        operations.Operation('retype elsewhere', _retype_away, _to_leave),
    ),
    at_work=("SELECT COUNT(*) FROM volumes WHERE own_status IN "
             "('migrating', 'migrating-locked', 'retyping')",
             "SELECT COUNT(*) FROM work WHERE verb = 'cleanup'"),
    passed=('backend.store.disk.', 'db.moving.migrate.', 'db.moving.moved.', 'db.moving.claim.'),
    rare=('control.moving.before_retype', 'control.moving.after_retype'),
    seeds=((31, 300),),
    in_memory='the second backend is in memory: tests/functional/test_move_faults.py',
)
