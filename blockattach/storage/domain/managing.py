"""Records, names and sizes for manage requests, which take over existing storage of a backend."""
import dataclasses
import re
from collections.abc import Iterable
from typing import NamedTuple

from blockattach.platform import units
from blockattach.storage.domain import records
from blockattach.storage.domain import snapshots

# Names of the default templates of Cinder (volume_name_template, snapshot_name_template). LVM
# reserves names that begin with "snapshot", so the LVM driver puts an underscore before them.
_OF_VOLUMES = re.compile(r'volume-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})')
_OF_SNAPSHOTS = re.compile(r'_?snapshot-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})')


class Managed(NamedTuple):
    """Volume being managed.

    :ivar reference: name of the storage on the backend
    :ivar size_gb: size of the storage in GiB; None until the backend has measured the storage
    """

    volume: records.Volume
    reference: str
    size_gb: int | None


class ManagedSnapshot(NamedTuple):
    """Snapshot being managed, with its volume and the reference of the storage in the request."""

    snapshot: snapshots.Snapshot
    volume: records.Volume
    reference: str


@dataclasses.dataclass(frozen=True, slots=True)
class Stored:
    """Existing storage on a backend, as reported by the volume service of the backend.

    :ivar origin: name of the storage that a snapshot was created from; None if the storage is not
        a snapshot, or if the store does not report the origin
    :ivar in_use: True if a process on the host of the volume service has opened the storage
    """

    name: str
    size_bytes: int
    origin: str | None = None
    in_use: bool = False

    @property
    def size_gb(self) -> int:
        """Size in GiB of a volume that takes over the storage."""
        return whole_gb(self.size_bytes)


def whole_gb(size_bytes: int) -> int:
    """Return a size in bytes as a number of whole GiB, rounded up. The result is at least 1."""
    return max(-(-size_bytes // units.GIB), 1)


def volume_id(name: str) -> str | None:
    """Return the volume id in a storage name, or None if the name is not that of a volume."""
    return _id(_OF_VOLUMES, name)


def snapshot_id(name: str) -> str | None:
    """Return the snapshot id in a storage name, or None if the name is not that of a snapshot."""
    return _id(_OF_SNAPSHOTS, name)


def ids(names: Iterable[str], noun: str) -> dict[str, str]:
    """Return the volume ids or the snapshot ids in storage names, by storage name.

    Names that contain no such id are left out.

    :param noun: ``volume`` for volume ids; any other value for snapshot ids
    """
    read = volume_id if noun == 'volume' else snapshot_id
    return {name: found for name in names if (found := read(name)) is not None}


def _id(pattern: re.Pattern[str], name: str) -> str | None:
    match = pattern.fullmatch(name)
    return None if match is None else match[1]
