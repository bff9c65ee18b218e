"""Clones of volumes in the simulation.

A clone has the bytes of its source. The source exists until the clone is complete.
"""
from collections.abc import Iterator
from typing import Any

from blockattach.storage.domain.invariants import observed
from lab.simulation import clients
from lab.simulation import operations
from lab.simulation.nouns import volumes

_MOST = 3
# Probability that the request for a clone gives a size, which is larger in most cases.
_LARGER = 0.3


class Copies(clients.Played):
    """Sources of the volumes that clients have cloned."""

    def __init__(self, consumers: clients.Consumers) -> None:
        super().__init__(consumers)
        self._sources: dict[str, str] = {}

    @property
    def _volumes(self) -> volumes.Volumes:
        return self._all.of(volumes.Volumes)

    def rewritten(self, volume_id: str) -> None:
        """Forget the source of a volume that gets other contents."""
        self._sources.pop(volume_id, None)

    def volume_of(self, name: str, body: Any) -> str | None:
        """Return the source of a requested clone."""
        return (body.get('volume') or {}).get('source_volid')

    def _clone(self) -> None:
        if len(self._volumes.kinds) >= volumes.MOST + _MOST:
            return
        source = self._volumes.any()
        wanted: dict[str, Any] = {'source_volid': source}
        if self._chance.random() < _LARGER:
            wanted['size'] = self._chance.randrange(1, 5)
        answer = self._volumes.make(wanted, self._volumes.kinds.get(source, 'plain'))
        if answer.status == 202:
            made = answer.body['volume']
            if made['source_volid'] != source:
                self._all.judge.violated(f'P6 sources_are_shown: {made["id"]} was requested from '
                                         f'{source}, but shows {made["source_volid"]}')
            self._sources[made['id']] = source

    def unknown(self, facts: observed.Facts) -> Iterator[str]:
        """Yield the clones that do not have the bytes of their source."""
        there = {volume.id: volume for volume in facts.volumes if volume.own_status == 'available'}
        self._sources = {name: source for name, source in self._sources.items() if name in there}
        for address, kept in self._all.deployed.storages.items():
            origins = kept.store.origins()
            for name, source in self._sources.items():
                if there[name].host == address and name not in kept.lied and \
                        origins.get(f'volume-{name}') != f'volume-{source}':
                    yield f'P4 copies_are_whole: volume {name} lacks the bytes of {source}'

    OPERATIONS = {'clone': (_clone, 8)}


def _copy(client, source):
    volumes.made(client, {'source_volid': source})


def _copy_twice(client, source):
    """Clone a volume, and delete it meanwhile.

    A clone of the clone is requested too early, and is refused.
    """
    status, answer = client.ask('POST', '/volumes', {'volume': {'source_volid': source}})
    if status == 202:
        client.ask('POST', '/volumes', {'volume': {'source_volid': answer['volume']['id']}})
        client.ask('DELETE', f'/volumes/{source}')
        client.settled(answer['volume']['id'])
        client.ask('DELETE', f'/volumes/{source}')


NOUN = operations.Noun(
    'copies',
    played=Copies,
    operations=(
        operations.Operation('clone', _copy, operations.volume),
        operations.Operation('clones', _copy_twice, operations.volume),
        operations.Operation('refused clone', _copy, operations.volume, hindered=(
            (operations.MANAGER, 'backend.store.clone.before=refuse'),)),
        operations.Operation('half cloned', _copy, operations.volume, hindered=(
            (operations.MANAGER, 'backend.store.clone.after=raise*1'),)),
    ),
    passed=('backend.store.clone.',),
    unreached={
        'backend.store.clone_snapshot.*': 'tests/functional/test_copy_faults.py',
    },
    seeds=((21, 300),),
)
