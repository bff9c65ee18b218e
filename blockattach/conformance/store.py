"""The kit for stores: subclass, give a fresh store from `make`, run.

    class LvmTest(store.StoreContract):
        def make(self):
            return lvm.LvmStore(settings)
"""
import abc
import os
import uuid

from blockattach import errors
from blockattach import units
from blockattach.conformance import report
from blockattach.drivers import base
from blockattach.drivers import capabilities

_NUMBER = (int, float)
_POOL_KEYS: dict[str, type | tuple[type, ...]] = {
    'pool_name': str, 'total_capacity_gb': _NUMBER, 'free_capacity_gb': _NUMBER,
    'provisioned_capacity_gb': _NUMBER, 'reserved_percentage': int,
    'max_over_subscription_ratio': str, 'thin_provisioning_support': bool,
    'thick_provisioning_support': bool, 'total_volumes': int, 'QoS_support': bool,
    'location_info': str,
}
_MARK = b'\xa5' * 4096


class StoreContract(report.Reported, abc.ABC):
    """What `base.VolumeStore` promises, sentence by sentence."""

    known_capabilities = frozenset({'clone'})
    # A store without real bytes (a fake) cannot show what they read as.
    has_bytes = True

    @abc.abstractmethod
    def make(self) -> base.VolumeStore:
        """A store with room for some volumes of a few GiB, and none in it."""

    def make_unusable(self) -> base.VolumeStore | None:
        """A store that cannot be used, to see `check` say so; None if there is no such thing."""
        return None

    def too_large_gb(self, store: base.VolumeStore) -> int:
        """A size that the pool cannot give."""
        pool = store.pools()[0].capabilities
        ratio = float(pool['max_over_subscription_ratio'])
        return int(float(pool['total_capacity_gb']) * max(ratio, 1.0)) + 1

    def size_gb(self, volume: base.StoredVolume) -> float:
        """How large the volume really is."""
        with open(self.store.device(volume), 'rb') as device:
            return device.seek(0, os.SEEK_END) / units.GIB

    def volume(self, size_gb: int = 1) -> base.StoredVolume:
        """A volume that is not there yet."""
        volume_id = str(uuid.uuid4())
        return base.StoredVolume(volume_id, f'volume-{volume_id}', size_gb, self.pool)

    def setUp(self) -> None:
        super().setUp()
        self.store = self.make()
        self.store.check()
        self.pool = self.store.pools()[0].name
        self.report.declared = capabilities.declared(self.store)

    def test_every_declared_capability_can_be_proved_by_this_kit(self) -> None:
        self.assertLessEqual(self.report.declared, self.known_capabilities)

    def test_check_may_be_repeated(self) -> None:
        self.store.check()
        self.store.check()

    def test_check_says_what_the_operator_must_change(self) -> None:
        unusable = self.make_unusable()
        if unusable is None:
            self.leaves_out('check of an unusable store', 'make_unusable gives none')
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
            self.assertEqual(_MARK, self._read(volume, 8192))

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
        after = self._measured()
        self.assertEqual((before[0] - 1, before[1] - 1), after)

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
        self.assertEqual(_MARK, self._read(volume, units.GIB - 4096))
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

    def test_pools_count_what_was_given_away(self) -> None:
        before = self._measured()
        self._created(2)
        after = self._measured()
        self.assertEqual((before[0] + 1, before[1] + 2), after)

    def test_clone_has_the_bytes_of_its_source_and_zeros_beyond(self) -> None:
        cloner = self._cloner()
        source, volume = self._created(), self.volume(2)
        if self.has_bytes:
            self._write(source, 0)
            self._write(source, 64 * units.MIB)
        cloner.clone(source, volume)
        self.assertEqual(2, self.size_gb(volume))
        if self.has_bytes:
            self.assertEqual(_MARK, self._read(volume, 0))
            self.assertEqual(_MARK, self._read(volume, 64 * units.MIB))
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
            self.assertEqual(_MARK, self._read(volume, 0))
        self.assertEqual(1, self.size_gb(volume))

    def test_clone_of_nothing_or_into_something_smaller_is_refused(self) -> None:
        cloner = self._cloner()
        missing, large, volume = self.volume(), self._created(2), self.volume(1)
        for source in (missing, large):
            with self.assertRaises(errors.BackendRefused):
                cloner.clone(source, volume)
            self._assert_absent(volume)

    def _cloner(self) -> capabilities.Clone:
        self.needs('clone')
        assert isinstance(self.store, capabilities.Clone)
        return self.store

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
            self.leaves_out('what the bytes read as', 'this store keeps none')

    def _write(self, volume: base.StoredVolume, offset: int) -> None:
        with open(self.store.device(volume), 'r+b') as device:
            device.seek(offset)
            device.write(_MARK)

    def _read(self, volume: base.StoredVolume, offset: int) -> bytes:
        with open(self.store.device(volume), 'rb') as device:
            device.seek(offset)
            return device.read(4096)
