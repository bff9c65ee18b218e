"""Managing of existing storage: names, sizes and the records of manage requests."""
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
    """Volume being managed. ``size_gb`` is None until the backend has measured the storage."""

    volume: records.Volume
    reference: str
    size_gb: int | None


class ManagedSnapshot(NamedTuple):
    """Snapshot being managed, with its volume."""

    snapshot: snapshots.Snapshot
    volume: records.Volume
    reference: str


@dataclasses.dataclass(frozen=True, slots=True)
class Stored:
    """Existing storage on a backend, as reported by its manager.

    :ivar origin: name of the storage of which it is a snapshot; None if it is none or the store
        cannot say
    :ivar in_use: True if the storage is open on the host of the manager
    """

    name: str
    size_bytes: int
    origin: str | None = None
    in_use: bool = False

    @property
    def size_gb(self) -> int:
        """Size in GiB of a volume made from the storage."""
        return whole_gb(self.size_bytes)


def whole_gb(size_bytes: int) -> int:
    """Return a size in bytes as whole GiB, rounded up, at least 1."""
    return max(-(-size_bytes // units.GIB), 1)


def volume_id(name: str) -> str | None:
    """Return the id of the volume that this service would give the name, or None if there is none.
    """
    return _id(_OF_VOLUMES, name)


def snapshot_id(name: str) -> str | None:
    """Return the id of the snapshot that this service would give the name, or None if none."""
    return _id(_OF_SNAPSHOTS, name)


def ids(names: Iterable[str], noun: str) -> dict[str, str]:
    """Return the ids of the volumes or snapshots that this service would give the names, by name.

    :param noun: ``volume``; anything else means snapshots
    """
    read = volume_id if noun == 'volume' else snapshot_id
    return {name: found for name in names if (found := read(name)) is not None}


def _id(pattern: re.Pattern[str], name: str) -> str | None:
    match = pattern.fullmatch(name)
    return None if match is None else match[1]
