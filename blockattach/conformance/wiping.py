"""Part of the conformance kit on stores that wipe deleted volumes in the background."""
from blockattach.conformance import store_base
from blockattach.platform import units
from blockattach.storage.drivers import base

_ROUNDS = 4096
"""Upper bound of the calls of `wipe`, about one second of work each, that wiping 1 GiB takes."""


class WipeContract(store_base.StoreBase):
    """Behaviours of a store that implements `base.Wipe`."""

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
