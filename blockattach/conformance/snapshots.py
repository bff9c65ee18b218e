"""Part of the conformance kit for stores: snapshots, clones of snapshots, and revert."""
from blockattach.conformance import store_base
from blockattach.platform import errors
from blockattach.platform import units
from blockattach.storage.drivers import base

_NOTHING = b'\0' * 4096


class SnapshotContract(store_base.StoreBase):
    """Behaviors of a store that implements `base.Snapshots`, `CloneSnapshot` or `Revert`."""

    provable = frozenset({'clone_snapshot', 'revert', 'snapshots'})

    def test_snapshot_has_the_bytes_of_its_moment(self) -> None:
        volume, snapshot = self._kept()
        if self.has_bytes:
            self._write(volume, 8192)
        cloned = self._from(snapshot)
        self.assertEqual(1, self.size_gb(cloned))
        if self.has_bytes:
            self.assertEqual(store_base.MARK, self._read(cloned, 0))
            self.assertEqual(_NOTHING, self._read(cloned, 8192))
        self.proves('snapshots')
        self.proves('clone_snapshot')

    def test_snapshot_of_a_volume_in_use_is_made(self) -> None:
        self._need_bytes()
        volume = self._created()
        with open(self.store.device(volume), 'r+b'):
            self._snapshots().create_snapshot(self.snapshot(volume))

    def test_snapshot_repeated_keeps_what_is_there(self) -> None:
        self._need_bytes()
        volume, snapshot = self._kept()
        self._write(volume, 8192)
        self._snapshots().create_snapshot(snapshot)
        self.assertEqual(_NOTHING, self._read(self._from(snapshot), 8192))

    def test_snapshot_is_no_volume_and_is_given_away(self) -> None:
        self._snapshots()
        volume = self._created()
        before = self._measured()
        self._snapshots().create_snapshot(self.snapshot(volume))
        count, given = self._measured()
        self.assertEqual(before[0], count)
        self.assertGreater(given, before[1])

    def test_snapshot_of_nothing_is_refused(self) -> None:
        store, missing = self._snapshots(), self.volume()
        before = self._measured()
        with self.assertRaises(errors.BackendRefused):
            store.create_snapshot(self.snapshot(missing))
        self.assertEqual(before, self._measured())

    def test_snapshot_deleted_is_gone_and_its_volume_is_not(self) -> None:
        volume, snapshot = self._kept()
        before = self._measured()
        for _ in range(2):
            self._snapshots().delete_snapshot(snapshot)
        self.assertLess(self._measured()[1], before[1])
        self._refuses_to_clone(snapshot, self.volume())
        self.assertEqual(1, self.size_gb(volume))
        if self.has_bytes:
            self.assertEqual(store_base.MARK, self._read(volume, 0))

    def test_snapshot_that_never_was_can_be_deleted(self) -> None:
        self._snapshots().delete_snapshot(self.snapshot(self._created()))

    def test_snapshot_deleted_leaves_another_of_the_same_volume(self) -> None:
        volume, early = self._kept()
        late = self.snapshot(volume)
        if self.has_bytes:
            self._write(volume, 8192)
        self._snapshots().create_snapshot(late)
        self._snapshots().delete_snapshot(early)
        cloned = self._from(late)
        if self.has_bytes:
            self.assertEqual(store_base.MARK, self._read(cloned, 8192))

    def test_snapshot_outlives_its_volume_or_holds_it(self) -> None:
        volume, snapshot = self._kept()
        # Either behavior is allowed. Some stores cannot delete a volume that has snapshots.
        try:
            self.store.delete(volume)
        except errors.BackendRefused:
            self.assertEqual(1, self.size_gb(volume))
        else:
            self._assert_absent(volume)
        cloned = self._from(snapshot)
        if self.has_bytes:
            self.assertEqual(store_base.MARK, self._read(cloned, 0))

    def test_volume_can_be_deleted_once_its_snapshots_are(self) -> None:
        volume, snapshot = self._kept()
        self._snapshots().delete_snapshot(snapshot)
        self.store.delete(volume)
        self._assert_absent(volume)

    def test_clone_of_a_snapshot_may_be_larger_and_ends_in_zeros(self) -> None:
        _, snapshot = self._kept()
        cloned = self._from(snapshot, 2)
        self.assertEqual(2, self.size_gb(cloned))
        if self.has_bytes:
            self.assertEqual(store_base.MARK, self._read(cloned, 0))
            self.assertEqual(_NOTHING, self._read(cloned, units.GIB))

    def test_clone_of_a_snapshot_repeated_keeps_what_is_there(self) -> None:
        _, snapshot = self._kept()
        cloned = self._from(snapshot)
        if self.has_bytes:
            self._write(cloned, 8192)
        self._cloner_of_snapshots().clone_snapshot(snapshot, cloned)
        self.assertEqual(1, self.size_gb(cloned))
        if self.has_bytes:
            self.assertEqual(store_base.MARK, self._read(cloned, 8192))

    def test_clone_and_snapshot_share_no_later_write(self) -> None:
        self._need_bytes()
        _, snapshot = self._kept()
        self._write(self._from(snapshot), 8192)
        self.assertEqual(_NOTHING, self._read(self._from(snapshot), 8192))

    def test_clone_outlives_its_snapshot(self) -> None:
        _, snapshot = self._kept()
        cloned = self._from(snapshot)
        self._snapshots().delete_snapshot(snapshot)
        self.assertEqual(1, self.size_gb(cloned))
        if self.has_bytes:
            self.assertEqual(store_base.MARK, self._read(cloned, 0))

    def test_clone_of_no_snapshot_is_refused(self) -> None:
        self._refuses_to_clone(self.snapshot(self._created()), self.volume())

    def test_clone_of_a_snapshot_of_an_extended_volume_has_its_first_bytes(self) -> None:
        large = self._created(2)
        if self.has_bytes:
            self._write(large, 0)
            self._write(large, units.GIB)
        snapshot = self.snapshot(large)
        self._snapshots().create_snapshot(snapshot)
        cloned = self._from(snapshot, 1)
        self.assertEqual(1, self.size_gb(cloned))
        if self.has_bytes:
            self.assertEqual(store_base.MARK, self._read(cloned, 0))

    def test_revert_gives_the_bytes_back_and_keeps_the_snapshot(self) -> None:
        store = self._reverter()
        volume, snapshot = self._kept()
        # The second revert proves that the first one kept the snapshot.
        for _ in range(2):
            if self.has_bytes:
                self._write(volume, 8192)
            store.revert(snapshot)
            self.assertEqual(1, self.size_gb(volume))
            if self.has_bytes:
                self.assertEqual(store_base.MARK, self._read(volume, 0))
                self.assertEqual(_NOTHING, self._read(volume, 8192))
        self._from(snapshot)
        self.proves('revert')

    def test_revert_repeated_is_a_success_and_leaves_nothing_else(self) -> None:
        store = self._reverter()
        _, snapshot = self._kept()
        before = self._measured()
        store.revert(snapshot)
        store.revert(snapshot)
        self.assertEqual(before, self._measured())

    def test_revert_leaves_the_other_snapshots_of_the_volume(self) -> None:
        store = self._reverter()
        self._need_bytes()
        volume, early = self._kept()
        self._write(volume, 8192)
        late = self.snapshot(volume)
        self._snapshots().create_snapshot(late)
        store.revert(early)
        self.assertEqual(_NOTHING, self._read(volume, 8192))
        store.revert(late)
        self.assertEqual(store_base.MARK, self._read(volume, 8192))

    def test_revert_keeps_the_size_of_an_extended_volume(self) -> None:
        store = self._reverter()
        volume, snapshot = self._kept()
        try:
            self.store.extend(volume, 2)
        except errors.BackendRefused:
            self.leaves_out('revert of an extended volume',
                            'the store cannot extend volumes with snapshots')
        if self.has_bytes:
            self._write(volume, units.GIB)
        store.revert(snapshot)
        self.assertEqual(2, self.size_gb(volume))
        if self.has_bytes:
            self.assertEqual(store_base.MARK, self._read(volume, 0))
            self.assertEqual(_NOTHING, self._read(volume, units.GIB))

    def test_revert_of_a_volume_in_use_is_refused(self) -> None:
        store = self._reverter()
        self._need_bytes()
        volume, snapshot = self._kept()
        self._write(volume, 8192)
        with open(self.store.device(volume), 'r+b'), self.assertRaises(errors.BackendRefused):
            store.revert(snapshot)
        self.assertEqual(store_base.MARK, self._read(volume, 8192))

    def test_revert_without_volume_or_snapshot_is_refused(self) -> None:
        store = self._reverter()
        volume, missing = self._created(), self.volume()
        for snapshot in (self.snapshot(volume), self.snapshot(missing)):
            with self.assertRaises(errors.BackendRefused):
                store.revert(snapshot)
        self._assert_absent(missing)

    def _kept(self) -> tuple[base.StoredVolume, base.StoredSnapshot]:
        """Return a volume that begins with `store_base.MARK`, and a snapshot of the volume.

        The behavior is skipped unless the store can also clone snapshots.
        """
        store = self._snapshots()
        self.needs('clone_snapshot')
        volume = self._created()
        if self.has_bytes:
            self._write(volume, 0)
        snapshot = self.snapshot(volume)
        store.create_snapshot(snapshot)
        return volume, snapshot

    def _from(self, snapshot: base.StoredSnapshot, size_gb: int = 1) -> base.StoredVolume:
        """Return a new volume cloned from a snapshot."""
        volume = self.volume(size_gb)
        self._cloner_of_snapshots().clone_snapshot(snapshot, volume)
        return volume

    def _refuses_to_clone(self, snapshot: base.StoredSnapshot, volume: base.StoredVolume) -> None:
        with self.assertRaises(errors.BackendRefused):
            self._cloner_of_snapshots().clone_snapshot(snapshot, volume)
        self._assert_absent(volume)

    def _snapshots(self) -> base.Snapshots:
        self.needs('snapshots')
        assert isinstance(self.store, base.Snapshots)
        return self.store

    def _cloner_of_snapshots(self) -> base.CloneSnapshot:
        self.needs('clone_snapshot')
        assert isinstance(self.store, base.CloneSnapshot)
        return self.store

    def _reverter(self) -> base.Revert:
        self.needs('revert')
        assert isinstance(self.store, base.Revert)
        return self.store
