"""Store in memory for tests and trials, which can be made to fail, to wait or to lose its data."""
import threading
from collections.abc import Iterator

from blockattach.platform import disks
from blockattach.platform import errors
from blockattach.platform import units
from blockattach.storage.conf import backend
from blockattach.storage.drivers import base
from blockattach.storage.drivers import faults

_SNAPSHOT = 'snapshot-'
# Offset, near the end of the first GiB, of the piece in which a clone records the name of its
# source.
_ORIGIN = units.GIB - disks.PIECE


class FakeStore(base.VolumeStore):
    """Store that keeps the sizes and the written pieces of volumes in dictionaries.

    Also implements `base.Snapshots`, `Clone`, `CloneSnapshot`, `Revert`, `Manage` and `Disks`.

    :ivar faults: planned faults of the store
    :ivar total_gb: capacity of the pool in GiB, which may be changed at any time
    """

    def __init__(self, settings: backend.BackendSettings) -> None:
        self.faults = faults.Faults()
        self.total_gb = 1000
        self._settings = settings
        self.lock = threading.RLock()
        # GiB of volumes and snapshots by name.
        self._sizes: dict[str, int] = {}
        self._contents: dict[str, dict[int, bytes]] = {}

    def lose_everything(self) -> None:
        """Forget all volumes and snapshots, as after the replacement of a disk."""
        with self.lock:
            self._sizes.clear()

    def contents(self, name: str) -> dict[int, bytes]:
        """Return the written pieces of a volume by offset.

        The caller may change the dictionary, which is the content of the volume.
        """
        with self.lock:
            return self._contents.setdefault(name, {})

    def sizes(self) -> dict[str, int]:
        """Return the sizes of all volumes and snapshots in GiB, by name."""
        with self.lock:
            return dict(self._sizes)

    def origins(self) -> dict[str, str]:
        """Return the source of each clone, by the name of the clone.

        The source is the name of a volume or a snapshot.
        """
        with self.lock:
            return {name: self._contents[name][_ORIGIN].decode() for name in self._sizes
                    if _ORIGIN in self._contents.get(name, ())}

    @faults.faulty
    def check(self) -> None:
        return None

    @faults.faulty
    def create(self, volume: base.StoredVolume) -> None:
        if volume.name not in self._sizes:
            self._make_room(volume.size_gb)
            self._sizes[volume.name] = volume.size_gb
            self._contents.pop(volume.name, None)

    @faults.faulty
    def clone(self, source: base.StoredVolume, volume: base.StoredVolume,
              copied: base.Copied = base.unlimited) -> None:
        self._clone(source.name, volume, copied)

    @faults.faulty
    def clone_snapshot(self, snapshot: base.StoredSnapshot, volume: base.StoredVolume,
                       copied: base.Copied = base.unlimited) -> None:
        self._clone(snapshot.name, volume, copied)

    @faults.faulty
    def create_snapshot(self, snapshot: base.StoredSnapshot,
                        copied: base.Copied = base.unlimited) -> None:
        size = self._existing(snapshot.volume.name)
        if snapshot.name not in self._sizes:
            self._make_room(size)
            copied(units.gib_to_bytes(size))
            self._sizes[snapshot.name] = size

    @faults.faulty
    def delete_snapshot(self, snapshot: base.StoredSnapshot) -> None:
        self._sizes.pop(snapshot.name, None)

    @faults.faulty
    def revert(self, snapshot: base.StoredSnapshot,
               copied: base.Copied = base.unlimited) -> None:
        """Check that the volume and its snapshot exist, and change no data, see `base.Revert`."""
        self._existing(snapshot.volume.name)
        copied(units.gib_to_bytes(self._existing(snapshot.name)))

    @faults.faulty
    def manageable(self) -> tuple[base.Manageable, ...]:
        return tuple(base.Manageable(name, size * units.GIB, name.startswith(_SNAPSHOT))
                     for name, size in sorted(self._sizes.items()))

    @faults.faulty
    def manage(self, name: str, volume: base.StoredVolume) -> None:
        if volume.name not in self._sizes or name in self._sizes:
            size = self._existing(name)
            if size > volume.size_gb or name.startswith(_SNAPSHOT):
                raise errors.BackendRefused(
                    reason=f'{name} is larger than {volume.size_gb} GiB or is not a volume')
            self._make_room(volume.size_gb - size)
            del self._sizes[name]
            self._sizes[volume.name] = volume.size_gb
            self._contents[volume.name] = self._contents.pop(name, {})

    @faults.faulty
    def manage_snapshot(self, name: str, snapshot: base.StoredSnapshot) -> None:
        if snapshot.name not in self._sizes or name in self._sizes:
            size = self._existing(name)
            if size > self._existing(snapshot.volume.name) or not name.startswith(_SNAPSHOT):
                raise errors.BackendRefused(
                    reason=f'{name} is not a snapshot of {snapshot.volume.name}')
            self._sizes[snapshot.name] = self._sizes.pop(name)

    @faults.faulty
    def delete(self, volume: base.StoredVolume) -> None:
        self._sizes.pop(volume.name, None)
        self._contents.pop(volume.name, None)

    @faults.faulty
    def extend(self, volume: base.StoredVolume, size_gb: int) -> None:
        present = self._sizes.get(volume.name)
        if present is None or present > size_gb:
            raise errors.BackendRefused(
                reason=f'{volume.name} does not exist or is larger than {size_gb} GiB')
        self._make_room(size_gb - present)
        self._sizes[volume.name] = size_gb

    @faults.faulty
    def device(self, volume: base.StoredVolume) -> str:
        self._existing(volume.name)
        return f'/dev/fake/{self._settings.pool_name}/{volume.name}'

    @faults.faulty
    def disk(self, volume: base.StoredVolume, writes: bool) -> disks.Disk:
        self._existing(volume.name)
        return _Disk(self.contents(volume.name))

    @faults.faulty
    def pools(self) -> tuple[base.PoolReport, ...]:
        used = sum(self._sizes.values())
        count = sum(not name.startswith(_SNAPSHOT) for name in self._sizes)
        return base.only_pool(
            self._settings, float(self.total_gb), float(self.total_gb - used), float(used), count,
            f'FakeStore:{self._settings.name}')

    def _clone(self, source: str, volume: base.StoredVolume, copied: base.Copied) -> None:
        if volume.name in self._sizes:
            return
        size = min(volume.size_gb, self._existing(source))
        self._make_room(volume.size_gb)
        copied(units.gib_to_bytes(size))
        self._sizes[volume.name] = volume.size_gb
        end = units.gib_to_bytes(size)
        self._contents[volume.name] = {
            **{offset: piece for offset, piece in self.contents(source).items() if offset < end},
            _ORIGIN: source.encode()}

    def _existing(self, name: str) -> int:
        if name not in self._sizes:
            raise errors.BackendRefused(reason=f'{name} does not exist')
        return self._sizes[name]

    def _make_room(self, size_gb: int) -> None:
        base.check_room(self._settings, 'the fake pool', self.total_gb,
                        sum(self._sizes.values()), size_gb)


class _Disk:
    """Access to the written pieces of a volume in memory, see `disks.Disk`."""

    def __init__(self, contents: dict[int, bytes]) -> None:
        self._contents = contents

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        yield from sorted(self._contents.items())

    def write(self, offset: int, piece: bytes) -> None:
        self._contents[offset] = piece

    def discard(self, offset: int, length: int) -> bool:
        """Delete the pieces that begin in a range."""
        for start in [start for start in self._contents if offset <= start < offset + length]:
            del self._contents[start]
        return True

    def sync(self) -> None:
        """Do nothing, because pieces are never cached."""

    def close(self) -> None:
        """Do nothing, because nothing was opened."""
