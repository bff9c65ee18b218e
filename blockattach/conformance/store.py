"""Conformance kit for stores.

A driver is tested by a subclass of `StoreContract` whose `make` returns a fresh store::

    class LvmTest(store.StoreContract):

        def make(self):
            return lvm.load(settings)
"""
from concurrent import futures

from blockattach.conformance import capabilities
from blockattach.conformance import killing
from blockattach.conformance import snapshots
from blockattach.conformance import store_base
from blockattach.platform import errors
from blockattach.platform import units
from blockattach.storage.drivers import base

_AT_ONCE = 4
_NUMBER = (int, float)
_POOL_KEYS: dict[str, type | tuple[type, ...]] = {
    'pool_name': str, 'total_capacity_gb': _NUMBER, 'free_capacity_gb': _NUMBER,
    'provisioned_capacity_gb': _NUMBER, 'reserved_percentage': int,
    'max_over_subscription_ratio': str, 'thin_provisioning_support': bool,
    'thick_provisioning_support': bool, 'total_volumes': int, 'QoS_support': bool,
    'location_info': str,
}


class StoreContract(snapshots.SnapshotContract, capabilities.WipeContract,
                    capabilities.DiscardContract, capabilities.ManageContract,
                    capabilities.DiskContract, killing.KillContract):
    """Behaviors of `base.VolumeStore`, and of the optional capabilities of a store."""

    provable = frozenset({'clone'})
    rounds_at_once = 5
    """Number of volumes that each of the concurrent threads creates and deletes in sequence."""

    def test_every_declared_capability_can_be_proved_by_this_kit(self) -> None:
        self.assertLessEqual(self.report.declared, self.report.provable)

    def test_check_may_be_repeated(self) -> None:
        self.store.check()
        self.store.check()

    def test_check_says_what_the_operator_must_change(self) -> None:
        unusable = self.make_unusable()
        if unusable is None:
            self.leaves_out('check of an unusable store', 'make_unusable returns None')
        with self.assertRaises(errors.ConfigurationError) as caught:
            unusable.check()
        self.assertTrue(str(caught.exception))

    def test_a_created_volume_has_its_size(self) -> None:
        volume = self.volume(2)
        self.store.create(volume)
        self.assertEqual(2, self.size_gb(volume))

    def test_a_created_volume_reads_as_zeros(self) -> None:
        volume = self._created()
        self._need_bytes()
        self.assertEqual(bytes(4096), self._read(volume, 0))
        self.assertEqual(bytes(4096), self._read(volume, units.GIB - 4096))

    def test_a_repeated_create_keeps_what_is_there(self) -> None:
        volume = self._created()
        if self.has_bytes:
            self._write(volume, 8192)
        self.store.create(volume)
        self.assertEqual(1, self.size_gb(volume))
        if self.has_bytes:
            self.assertEqual(store_base.MARK, self._read(volume, 8192))

    def test_a_volume_too_large_is_refused_and_leaves_nothing(self) -> None:
        before = self._measured()
        volume = self.volume(self.too_large_gb(self.store))
        with self.assertRaises(errors.BackendFull):
            self.store.create(volume)
        self._assert_absent(volume)
        self.assertEqual(before, self._measured())

    def test_a_deleted_volume_is_gone(self) -> None:
        volume = self._created()
        before = self._measured()
        self.store.delete(volume)
        self._assert_absent(volume)
        self._assert_changed(before, -1, -1)

    def test_a_repeated_delete_is_a_success(self) -> None:
        volume = self._created()
        self.store.delete(volume)
        self.store.delete(volume)

    def test_deleting_what_never_was_is_a_success(self) -> None:
        self.store.delete(self.volume())

    def test_deleting_one_volume_leaves_the_other(self) -> None:
        kept, gone = self._created(), self._created()
        self.store.delete(gone)
        self.assertEqual(1, self.size_gb(kept))

    def test_an_extended_volume_has_its_new_size(self) -> None:
        volume = self._created()
        self.store.extend(volume, 3)
        self.assertEqual(3, self.size_gb(volume))

    def test_an_extended_volume_keeps_its_bytes_and_grows_by_zeros(self) -> None:
        volume = self._created()
        self._need_bytes()
        self._write(volume, units.GIB - 4096)
        self.store.extend(volume, 2)
        self.assertEqual(store_base.MARK, self._read(volume, units.GIB - 4096))
        self.assertEqual(bytes(4096), self._read(volume, units.GIB))

    def test_a_repeated_extend_is_a_success(self) -> None:
        volume = self._created()
        self.store.extend(volume, 2)
        self.store.extend(volume, 2)
        self.assertEqual(2, self.size_gb(volume))

    def test_a_volume_never_shrinks(self) -> None:
        volume = self.volume(2)
        self.store.create(volume)
        with self.assertRaises(errors.BackendRefused):
            self.store.extend(volume, 1)
        self.assertEqual(2, self.size_gb(volume))

    def test_extending_what_is_not_there_is_refused(self) -> None:
        with self.assertRaises(errors.BackendRefused):
            self.store.extend(self.volume(), 2)

    def test_extending_beyond_the_pool_is_refused_and_keeps_the_size(self) -> None:
        volume = self._created()
        with self.assertRaises(errors.BackendFull):
            self.store.extend(volume, self.too_large_gb(self.store) + 1)
        self.assertEqual(1, self.size_gb(volume))

    def test_there_is_no_device_of_what_is_not_there(self) -> None:
        self._assert_absent(self.volume())

    def test_the_device_of_a_volume_stays_the_same(self) -> None:
        volume = self._created()
        before = self.store.device(volume)
        self.store.extend(volume, 2)
        self.assertEqual(before, self.store.device(volume))

    def test_pools_report_what_choosing_one_needs(self) -> None:
        for pool in self.store.pools():
            for key, kind in _POOL_KEYS.items():
                self.assertIsInstance(pool.capabilities.get(key), kind, key)
            self.assertEqual(pool.name, pool.capabilities['pool_name'])

    def test_a_pool_gives_away_more_than_it_has_if_it_says_that_it_is_thin_else_not(self) -> None:
        [pool, *_] = self.store.pools()
        beyond = self.volume(int(pool.capabilities['total_capacity_gb']) + 1)
        self.assertNotEqual(pool.capabilities['thin_provisioning_support'],
                            pool.capabilities['thick_provisioning_support'])
        if pool.capabilities['thin_provisioning_support']:
            self.store.create(beyond)
            self.assertGreaterEqual(self.size_gb(beyond), beyond.size_gb)
        else:
            with self.assertRaises(errors.BackendFull):
                self.store.create(beyond)

    def test_a_pool_says_nothing_of_quality_of_service_that_nobody_can_prove(self) -> None:
        # No capability limits the throughput of a volume, and drivers get no QoS specs.
        for pool in self.store.pools():
            self.assertFalse(pool.capabilities['QoS_support'])

    def test_pools_count_what_was_given_away(self) -> None:
        before = self._measured()
        self._created(2)
        self._assert_changed(before, 1, 2)

    def test_volumes_come_and_go_beside_others_and_beside_reports(self) -> None:
        # Deleted volumes that await their wipe keep their space, so more rounds would fill a pool.
        rounds = 1 if 'wipe' in self.report.declared else self.rounds_at_once

        def come_and_go(_number: int) -> None:
            for _ in range(rounds):
                volume = self._created()
                self.assertGreaterEqual(self._measured()[0], 1)
                self.store.delete(volume)
        with futures.ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(come_and_go, range(_AT_ONCE)))
        self.assertEqual(0, self._measured()[0])

    def test_clone_has_the_bytes_of_its_source_and_zeros_beyond(self) -> None:
        cloner = self._cloner()
        source, volume = self._created(), self.volume(2)
        if self.has_bytes:
            self._write(source, 0)
            self._write(source, 64 * units.MIB)
        cloner.clone(source, volume)
        self.assertEqual(2, self.size_gb(volume))
        if self.has_bytes:
            self.assertEqual(store_base.MARK, self._read(volume, 0))
            self.assertEqual(store_base.MARK, self._read(volume, 64 * units.MIB))
            self.assertEqual(bytes(4096), self._read(volume, 4096))
            self.assertEqual(bytes(4096), self._read(volume, units.GIB))
        self.proves('clone')

    def test_clone_and_source_share_no_later_write(self) -> None:
        cloner = self._cloner()
        self._need_bytes()
        source, volume = self._created(), self.volume()
        cloner.clone(source, volume)
        self._write(source, 0)
        self._write(volume, 8192)
        self.assertEqual(bytes(4096), self._read(volume, 0))
        self.assertEqual(bytes(4096), self._read(source, 8192))

    def test_clone_repeated_keeps_what_is_there(self) -> None:
        cloner = self._cloner()
        source, volume = self._created(), self.volume()
        cloner.clone(source, volume)
        if self.has_bytes:
            self._write(volume, 0)
        cloner.clone(source, volume)
        if self.has_bytes:
            self.assertEqual(store_base.MARK, self._read(volume, 0))
        self.assertEqual(1, self.size_gb(volume))

    def test_clone_that_is_ended_leaves_no_volume_and_may_be_repeated(self) -> None:
        cloner = self._cloner()
        source, volume = self._created(), self.volume()
        if self.has_bytes:
            for offset in (0, 64 * units.MIB):
                self._write(source, offset)
        before = self._measured()
        copied: list[int] = []

        def end(length: int) -> None:
            copied.append(length)
            raise errors.BackendUncertain(reason='the test aborted the copy')

        # A clone that copies no data does not call `end`, and succeeds.
        try:
            cloner.clone(source, volume, end)
        except errors.BackendUncertain:
            self._assert_absent(volume)
            # A store that resumes a copy may keep the unfinished copy, which takes space.
            if not self.goes_on:
                self.assertEqual(before, self._measured())
        self.assertLessEqual(len(copied), 1)
        if self.has_bytes:
            self.assertEqual(store_base.MARK, self._read(source, 0))
        cloner.clone(source, volume, copied.append)
        if self.has_bytes:
            self.assertEqual(store_base.MARK, self._read(volume, 64 * units.MIB))
        # A store that clones without copying data reports no progress.
        self.assertTrue(all(0 < length <= units.GIB for length in copied))

    def test_clone_of_nothing_is_refused(self) -> None:
        cloner, volume = self._cloner(), self.volume()
        with self.assertRaises(errors.BackendRefused):
            cloner.clone(self.volume(), volume)
        self._assert_absent(volume)

    def test_clone_of_a_source_extended_meanwhile_has_its_first_bytes(self) -> None:
        cloner = self._cloner()
        source, volume = self._created(), self.volume()
        # A source can be extended after the service has accepted the clone.
        self.store.extend(source, 2)
        if self.has_bytes:
            for offset in (0, units.GIB - 4096, units.GIB):
                self._write(source, offset)
        cloner.clone(source, volume)
        self.assertEqual(1, self.size_gb(volume))
        if self.has_bytes:
            self.assertEqual(store_base.MARK, self._read(volume, 0))
            self.assertEqual(store_base.MARK, self._read(volume, units.GIB - 4096))

    def _assert_changed(self, before: tuple[int, float], count: int, size_gb: int) -> None:
        after = self._measured()
        self.assertEqual(before[0] + count, after[0])
        self.assertAlmostEqual(before[1] + size_gb, after[1], places=2)

    def _cloner(self) -> base.Clone:
        self.needs('clone')
        assert isinstance(self.store, base.Clone)
        return self.store
