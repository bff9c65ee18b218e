"""Base class of the conformance kit for stores, with methods that create and read volumes."""
import abc
import os
import uuid

from blockattach.conformance import report
from blockattach.platform import errors
from blockattach.platform import units
from blockattach.storage.drivers import base

MARK = b'\xa5' * 4096
"""Data that the tests write to volumes."""


class StoreBase(report.Reported, abc.ABC):
    """Base class of store tests. Each test has a fresh store.

    :cvar has_bytes: False for a store in memory, whose volumes have no devices to read or write
    """

    has_bytes = True
    _pool: str | None = None

    @abc.abstractmethod
    def make(self) -> base.VolumeStore:
        """Return an empty store with space for some volumes of a few GiB."""

    def remake(self) -> base.VolumeStore:
        """Return another driver for the store of the test, as after a restart of the process."""
        self.leaves_out('a restart', 'remake is not implemented')

    def make_unusable(self) -> base.VolumeStore | None:
        """Return a store whose `check` fails, or None if stores of this kind are always usable."""
        return None

    def too_large_gb(self, store: base.VolumeStore) -> int:
        """Return a volume size, in GiB, that exceeds the capacity of the pool."""
        pool = store.pools()[0].capabilities
        ratio = float(pool['max_over_subscription_ratio'])
        return int(float(pool['total_capacity_gb']) * max(ratio, 1.0)) + 1

    @property
    def pool(self) -> str:
        """Name of the first pool, which is the same in each fresh store."""
        name = self._pool
        if name is None:
            name = type(self)._pool = self.store.pools()[0].name
        return name

    def size_gb(self, volume: base.StoredVolume) -> float:
        """Return the size of the device of a volume in GiB."""
        with open(self.store.device(volume), 'rb') as device:
            return device.seek(0, os.SEEK_END) / units.GIB

    def volume(self, size_gb: int = 1) -> base.StoredVolume:
        """Return the description of a volume that does not exist yet."""
        volume_id = str(uuid.uuid4())
        return base.StoredVolume(volume_id, f'volume-{volume_id}', size_gb, self.pool)

    def snapshot(self, volume: base.StoredVolume) -> base.StoredSnapshot:
        """Return the description of a snapshot that does not exist yet."""
        snapshot_id = str(uuid.uuid4())
        return base.StoredSnapshot(snapshot_id, f'snapshot-{snapshot_id}', volume)

    def setUp(self) -> None:
        super().setUp()
        self.store = self.make()
        self.store.check()
        self.declares(self.store)

    def _created(self, size_gb: int = 1) -> base.StoredVolume:
        volume = self.volume(size_gb)
        self.store.create(volume)
        return volume

    def _measured(self) -> tuple[int, float]:
        found = [pool.capabilities for pool in self.store.pools()]
        return (sum(pool['total_volumes'] for pool in found),
                sum(pool['provisioned_capacity_gb'] for pool in found))

    def _assert_absent(self, volume: base.StoredVolume) -> None:
        with self.assertRaises(errors.BackendRefused):
            self.store.device(volume)

    def _need_bytes(self) -> None:
        if not self.has_bytes:
            self.leaves_out('the content of volumes', 'the store keeps no data')

    def _write(self, volume: base.StoredVolume, offset: int) -> None:
        with open(self.store.device(volume), 'r+b') as device:
            device.seek(offset)
            device.write(MARK)

    def _read(self, volume: base.StoredVolume, offset: int) -> bytes:
        with open(self.store.device(volume), 'rb') as device:
            device.seek(offset)
            return device.read(4096)
