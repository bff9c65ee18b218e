"""Volumes that move between two backends, as clients play them: at any moment each is whole where
its row says that it is.
"""
from collections.abc import Iterator

from blockattach.domain.invariants import observed
from blockattach.tests.simulation import clients
from blockattach.tests.simulation import operations
from blockattach.tests.simulation.nouns import volumes

# In these its bytes may be gone, or were never there.
_UNSURE = frozenset({'creating', 'deleting', 'error', 'error_deleting', 'deleted'})


class Moving(clients.Played):
    """What clients have written, and where they have sent it."""

    def __init__(self, consumers: clients.Consumers) -> None:
        super().__init__(consumers)
        self._written: set[str] = set()

    def _migrate(self) -> None:
        known = self._all.of(volumes.Volumes)
        known.action('os-migrate_volume', {
            'host': self._chance.choice(sorted(self._all.deployed.storages)),
            'lock_volume': self._chance.random() < 0.3}, known.any())

    def broken(self, facts: observed.Facts) -> Iterator[str]:
        """What was written is there; what is new is written at once."""
        for volume in facts.volumes:
            kept = self._all.deployed.storages.get(volume.host or '')
            if kept is None or volume.deleted or volume.own_status in _UNSURE:
                continue
            if any(volume.id in one.lied for one in self._all.deployed.storages.values()):
                continue
            contents = kept.store.contents(f'volume-{volume.id}')
            if volume.id not in self._written:
                if volume.own_status == 'available':
                    self._written.add(volume.id)
                    contents[0] = volume.id.encode()
            elif contents.get(0) != volume.id.encode():
                yield (f'P4 volumes_are_whole: volume {volume.id} is on {volume.pool}, and its '
                       f'bytes are not')

    def unknown(self, facts: observed.Facts) -> Iterator[str]:
        """No volume moves in peace."""
        for volume in facts.volumes:
            if volume.own_status in ('migrating', 'migrating-locked', 'retyping'):
                yield f'P9 moving_ends: volume {volume.id} is {volume.own_status} in peace'

    OPERATIONS = {'migrate': (_migrate, 8)}


def _retype(client, volume_id):
    status, found = client.ask('POST', '/types', {'volume_type': {'name': f'of {volume_id}'}})
    if status == 200:
        client.act(volume_id, 'os-retype', {'new_type': found['volume_type']['id']})
        client.settled(volume_id)


_ELSEWHERE = 'one backend here: tests/functional/test_move_faults.py'

NOUN = operations.Noun(
    'moving',
    played=Moving,
    operations=(
        operations.Operation('retype', _retype, operations.volume),
    ),
    at_work=("SELECT COUNT(*) FROM volumes WHERE own_status IN "
             "('migrating', 'migrating-locked', 'retyping')",
             "SELECT COUNT(*) FROM work WHERE verb = 'cleanup'"),
    passed=('backend.store.disk.', 'db.moving.migrate.', 'db.moving.moved.', 'db.moving.claim.'),
    rare=('control.moving.before_retype', 'control.moving.after_retype'),
    unreached=dict.fromkeys((
        'backend.store.disk.*', 'control.moving.*_migrate', 'db.moving.migrate.*',
        'db.moving.claim.*', 'db.moving.unclaim.*', 'db.moving.moved.*', 'db.moving.refused.*',
        'volume.moving.*', 'work.volume.migrate.*', 'work.volume.retype.*'), _ELSEWHERE),
    seeds=((31, 300),),
)
