"""Parts of the conformance kit for stores: the capabilities disks, discard, wipe and manage."""
import os
import stat
import subprocess

from blockattach.conformance import store_base
from blockattach.platform import disks
from blockattach.platform import errors
from blockattach.platform import units
from blockattach.storage.drivers import base

_MUCH = 16 * units.MIB
_ROUNDS = 4096
"""Maximum number of calls of `wipe` that wipe 1 GiB. One call takes about one second."""


class DiskContract(store_base.StoreBase):
    """Behaviors of a store that implements `base.Disks`."""

    provable = frozenset({'disks'})

    def test_what_is_written_to_a_disk_is_read_from_it(self) -> None:
        store, volume = self._disks(), self._created()
        written = store.disk(volume, writes=True)
        written.write(0, store_base.MARK)
        written.sync()
        written.close()
        for _ in range(2):
            read = store.disk(volume, writes=False)
            found = dict(read.pieces())
            read.close()
            self.assertEqual(store_base.MARK, found[0][:len(store_base.MARK)])
        self.proves('disks')

    def test_what_is_discarded_reads_as_zeros(self) -> None:
        store, volume = self._disks(), self._created()
        disk = store.disk(volume, writes=True)
        disk.write(0, store_base.MARK)
        # A disk that does not support discarding returns False, which the contract allows.
        if disk.discard(0, disks.PIECE):
            disk.sync()
            self.assertTrue(all(map(disks.is_empty, dict(disk.pieces()).values())))
        disk.close()

    def test_a_disk_of_nothing_is_refused(self) -> None:
        with self.assertRaises(errors.BackendRefused):
            self._disks().disk(self.volume(), writes=False)

    def _disks(self) -> base.Disks:
        self.needs('disks')
        assert isinstance(self.store, base.Disks)
        return self.store


class DiscardContract(store_base.StoreBase):
    """Behaviors of a store that implements `base.Discard`."""

    provable = frozenset({'discard'})

    def discard(self, volume: base.StoredVolume, length: int) -> None:
        """Discard the first ``length`` bytes of a volume, on its device or in its file."""
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
            # A file system may allocate space only when the data leaves the page cache.
            os.fsync(device.fileno())
        return store, volume

    def _discarder(self) -> base.Discard:
        self.needs('discard')
        assert isinstance(self.store, base.Discard)
        return self.store


class WipeContract(store_base.StoreBase):
    """Behaviors of a store that implements `base.Wipe`."""

    provable = frozenset({'wipe'})

    def test_wipe_with_nothing_to_do_changes_nothing(self) -> None:
        store = self._wiper()
        volume = self._created()
        before = self._measured()
        store.wipe()
        self.assertEqual(before, self._measured())
        self.assertEqual(1, self.size_gb(volume))

    def test_wipe_gives_the_room_back_once_it_is_cleared(self) -> None:
        store = self._wiper()
        before = self._free()
        volume = self._created()
        if self.has_bytes:
            self._write(volume, 0)
        self.store.delete(volume)
        self.assertLess(self._free(), before)
        self._wipe_until(store, before)
        # The volume takes all whole GiB of the pool, and so includes the wiped space.
        size_gb = int(before - 0.01)
        again = self._created(size_gb)
        if self.has_bytes:
            for offset in range(0, size_gb * units.GIB, units.GIB):
                self.assertEqual(bytes(4096), self._read(again, offset))
        self.proves('wipe')

    def test_wipe_goes_on_in_a_store_started_anew(self) -> None:
        store = self._wiper()
        before = self._free()
        self.store.delete(self._created())
        store.wipe()
        again = self.remake()
        assert isinstance(again, base.Wipe)
        self._wipe_until(again, before)

    def test_wipe_leaves_a_volume_of_the_same_name_that_was_made_since(self) -> None:
        store = self._wiper()
        before = self._free()
        volume = self._created()
        self.store.delete(volume)
        self.store.create(volume)
        self.store.delete(volume)
        self.store.create(volume)
        # The existing volume still occupies 1 GiB.
        self._wipe_until(store, before - 1)
        self.assertEqual(1, self.size_gb(volume))

    def _wipe_until(self, store: base.Wipe, free: float) -> None:
        for _ in range(_ROUNDS):
            if self._free() >= free:
                return
            store.wipe()
        self.fail(f'the space is not free again after {_ROUNDS} rounds')

    def _free(self) -> float:
        return sum(pool.capabilities['free_capacity_gb'] for pool in self.store.pools())

    def _wiper(self) -> base.Wipe:
        self.needs('wipe')
        assert isinstance(self.store, base.Wipe)
        return self.store


class ManageContract(store_base.StoreBase):
    """Behaviors of a store that implements `base.Manage`."""

    provable = frozenset({'manage'})

    def test_what_is_managed_keeps_its_bytes_and_has_a_new_name(self) -> None:
        store, former = self._manager(), self._marked()
        volume = self.volume(1)
        # The second call finds the volume under its new name, as after a restart of the service.
        for _ in range(2):
            store.manage(former.name, volume)
        self._assert_absent(former)
        self.assertEqual(1, self.size_gb(volume))
        if self.has_bytes:
            self.assertEqual(store_base.MARK, self._read(volume, 0))
        self.proves('manage')

    def test_what_is_managed_grows_to_its_size(self) -> None:
        store, former = self._manager(), self._marked()
        volume = self.volume(2)
        store.manage(former.name, volume)
        self.assertEqual(2, self.size_gb(volume))
        if self.has_bytes:
            self.assertEqual(store_base.MARK, self._read(volume, 0))

    def test_what_is_not_there_or_larger_is_not_managed(self) -> None:
        store, former = self._manager(), self._created(2)
        for name in (former.name, self.volume().name):
            with self.subTest(name), self.assertRaises(errors.BackendRefused):
                store.manage(name, self.volume(1))
        self.assertEqual(2, self.size_gb(former))

    def test_what_is_in_use_is_not_managed(self) -> None:
        self._need_bytes()
        store, former = self._manager(), self._created()
        with open(self.store.device(former), 'r+b'):
            found = {one.name: one for one in store.manageable()}
            self.assertTrue(found[former.name].in_use)
            with self.assertRaises(errors.BackendRefused):
                store.manage(former.name, self.volume())
        self.assertEqual(1, self.size_gb(former))

    def test_all_that_lies_there_is_listed(self) -> None:
        store, volume = self._manager(), self._created(2)
        before = len(store.manageable())
        self.needs('snapshots')
        assert isinstance(self.store, base.Snapshots)
        self.store.create_snapshot(self.snapshot(volume))
        found = store.manageable()
        self.assertEqual(before + 1, len(found))
        [listed] = [one for one in found if one.name == volume.name]
        self.assertEqual(2 * units.GIB, listed.size_bytes)
        self.assertFalse(listed.is_snapshot)
        self.assertEqual(1, sum(one.is_snapshot for one in found))

    def test_a_snapshot_is_managed_as_one_of_its_volume(self) -> None:
        self.needs('clone_snapshot')
        store, volume = self._manager(), self._marked()
        other = self._created()
        assert isinstance(self.store, base.CloneSnapshot) and isinstance(
            self.store, base.Snapshots)
        self.store.create_snapshot(self.snapshot(volume))
        [name] = [one.name for one in store.manageable() if one.is_snapshot]
        [origin] = {one.origin for one in store.manageable() if one.is_snapshot}
        # A store that does not record the volume of a snapshot cannot refuse another volume.
        if origin is not None:
            with self.assertRaises(errors.BackendRefused):
                store.manage_snapshot(name, self.snapshot(other))
        snapshot = self.snapshot(volume)
        for _ in range(2):
            store.manage_snapshot(name, snapshot)
        cloned = self.volume()
        self.store.clone_snapshot(snapshot, cloned)
        if self.has_bytes:
            self.assertEqual(store_base.MARK, self._read(cloned, 0))

    def _marked(self) -> base.StoredVolume:
        volume = self._created()
        if self.has_bytes:
            self._write(volume, 0)
        return volume

    def _manager(self) -> base.Manage:
        self.needs('manage')
        assert isinstance(self.store, base.Manage)
        return self.store
