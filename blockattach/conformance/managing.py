"""Part of the conformance kit on stores that manage existing volumes of their pool."""
from blockattach.conformance import store_base
from blockattach.platform import errors
from blockattach.platform import units
from blockattach.storage.drivers import base


class ManageContract(store_base.StoreBase):
    """Behaviours of a store that implements `base.Manage`."""

    provable = frozenset({'manage'})

    def test_what_is_managed_keeps_its_bytes_and_has_a_new_name(self) -> None:
        store, former = self._manager(), self._marked()
        volume = self.volume(1)
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
