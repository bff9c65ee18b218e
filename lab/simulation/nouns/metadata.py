"""Metadata of volumes in the simulation.

An item that a client has added stays, even if other clients add or remove items at the same time.
"""
from collections import Counter
from typing import Any

from blockattach.storage import errors
from blockattach.storage.db.volumes import volume_queries
from lab.simulation import clients
from lab.simulation import operations
from lab.simulation.nouns import volumes

_KEYS = ('one', 'two', 'three')


class Metadata(clients.Played):
    """Items of metadata that clients have set.

    Only one client at a time changes a key of a volume: `_busy` counts the requests per item.
    `_lost` contains the items whose value is unknown, because a request got no answer.
    """

    def __init__(self, consumers: clients.Consumers) -> None:
        super().__init__(consumers)
        self._known: dict[tuple[str, str], str | None] = {}
        self._busy: Counter[tuple[str, str]] = Counter()
        self._lost: set[tuple[str, str]] = set()
        self._values = 0

    def _change(self, method: str, path: str, body: Any, volume_id: str, key: str,
                value: str | None) -> None:
        item = volume_id, key
        if self._busy[item]:
            return
        self._busy[item] += 1
        answer = self._all.ask(method, f'/volumes/{volume_id}/metadata{path}', body)
        self._busy[item] -= 1
        if answer.status in (200, 404):
            # For a removal, status 404 says that the item or the volume does not exist.
            self._known[item] = value
        elif answer.status != 400:
            self._lost.add(item)
        if answer.status == 200:
            self._look(volume_id)

    def _look(self, volume_id: str) -> None:
        """Check the known items of a volume, except those that a client is changing."""
        with self._all.judge.looking() as database:
            try:
                there = volume_queries.get(database, volume_id).metadata
            except errors.VolumeNotFound:
                return
        for (of, key), value in self._known.items():
            item = of, key
            if of == volume_id and not self._busy[item] and item not in self._lost \
                    and there.get(key) != value:
                self._all.judge.violated(
                    f'P6 metadata_stays: volume {volume_id} has {key}={there.get(key)}, but '
                    f'the answer to clients was {value}')

    def _item(self) -> tuple[str, str, str]:
        self._values += 1
        return (self._all.of(volumes.Volumes).any(), self._chance.choice(_KEYS),
                str(self._values))

    def _add(self) -> None:
        volume_id, key, value = self._item()
        self._change('POST', '', {'metadata': {key: value}}, volume_id, key, value)

    def _set(self) -> None:
        volume_id, key, value = self._item()
        self._change('PUT', f'/{key}', {'meta': {key: value}}, volume_id, key, value)

    def _remove(self) -> None:
        volume_id, key, _ = self._item()
        self._change('DELETE', f'/{key}', None, volume_id, key, None)

    def _rename(self) -> None:
        volume_id, _, value = self._item()
        answer = self._all.ask('PUT', f'/volumes/{volume_id}', {'volume': {'name': value}})
        if answer.status == 200 and answer.body['volume']['name'] != value:
            self._all.judge.violated(f'P6 renamed: volume {volume_id} was renamed to {value}, but '
                                     f'is {answer.body["volume"]["name"]}')

    OPERATIONS = {
        'add metadata': (_add, 5),
        'set metadata': (_set, 3),
        'remove metadata': (_remove, 3),
        'rename': (_rename, 2),
    }


def _settings(client, volume_id):
    path = f'/volumes/{volume_id}'
    client.ask('PUT', path, {'volume': {'name': 'x', 'metadata': {'a': 'b'}}})
    client.ask('POST', f'{path}/metadata', {'metadata': {'c': 'd'}})
    client.act(volume_id, 'os-set_image_metadata', {'metadata': {'a': 'b'}})
    client.act(volume_id, 'os-set_bootable', {'bootable': True})


NOUN = operations.Noun(
    'metadata',
    played=Metadata,
    operations=(operations.Operation('metadata', _settings, operations.volume),),
    passed=('db.volumes.change_metadata.', 'db.volumes.update.'),
    seeds=((11, 300),),
)
