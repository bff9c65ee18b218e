"""Contract of the file store."""
import contextlib
import dataclasses
import errno
import os
from collections.abc import Iterator

from blockattach.conformance import store
from blockattach.conformance import store_base
from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.platform import units
from blockattach.storage.drivers import base
from blockattach.storage.drivers.stores import file
from blockattach.tests.conformance import settings

MEANINGS = {errno.ENOSPC: errors.BackendFull, errno.EDQUOT: errors.BackendFull,
            errno.EFBIG: errors.BackendFull, errno.EROFS: errors.BackendRefused,
            errno.EIO: errors.BackendUncertain, errno.ENXIO: errors.BackendUncertain}


class FileStoreTest(store.StoreContract):
    rounds_at_once = 100

    def make(self) -> file.FileStore:
        self.settings = settings.settings(settings.folder(self))
        return file.FileStore(self.settings)

    def remake(self) -> file.FileStore:
        return file.FileStore(self.settings)

    def stored_names(self) -> frozenset[str]:
        return frozenset(os.listdir(self.settings.volumes_dir))

    def make_unusable(self) -> file.FileStore:
        return file.FileStore(dataclasses.replace(self.settings, volumes_dir='/dev/null/volumes'))

    def too_large_gb(self, store: file.FileStore) -> int:
        total = store.pools()[0].capabilities['total_capacity_gb']
        return int(total * self.settings.max_over_subscription_ratio) + 1

    def test_interrupted_create_leaves_nothing_and_is_repeatable(self) -> None:
        volume = self.volume()

        with self._crash_at('drivers.file.before_link'):
            self.store.create(volume)
        self._assert_absent(volume)
        self.store.create(volume)
        self.assertEqual(1, self.size_gb(volume))

    def test_delete_removes_leftover_of_killed_process(self) -> None:
        volume = self.volume()
        leftover = os.path.join(self.settings.volumes_dir, f'.{volume.name}.0123.new')
        with open(leftover, 'wb'):
            pass
        self.store.create(volume)
        self.store.delete(volume)
        self.assertEqual([], os.listdir(self.settings.volumes_dir))

    def test_check_keeps_unfinished_file_of_running_process(self) -> None:
        source, volume = self._created(), self.volume()
        self._write(source, 0)
        seen = []

        def start_another() -> None:
            another = self.remake()
            failpoints.disarm('drivers.file.before_link')
            another.check()
            seen.extend(self.stored_names() - {source.name})
            another.clone(source, volume)

        failpoints.arm('drivers.file.before_link', start_another)
        self.addCleanup(failpoints.disarm, 'drivers.file.before_link')
        self.store.clone(source, volume)
        self.assertRegex(seen[0], rf'^\.{volume.name}\.\w+\.new$')
        self.assertEqual({source.name, volume.name}, self.stored_names())
        self.assertEqual(store_base.MARK, self._read(volume, 0))

    def test_check_keeps_hidden_files_of_others(self) -> None:
        others = {'.disk.new', f'.{self.volume().name}.new', '.volume-1.0123.new'}
        for name in others:
            self._foreign(name, 1)
        self.remake().check()
        self.assertEqual(others, self.stored_names())

    def test_clone_with_disk_error_leaves_nothing(self) -> None:
        source, volume = self._created(), self.volume()
        self._write(source, 0)
        for number, kind in MEANINGS.items():
            def fail(_length: int, number: int = number) -> None:
                raise OSError(number, os.strerror(number))

            with self.subTest(os.strerror(number)):
                try:
                    self.store.clone(source, volume, fail)
                except errors.BackendError as exc:
                    self.assertIs(kind, type(exc))
                else:
                    self.skipTest('the file system shares extents')
                self.assertEqual({source.name}, self.stored_names())

    def test_interrupted_delete_of_large_volume_leaves_no_name(self) -> None:
        volume = self._created(1)
        self._fill(volume, b'x' * 20 * units.MIB)

        with self._crash_at('drivers.file.before_free'):
            self.store.delete(volume)
        self._assert_absent(volume)
        self.store.delete(volume)
        self.assertEqual([], os.listdir(self.settings.volumes_dir))

    def test_large_volume_reverted_and_deleted(self) -> None:
        volume = self._created(1)
        self._fill(volume, b'x' * 20 * units.MIB)
        snapshot = self.snapshot(volume)
        self._snapshots().create_snapshot(snapshot)
        self._fill(volume, b'y' * 40 * units.MIB)
        self._reverter().revert(snapshot)
        with open(self.store.device(volume), 'rb') as read:
            self.assertEqual(b'x' * 20 * units.MIB + b'\0' * 20 * units.MIB,
                             read.read(40 * units.MIB))
        self._snapshots().delete_snapshot(snapshot)
        self.store.delete(volume)
        self.assertEqual([], os.listdir(self.settings.volumes_dir))

    def test_hard_link_keeps_data_over_revert_and_delete(self) -> None:
        kept = os.path.join(settings.folder(self), 'kept')
        for act in ('revert', 'delete'):
            volume = self._created(1)
            snapshot = self.snapshot(volume)
            self._snapshots().create_snapshot(snapshot)
            some = b'y' * 20 * units.MIB
            self._fill(volume, some)
            os.link(self.store.device(volume), kept)
            with self.subTest(act):
                if act == 'revert':
                    self._reverter().revert(snapshot)
                else:
                    self.store.delete(volume)
                with open(kept, 'rb') as read:
                    self.assertEqual(some, read.read(len(some)))
            os.unlink(kept)

    def test_created_volume_is_sparse(self) -> None:
        volume = self._created(2)
        self.assertLess(os.stat(self.store.device(volume)).st_blocks * 512, 1024 * 1024)

    def test_clone_of_sparse_volume_is_sparse(self) -> None:
        source, volume = self._created(2), self.volume(2)
        self._write(source, 8192)
        self.store.clone(source, volume)
        self.assertLess(os.stat(self.store.device(volume)).st_blocks * 512, 1024 * 1024)

    def test_path_in_volume_name_rejected(self) -> None:
        for name in ('../x', '.hidden', 'a/b'):
            with self.assertRaises(errors.BackendRefused):
                self.store.create(dataclasses.replace(self.volume(), name=name))

    def test_reserved_percentage_leaves_no_space(self) -> None:
        kept = file.FileStore(dataclasses.replace(self.settings, reserved_percentage=100))
        with self.assertRaises(errors.BackendFull):
            kept.create(self.volume())

    def test_managed_file_grows_to_whole_gib(self) -> None:
        volume = self.volume(2)
        self._foreign('disk.img', 1536 * units.MIB)
        self.store.manage('disk.img', volume)
        self.assertEqual([volume.name], os.listdir(self.settings.volumes_dir))
        self.assertEqual(2, self.size_gb(volume))
        self.assertEqual(0o600, os.stat(self.store.device(volume)).st_mode & 0o777)

    def test_interrupted_manage_completed_by_repeat(self) -> None:
        volume = self.volume()
        self._foreign('disk.img', units.GIB)

        with self._crash_at('drivers.file.between_names'):
            self.store.manage('disk.img', volume)
        self.store.manage('disk.img', volume)
        self.assertEqual([volume.name], os.listdir(self.settings.volumes_dir))

    def test_manage_of_non_regular_file_rejected(self) -> None:
        elsewhere = os.path.join(settings.folder(self), 'secret')
        with open(elsewhere, 'wb') as secret:
            secret.truncate(units.GIB)
        os.symlink(elsewhere, os.path.join(self.settings.volumes_dir, 'link'))
        os.mkdir(os.path.join(self.settings.volumes_dir, 'folder'))
        for name in ('link', 'folder', '../secret', elsewhere, '.hidden'):
            with self.subTest(name), self.assertRaises(errors.BackendRefused):
                self.store.manage(name, self.volume())
        self.assertEqual({'link', 'folder'}, set(os.listdir(self.settings.volumes_dir)))
        self.assertEqual((), self.store.manageable())

    @contextlib.contextmanager
    def _crash_at(self, place: str) -> Iterator[None]:
        """Run the context until a failpoint, where it ends as if killed."""
        def crash() -> None:
            raise KeyboardInterrupt

        failpoints.arm(place, crash)
        try:
            with self.assertRaises(KeyboardInterrupt):
                yield
        finally:
            failpoints.disarm(place)

    def _fill(self, volume: base.StoredVolume, some: bytes) -> None:
        with open(self.store.device(volume), 'r+b') as device:
            device.write(some)

    def _foreign(self, name: str, size: int) -> None:
        with open(os.path.join(self.settings.volumes_dir, name), 'wb') as file:
            file.truncate(size)
