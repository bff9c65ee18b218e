"""Extension of volumes in the simulation.

An accepted extension is done, or a message tells the user why it failed. A volume never has a size
that no client requested.
"""
from collections.abc import Iterator

from blockattach.storage.db import models
from blockattach.storage.domain import messages
from blockattach.storage.domain import volume_lifecycle
from blockattach.storage.domain.invariants import observed
from lab.simulation import clients
from lab.simulation import operations
from lab.simulation.nouns import attachments
from lab.simulation.nouns import volumes

_Own = volume_lifecycle.OwnStatus
_REFUSALS = (messages.EXTEND_NO_POOL.event_id, messages.EXTEND_FAILED.event_id)
# GiB added by requests that exceed the capacity of every pool.
_HUGE = 1000


class Extending(clients.Played):
    """Sizes of volumes that clients have requested and seen."""

    def __init__(self, consumers: clients.Consumers) -> None:
        super().__init__(consumers)
        self._sizes: dict[str, int] = {}
        """Last seen size of each volume."""
        self._asked: dict[str, set[int]] = {}
        """All sizes that were requested for each volume."""
        self._accepted: dict[str, int] = {}
        """Last accepted size of each volume since the last peace."""
        self._lied: set[str] = set()

    def _extend(self) -> None:
        volumes_known = self._all.of(volumes.Volumes)
        used = sorted({*self._all.of(attachments.Attachments).known.values()}
                      & volumes_known.kinds.keys())
        volume_id = self._chance.choice(used) if used and self._chance.random() < 0.5 \
            else volumes_known.any()
        size = self._sizes.get(volume_id, 1) + self._chance.choice((1, 1, 2, _HUGE))
        asked = self._asked.setdefault(volume_id, set())
        asked.add(size)
        answer = volumes_known.action('os-extend', {'new_size': size}, volume_id)
        if answer.status == 202:
            self._accepted[volume_id] = size

    def broken(self, facts: observed.Facts) -> Iterator[str]:
        """Yield the volumes whose new size no client requested."""
        for volume in facts.volumes:
            before = self._sizes.setdefault(volume.id, volume.size_gb)
            if volume.size_gb == before:
                continue
            if not before:
                # The size of a managed volume is 0 until the backend has reported it.
                self._sizes[volume.id] = volume.size_gb
                continue
            if volume.size_gb < before or volume.size_gb not in self._asked.get(volume.id, ()):
                yield (f'P6 sizes_are_asked_for: volume {volume.id} had {before} GiB and now has '
                       f'{volume.size_gb}')
            self._sizes[volume.id] = volume.size_gb

    def unknown(self, facts: observed.Facts) -> Iterator[str]:
        """Yield the extensions that are neither done nor refused with a message."""
        with self._all.judge.looking() as database, database.reader() as connection:
            refused = {row.resource_id for row in connection.execute(models.messages.select())
                       if row.event_id in _REFUSALS}
        for address, kept in self._all.deployed.storages.items():
            self._lied |= kept.lied
            stored = kept.store.sizes()
            for volume in facts.volumes:
                if volume.deleted or volume.id in self._lied or volume.host != address:
                    continue
                size = stored.get(f'volume-{volume.id}', volume.size_gb)
                if size != volume.size_gb:
                    yield (f'P6 sizes_agree: volume {volume.id} has {volume.size_gb} GiB, but '
                           f'{size} on its store')
        for volume in facts.volumes:
            if volume.own_status == _Own.EXTENDING:
                yield f'P9 extending_ends: volume {volume.id} is still being extended in peace'
            accepted = self._accepted.get(volume.id, 0)
            if volume.size_gb < accepted and volume.id not in refused | self._lied \
                    and volume.own_status not in (_Own.DELETING, _Own.ERROR_DELETING):
                yield (f'P2 what_is_accepted_is_done: volume {volume.id} has {volume.size_gb} GiB '
                       f'instead of {accepted}, and no message explains that')
        self._accepted.clear()

    OPERATIONS = {'extend': (_extend, 8)}


def _extend(client, volume_id):
    _ask(client, volume_id, 2)


def _ask(client, volume_id, new_size):
    client.act(volume_id, 'os-extend', {'new_size': new_size})
    client.settled(volume_id)


def _in_use(client):
    volume_id = client.volume()
    client.attached(volume_id)
    return volume_id


_MANAGER = operations.MANAGER

NOUN = operations.Noun(
    'extending',
    played=Extending,
    operations=(
        operations.Operation('extend', _extend, operations.volume, core=True),
        operations.Operation('extend in use', _extend, _in_use, core=True),
        operations.Operation('refused extend', _extend, operations.volume, hindered=(
            (_MANAGER, 'backend.store.extend.before=refuse'),)),
        operations.Operation('extend without room',
                             lambda client, volume_id: _ask(client, volume_id, 10 ** 6),
                             operations.volume),
    ),
    at_work=("SELECT COUNT(*) FROM volumes WHERE own_status = 'extending'",
             "SELECT COUNT(*) FROM work WHERE verb = 'notify'"),
    passed=('db.extending.', 'db.volume.extend.', 'backend.store.extend.',
            'backend.target.resize.'),
    # These are passed if a backend refuses, or if a server uses the extended volume.
    rare=('db.volume.extend.failed.', 'volume.notices.'),
    unreached={
        'work.volume.notify.*': 'only after the death of a manager: '
                                'tests/functional/test_extend_faults.py',
    },
    seeds=((12, 400),),
)
