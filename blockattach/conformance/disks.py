"""Part of the conformance kit on stores that read and write the data of volumes themselves."""
from blockattach.conformance import store_base
from blockattach.platform import disks
from blockattach.platform import errors
from blockattach.storage.drivers import base


class DiskContract(store_base.StoreBase):
    """Behaviours of a store that implements `base.Disks`."""

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
