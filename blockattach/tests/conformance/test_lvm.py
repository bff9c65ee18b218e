"""Contract of the lvm store on a stand-in for LVM; the lab uses a real one."""
from blockattach.conformance import store
from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.platform import units
from blockattach.tests.conformance import lvm_backend
from blockattach.tests.conformance import lvm_stand_in
from blockattach.tests.fixtures import exhaustive

THIN = lvm_stand_in.new_volume('thin', units.GIB, pool=lvm_backend.POOL)
LINEAR = lvm_stand_in.new_volume('linear', units.GIB)


class Lvm(store.StoreContract):
    """Store contract on a new machine for each test. Subclasses choose the type of volumes."""

    lvm_type = ''
    goes_on = True
    kill_points = 1

    def stored_names(self):
        # Deleted volumes that wait to be wiped do not count.
        return frozenset(name for name in self.machine.volumes()
                         if not (self.lvm_type == 'thick' and name.startswith('deleted-')))

    def make(self):
        self.machine = lvm_backend.Machine(self)
        return self.machine.store(self.lvm_type)

    def remake(self):
        return self.machine.store(self.lvm_type)

    def make_unusable(self):
        return self.machine.store(self.lvm_type, volume_group='another')

    def crash_at(self, point: str) -> None:
        """Kill each operation that reaches a failpoint, until `go_on`."""
        def crash() -> None:
            raise KeyboardInterrupt
        failpoints.arm(point, crash)
        self.addCleanup(failpoints.disarm, point)

    def test_manage_foreign_logical_volume(self) -> None:
        volume = self.volume(2)
        self.machine.add('disk', {**self.foreign})
        self.store.manage('disk', volume)
        self.assertNotIn('disk', self.machine.volumes())
        self.assertEqual(2, self.size_gb(volume))
        self.store.delete(volume)

    def test_manage_of_unfinished_or_other_kind_rejected(self) -> None:
        gone = f'deleted-{self.volume().id}-0123abcd'
        self.machine.add(gone, {**self.foreign})
        self.machine.add('other', {**self.of_another_kind})
        for name in (gone, 'other', 'none', '-x'):
            with self.subTest(name), self.assertRaises(errors.BackendRefused):
                self.store.manage(name, self.volume())
        self.assertEqual((), self.store.manageable())


class ThinStoreTest(Lvm):
    lvm_type = 'thin'
    foreign, of_another_kind = THIN, LINEAR

    def test_manage_of_thin_pool_rejected(self) -> None:
        with self.assertRaises(errors.BackendRefused):
            self.store.manage(lvm_backend.POOL, self.volume(8))
        self.assertEqual((), self.store.manageable())

    def test_interrupted_revert_completed_by_repeat(self) -> None:
        volume, snapshot = self._kept()
        self._write(volume, 8192)
        before = self._measured()
        self.crash_at('drivers.lvm.between_names')
        with self.assertRaises(KeyboardInterrupt):
            self.store.revert(snapshot)
        self._assert_absent(volume)
        failpoints.disarm('drivers.lvm.between_names')
        self.store.revert(snapshot)
        self.assertEqual(bytes(4096), self._read(volume, 8192))
        self.assertEqual(before, self._measured())

    def test_delete_removes_leftover_of_interrupted_revert(self) -> None:
        volume, snapshot = self._kept()
        self.crash_at('drivers.lvm.between_names')
        with self.assertRaises(KeyboardInterrupt):
            self.store.revert(snapshot)
        self.store.delete(volume)
        self.store.delete_snapshot(snapshot)
        self.assertEqual({lvm_backend.POOL}, set(self.machine.volumes()))


    def test_leftover_of_interrupted_attempt_replaced(self) -> None:
        volume, snapshot = self._kept()
        larger = self.volume(2)
        for made in (volume, larger):
            self.machine.add(f'_unfinished-{made.id}', lvm_stand_in.new_volume(
                'thin', units.GIB, pool=lvm_backend.POOL, tags=[lvm_backend.TAG]))
        self.store.revert(snapshot)
        self.store.clone(volume, larger)
        self.assertEqual(2, self.size_gb(larger))
        self.assertEqual(4, len(self.machine.volumes()))


@exhaustive.only
class ThickStoreTest(Lvm):
    foreign, of_another_kind = LINEAR, THIN
    lvm_type = 'thick'

    def make(self):
        made = super().make()
        with self.machine.state() as state:
            del state['groups'][lvm_backend.GROUP]['lvs'][lvm_backend.POOL]
        return made

    def test_interrupted_clone_completed_by_repeat(self) -> None:
        source, volume = self._created(), self.volume()
        self._write(source, 8192)
        self.crash_at('drivers.lvm.between_copy_and_name')
        with self.assertRaises(KeyboardInterrupt):
            self.store.clone(source, volume)
        self._assert_absent(volume)
        failpoints.disarm('drivers.lvm.between_copy_and_name')
        self.store.clone(source, volume)
        self.assertEqual(self._read(source, 8192), self._read(volume, 8192))
        self.store.delete(source)
        self.assertEqual(1, self.size_gb(volume))

    def test_delete_removes_leftover_of_interrupted_clone(self) -> None:
        source, volume = self._created(), self.volume()
        self.crash_at('drivers.lvm.between_copy_and_name')
        with self.assertRaises(KeyboardInterrupt):
            self.store.clone(source, volume)
        self.store.delete(volume)
        self.assertEqual([source.name], [name for name in self.machine.volumes()
                                         if not name.startswith('deleted-')])


del Lvm
