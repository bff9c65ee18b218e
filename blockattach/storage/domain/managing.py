"""Taking over what lies on a pool already: what is asked for, and whether it may be taken."""
import dataclasses
import re
from collections.abc import Iterable
from typing import NamedTuple

from blockattach.platform import units
from blockattach.storage.domain import records
from blockattach.storage.domain import snapshots

_OF_VOLUMES = re.compile(r'volume-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})')
_OF_SNAPSHOTS = re.compile(r'_?snapshot-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})')


class Managed(NamedTuple):
    """A volume that is being managed. ``size_gb`` None: nobody has looked yet."""

    volume: records.Volume
    reference: str
    size_gb: int | None


class ManagedSnapshot(NamedTuple):
    """A snapshot that is being managed, and its volume."""

    snapshot: snapshots.Snapshot
    volume: records.Volume
    reference: str


@dataclasses.dataclass(frozen=True, slots=True)
class Stored:
    """What lies on a backend, as its manager reports it.

    :ivar origin: what it is a snapshot of, where the store can say
    :ivar in_use: something on the host of the manager has it open
    """

    name: str
    size_bytes: int
    origin: str | None = None
    in_use: bool = False

    @property
    def size_gb(self) -> int:
        """What a volume of it has."""
        return whole_gb(self.size_bytes)


def whole_gb(size_bytes: int) -> int:
    """In so many whole GiB it fits; one at least."""
    return max(-(-size_bytes // units.GIB), 1)


def volume_id(name: str) -> str | None:
    """The id of the volume that this service would call so; None: of none."""
    return _id(_OF_VOLUMES, name)


def snapshot_id(name: str) -> str | None:
    """The id of the snapshot that this service would call so; None: of none."""
    return _id(_OF_SNAPSHOTS, name)


def ids(names: Iterable[str], noun: str) -> dict[str, str]:
    """By name, the ids of the volumes or snapshots that would be called so."""
    read = volume_id if noun == 'volume' else snapshot_id
    return {name: found for name in names if (found := read(name)) is not None}


def _id(pattern: re.Pattern[str], name: str) -> str | None:
    match = pattern.fullmatch(name)
    return None if match is None else match[1]
