"""Transfers in the simulation.

A transfer exists until it is accepted or deleted, and is accepted once. Each acceptance is made by
another user, so that the rows show which one it was.
"""
import dataclasses
from collections import Counter
from collections.abc import Iterator
from typing import Any

from blockattach.storage.db import models
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.domain import volume_lifecycle
from blockattach.storage.domain.invariants import observed
from lab.simulation import clients
from lab.simulation import deployment
from lab.simulation import operations
from lab.simulation.nouns import attachments
from lab.simulation.nouns import volumes

_AWAITING = volume_lifecycle.OwnStatus.AWAITING_TRANSFER
_PATH = '/volume-transfers'


@dataclasses.dataclass(slots=True)
class _Offer:
    """Transfer that clients know.

    ``key`` is None if only the client that created the transfer has it. ``endings``: the count of
    the volume's endings when the transfer was requested. ``ends``: a request may have ended the
    transfer. ``ended``: an answer said that the transfer is gone. ``accepted``: the user whose
    acceptance was answered.
    """

    volume_id: str
    key: str | None
    endings: int
    ends: bool = False
    ended: bool = False
    accepted: str | None = None


class Transfers(clients.Played):
    """Transfers that clients know, and the possible owners of volumes."""

    def __init__(self, consumers: clients.Consumers) -> None:
        super().__init__(consumers)
        self._offers: dict[str, _Offer] = {}
        self._users = 0
        self._pending: dict[str, set[str]] = {}
        """Users whose acceptance of a volume has no answer yet, by volume."""
        self._asked: Counter[str] = Counter()
        """Number of requests to accept a volume."""
        self._owners: dict[str, set[str]] = {}
        """Possible owners of each volume."""

    @property
    def _volumes(self) -> volumes.Volumes:
        return self._all.of(volumes.Volumes)

    def volume_of(self, name: str, body: Any) -> str | None:
        """Return the volume of a known or requested transfer."""
        if name in self._offers:
            return self._offers[name].volume_id
        return (body.get('transfer') or {}).get('volume_id')

    def _offer(self) -> None:
        # Prefer volumes without attachments, because attached volumes are refused.
        used = set(self._all.of(attachments.Attachments).known.values())
        free = [volume_id for volume_id in self._volumes.kinds if volume_id not in used]
        volume_id = self._chance.choice(free) if free else self._volumes.any()
        endings = self._volumes.endings[volume_id]
        answer = self._all.ask('POST', _PATH, {'transfer': {'volume_id': volume_id}})
        if answer.status == 202:
            made = answer.body['transfer']
            self._offers[made['id']] = _Offer(volume_id, made['auth_key'], endings)

    def _find(self) -> None:
        """List the transfers, including those whose creation got no answer."""
        answer = self._all.ask('GET', _PATH)
        if answer.status == 200:
            for found in answer.body['transfers']:
                # A listed transfer may be gone by now, so that nothing is expected of it.
                self._offers.setdefault(found['id'], _Offer(found['volume_id'], None, -1))

    def _known(self, with_key: bool) -> str | None:
        known = [name for name, offer in self._offers.items() if offer.key or not with_key]
        return self._chance.choice(known) if known else None

    def _accept(self) -> None:
        name = self._known(with_key=True)
        if name is None:
            return
        offer, gone = self._offers[name], self._offers[name].ended
        self._users += 1
        user = f'{self._users:032x}'
        offer.ends = True
        pending = self._pending.setdefault(offer.volume_id, set())
        alone, begun = not pending, self._all.begun[offer.volume_id]
        pending.add(user)
        self._asked[offer.volume_id] += 1
        asked = self._asked[offer.volume_id]
        answer = self._all.ask(
            'POST', f'{_PATH}/{name}/accept', {'accept': {'auth_key': offer.key}},
            {'HTTP_X_AUTH_TOKEN': f'{user}:{clients.PROJECT}'})
        if answer.status == 202:
            if gone or offer.accepted is not None:
                self._all.judge.violated(f'P6 accepted_once: transfer {name} was gone, but was '
                                         f'accepted by {user}')
            offer.accepted = user
            owners = self._owners.setdefault(offer.volume_id, {clients.USER})
            if alone and asked == self._asked[offer.volume_id]:
                owners.clear()
            owners.add(user)
            if self._all.begun[offer.volume_id] == begun + 1:
                with self._all.judge.looking() as database:
                    yet = volume_queries.get_bare(database, offer.volume_id).user_id
                if yet != user:
                    self._all.judge.violated(f'P6 accepted_is_owned: transfer {name} was accepted '
                                             f'by {user}, but {yet} owns its volume')
        if 200 <= answer.status < 500:
            pending.discard(user)
            self._end(name, answer)

    def _withdraw(self) -> None:
        name = self._known(with_key=False)
        if name is not None:
            self._offers[name].ends = True
            self._end(name, self._all.ask('DELETE', f'{_PATH}/{name}'))

    def _end(self, name: str, answer: clients.Answer) -> None:
        if answer.status in (202, 404) and name in self._offers:
            self._offers[name].ended = True

    def _stored(self) -> dict[str, str]:
        """Return the volumes of all stored transfers.

        A transfer whose volume does not await it is void.
        """
        with self._all.judge.looking() as database, database.reader() as connection:
            return {row.id: row.volume_id for row in connection.execute(models.transfers.select())}

    def broken(self, facts: observed.Facts) -> Iterator[str]:
        """Yield the transfers that are gone without a request, or exist after their end."""
        awaiting = {volume.id for volume in facts.volumes if volume.own_status == _AWAITING}
        there = {name for name, volume_id in self._stored().items() if volume_id in awaiting}
        for name, offer in self._offers.items():
            if offer.ended:
                if name in there:
                    yield f'P6 gone_is_gone: transfer {name} was reported gone, but exists'
            elif (name not in there and not offer.ends
                    and offer.endings == self._volumes.endings[offer.volume_id]
                    and not self._volumes.ending[offer.volume_id]):
                yield f'P4 offer_stays: transfer {name} is gone, but no client ended it'

    def unknown(self, facts: observed.Facts) -> Iterator[str]:
        """Yield the volumes whose owner is not the last user that accepted them."""
        with self._all.judge.looking() as database:
            for volume in facts.volumes:
                owner = volume_queries.get_bare(database, volume.id).user_id
                owners = self._owners.get(volume.id, {
                    deployment.INTERNAL_USER
                    if volume.project_id == deployment.INTERNAL_PROJECT else clients.USER})
                if owner not in owners | self._pending.get(volume.id, set()):
                    yield (f'P6 accepted_is_owned: volume {volume.id} has the owner {owner}, but '
                           f'was accepted by {sorted(owners)}')
                self._owners[volume.id] = {owner}
        self._pending.clear()
        there = self._stored()
        self._offers = {name: offer for name, offer in self._offers.items() if name in there}

    OPERATIONS = {
        'offer': (_offer, 5),
        'accept': (_accept, 5),
        'withdraw': (_withdraw, 4),
        'find offers': (_find, 2),
    }


def _transfers(client, volume_id):
    """Create a transfer and delete it, then create another one and accept it."""
    for accepted in (False, True):
        status, answer = client.ask('POST', _PATH, {'transfer': {'volume_id': volume_id}})
        if status != 202:
            continue
        path = f'{_PATH}/{answer["transfer"]["id"]}'
        if accepted:
            key = answer['transfer']['auth_key']
            client.ask('POST', f'{path}/accept', {'accept': {'auth_key': key}})
        else:
            client.ask('DELETE', path)


def _clear(client):
    for offered in client.sure((200,), 'GET', _PATH)['transfers']:
        client.sure((202, 404), 'DELETE', f'{_PATH}/{offered["id"]}')


def _left(client):
    return [f'transfer {one["id"]}' for one in client.sure((200,), 'GET', _PATH)['transfers']]


NOUN = operations.Noun(
    'transfers',
    played=Transfers,
    operations=(operations.Operation('transfers', _transfers, operations.volume),),
    clear=_clear,
    left=_left,
    passed=('db.transfers.',),
    seeds=((7, 300), (8, 300)),
)
