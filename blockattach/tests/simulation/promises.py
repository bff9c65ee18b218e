"""What clients were answered, remembered apart from the service, and compared with its rows.

An attachment that a client was answered stays until a client deletes it, what was answered as
read-only stays so, a request that failed for good has changed nothing, and there is nothing that
no client asked for.
"""
import dataclasses
from collections import Counter
from collections.abc import Iterable
from collections.abc import Iterator

from blockattach.domain.invariants import observed

READ_ONLY = 'ro'
_WRITES = 'rw'
_REFUSED_TO_GO = 'error_detaching'

Held = dict[str, tuple[str, str | None, str | None]]
"""The live rows of a volume: state, initiator and mode of each."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Told:
    """An attachment that a client was answered.

    ``endings``: of its volume when it was asked for.
    """

    volume_id: str
    read_only: bool
    endings: int


class Promises:
    """What all clients together were answered."""

    def __init__(self) -> None:
        self._told: dict[str, _Told] = {}
        self._known: set[str] = set()
        """Attachments that a client was answered, or has used."""
        self._ended: set[str] = set()
        """Those that a client has deleted."""
        self._gone: set[str] = set()
        self._endings: Counter[str] = Counter()
        """How often something was asked for that may end any attachment of a volume."""
        self._ending: Counter[str] = Counter()
        """How many such requests are, or may be, under way."""
        self._forsaken: Counter[tuple[str, str]] = Counter()
        self._flagging: Counter[str] = Counter()
        self._flags: Counter[str] = Counter()
        """How often a volume was going to be made read-only, or not, and has been."""
        self._read_only: set[str] = set()
        self._forsaken_volumes = 0
        self._volumes: set[str] = set()

    def endings(self, volume_id: str) -> int:
        """To be noted before an attachment of the volume is asked for."""
        return self._endings[volume_id]

    def tell(self, attachment_id: str, volume_id: str, mode: str | None, endings: int) -> None:
        """A client was answered that there is an attachment, and how it may use the volume."""
        if attachment_id not in self._ended:
            self._told[attachment_id] = _Told(volume_id, mode == READ_ONLY, endings)
        self._known.add(attachment_id)

    def end(self, attachment_id: str) -> None:
        """A client is about to delete an attachment."""
        self._told.pop(attachment_id, None)
        self._known.add(attachment_id)
        self._ended.add(attachment_id)

    def use(self, attachment_id: str) -> None:
        """A client is about to use an attachment, its own or another's: it knows of it."""
        self._known.add(attachment_id)

    def gone(self, attachment_id: str) -> None:
        """A client was answered that an attachment is gone."""
        self._gone.add(attachment_id)

    def end_any(self, volume_id: str) -> None:
        """Somebody is about to ask for what may end any attachment of a volume."""
        self._endings[volume_id] += 1
        self._ending[volume_id] += 1

    def ended_any(self, volume_id: str) -> None:
        """The request for that was answered; without an answer it may be done later."""
        self._endings[volume_id] += 1
        self._ending[volume_id] -= 1

    def forsake(self, volume_id: str, server_id: str) -> None:
        """A client has asked for an attachment, and will never learn whether it is there.
        """
        self._forsaken[volume_id, server_id] += 1

    def flag(self, volume_id: str) -> int:
        """A client is about to make a volume read-only, or not; returns the number of the
        request."""
        self._flagging[volume_id] += 1
        self._read_only.discard(volume_id)
        return self._flagging[volume_id]

    def flagged(self, volume_id: str, number: int) -> None:
        """It was answered that it is read-only."""
        if self._flagging[volume_id] == number and self._flags[volume_id] == number - 1:
            self._read_only.add(volume_id)

    def ended_flag(self, volume_id: str) -> None:
        """It was answered."""
        self._flags[volume_id] += 1

    def writes(self, volume_id: str) -> bool:
        """Whether any host may be granted to write, as far as clients know."""
        return volume_id not in self._read_only

    def tell_volume(self, volume_id: str) -> None:
        """A client was answered that there is a volume."""
        self._volumes.add(volume_id)

    def forsake_volume(self) -> None:
        """As `forsake`."""
        self._forsaken_volumes += 1

    def is_read_only(self, attachment_id: str) -> bool:
        """Whether a client was answered so when it asked for it."""
        told = self._told.get(attachment_id)
        return told is not None and told.read_only

    def broken(self, facts: observed.Facts) -> Iterator[str]:
        """What is not as it was answered, at any moment."""
        live = {row.id: row for row in facts.attachments if not row.deleted}
        for name, told in list(self._told.items()):
            if told.endings != self._endings[told.volume_id] or self._ending[told.volume_id]:
                del self._told[name]
            elif name not in live:
                yield f'P4 told_it_stays: attachment {name} is gone, and nobody told it to go'
            elif told.read_only and live[name].mode == _WRITES:
                yield f'P5 read_only_stays: attachment {name} was told to be ro, and may write'
        for name in sorted(self._gone & live.keys()):
            yield f'P6 gone_is_gone: attachment {name} was told to be gone, and is there'
        for pool in facts.pools:
            if pool.limit_gb is not None and pool.allocated_gb > pool.limit_gb:
                yield (f'P6 room_is_claimed: pool {pool.name} has given away '
                       f'{pool.allocated_gb} GiB of {pool.limit_gb:.0f}')

    def unknown(self, facts: observed.Facts) -> Iterator[str]:
        """What no client was answered, nor has given up asking for; when no work is under way.
        What there is counts as answered from now on.
        """
        for row in facts.attachments:
            if row.deleted or row.legacy_reservation or row.id in self._known:
                continue
            asked = row.volume_id, row.instance_uuid or ''
            self._known.add(row.id)
            if row.state == _REFUSED_TO_GO:
                # One that the storage refuses to release says so, whichever client asked for it.
                continue
            if not self._forsaken[asked]:
                yield (f'P2 nobody_is_forgotten: nobody knows of attachment {row.id} of volume '
                       f'{row.volume_id}, which is {row.state}')
            self._forsaken[asked] -= 1
        new = {volume.id for volume in facts.volumes if not volume.deleted} - self._volumes
        if len(new) > self._forsaken_volumes:
            yield (f'P2 nobody_is_forgotten: nobody knows of {len(new)} volumes, and '
                   f'{self._forsaken_volumes} were given up')
        self._volumes |= new
        self._forsaken.clear()
        self._ending.clear()
        self._forsaken_volumes = 0


def moved(before: Held, after: Held) -> Iterable[str]:
    """What a request has changed that says that it has changed nothing."""
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield f'attachment {name} was {before.get(name)} and is {after.get(name)}'
