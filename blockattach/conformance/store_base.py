"""What the parts of the kit for stores share: making volumes, and looking at them."""
import abc
import os
import uuid

from blockattach.conformance import report
from blockattach.platform import errors
from blockattach.platform import units
from blockattach.storage.drivers import base

MARK = b'\xa5' * 4096
"""What the tests write."""


class StoreBase(report.Reported, abc.ABC):
    """A fresh store for each test."""

    # A store without real bytes (a fake) cannot show what they read as.
    has_bytes = True
    _pool: str | None = None

    @abc.abstractmethod
    def make(self) -> base.VolumeStore:
        """A store with room for some volumes of a few GiB, and none in it."""

    def remake(self) -> base.VolumeStore:
        """This store as a restarted process opens it."""
        self.leaves_out('a restart', 'remake is not implemented')

    def make_unusable(self) -> base.VolumeStore | None:
        """A store that cannot be used, to see `check` say so; None if there is no such thing."""
        return None

    def too_large_gb(self, store: base.VolumeStore) -> int:
        """A size that the pool cannot give."""
        pool = store.pools()[0].capabilities
        ratio = float(pool['max_over_subscription_ratio'])
        return int(float(pool['total_capacity_gb']) * max(ratio, 1.0)) + 1

    @property
    def pool(self) -> str:
        """The first pool's name, which each fresh store has."""
        known = self._pool
        if known is None:
            known = type(self)._pool = self.store.pools()[0].name
        return known

    def size_gb(self, volume: base.StoredVolume) -> float:
        """How large the volume really is."""
        with open(self.store.device(volume), 'rb') as device:
            return device.seek(0, os.SEEK_END) / units.GIB

    def volume(self, size_gb: int = 1) -> base.StoredVolume:
        """A volume that is not there yet."""
        volume_id = str(uuid.uuid4())
        return base.StoredVolume(volume_id, f'volume-{volume_id}', size_gb, self.pool)

    def snapshot(self, volume: base.StoredVolume) -> base.StoredSnapshot:
        """A snapshot that is not there yet."""
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
