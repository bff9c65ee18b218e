"""Part of the conformance kit on stores that free the space that users of a volume discard."""
import os
import stat
import subprocess

from blockattach.conformance import store_base
from blockattach.platform import disks
from blockattach.platform import errors
from blockattach.platform import units
from blockattach.storage.drivers import base

_MUCH = 16 * units.MIB


class DiscardContract(store_base.StoreBase):
    """Behaviours of a store that implements `base.Discard`."""

    provable = frozenset({'discard'})

    def discard(self, volume: base.StoredVolume, length: int) -> None:
        """Discard the first ``length`` bytes of a volume, as a user on this host would."""
        path = self.store.device(volume)
        if stat.S_ISBLK(os.stat(path).st_mode):
            subprocess.run(['blkdiscard', '--offset', '0', '--length', str(length), path],
                           check=True)
            return
        with open(path, 'r+b') as file:
            disks.punch(file.fileno(), 0, length)

    def test_discard_gives_the_room_back_and_leaves_zeros(self) -> None:
        store, volume = self._filled()
        before = store.allocated_bytes(volume)
        self.assertGreater(before, _MUCH // 2)
        self.discard(volume, _MUCH)
        self.assertLessEqual(store.allocated_bytes(volume), before - _MUCH // 2)
        self.assertEqual(bytes(4096), self._read(volume, 0))
        self.assertEqual(1, self.size_gb(volume))
        self.proves('discard')

    def test_discard_of_one_volume_leaves_the_bytes_of_another(self) -> None:
        _, volume = self._filled()
        _, other = self._filled()
        self.discard(volume, _MUCH)
        self.assertEqual(store_base.MARK, self._read(other, 0))

    def test_discard_of_nothing_is_not_measured(self) -> None:
        store = self._discarder()
        with self.assertRaises(errors.BackendRefused):
            store.allocated_bytes(self.volume())

    def _filled(self) -> tuple[base.Discard, base.StoredVolume]:
        store = self._discarder()
        self._need_bytes()
        volume = self._created()
        with open(self.store.device(volume), 'r+b') as device:
            device.write(store_base.MARK * (_MUCH // len(store_base.MARK)))
            device.flush()
            os.fsync(device.fileno())
        return store, volume

    def _discarder(self) -> base.Discard:
        self.needs('discard')
        assert isinstance(self.store, base.Discard)
        return self.store
