"""Store of volumes as sparse raw files in one directory.

The store needs neither special kernel features nor privileges.

A volume gets its name only when it is complete. It is created as a hidden file, linked to its name
and flushed, so that neither a crash nor a concurrent creator leaves an incomplete volume under
that name. The process that creates the hidden file keeps it locked (flock). The kernel releases
the lock when the process ends, so a hidden file that can be locked was left by a killed process.
"""
import contextlib
import errno
import fcntl
import os
import re
import signal
import socket
import stat
import tempfile
from collections.abc import Iterator

from oslo_log import log as oslo_log

from blockattach.platform import disks
from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.platform import log
from blockattach.platform import units
from blockattach.storage.conf import backend
from blockattach.storage.drivers import base
from blockattach.storage.drivers import devices

LOG = oslo_log.getLogger(__name__)

_NO_HOLES = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})
_NO_REFLINK = frozenset({errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS})
# Errors that do not prove that a hidden file is abandoned: a running process has the file locked,
# the file is gone, or the file system has no locks.
_NOT_PROVED = frozenset({errno.EWOULDBLOCK, errno.ENOENT, errno.ENOLCK, errno.EOPNOTSUPP,
                         errno.ENOSYS, errno.EINVAL})
# ioctl of linux/fs.h: share the extents of another file.
_FICLONE = 0x40049409
_UNFINISHED = '.new'
_HIDDEN = re.compile(r'\.(?P<name>(volume|snapshot)-[0-9a-f-]{36})\.\w+\.new')
"""Pattern of the names of unfinished and deleted files. Other hidden files are never deleted."""
_FREED = 16 * units.MIB
"""Number of bytes that are freed at once. While a file system frees a large file in one step, and
discards its blocks on the disk, other processes that flush data to the file system must wait."""
_SNAPSHOT = 'snapshot-'


class FileStore(base.VolumeStore):
    """Store with one pool, which is a directory.

    Also implements `base.Snapshots`, `Clone`, `CloneSnapshot`, `Revert`, `Discard` and `Manage`.
    A snapshot is a separate file in the directory. It may share extents with its volume but is
    otherwise independent of it.
    """

    def __init__(self, settings: backend.BackendSettings) -> None:
        self._settings = settings
        self._folder = os.path.abspath(settings.volumes_dir)

    def check(self) -> None:
        if ',' in self._folder:
            raise errors.ConfigurationError(
                reason=f'volumes_dir of backend {self._settings.name} contains a comma: '
                       f'{self._folder}; set a path that targets can export files from')
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            # The deletion comes first, because it may free the space that the next step needs.
            self._remove_abandoned()
            tempfile.TemporaryFile(dir=self._folder).close()
        except OSError as exc:
            if exc.errno in disks.NO_ROOM and os.path.isdir(self._folder):
                # No volume can be created now, but the existing volumes can still be served.
                LOG.warning('Cannot create volumes on backend%s', log.fields(
                    path=self._folder, reason=exc.strerror))
                return
            raise errors.ConfigurationError(
                reason=f'cannot use volumes_dir of backend {self._settings.name}: '
                       f'{self._folder}: {exc.strerror}') from exc

    def create(self, volume: base.StoredVolume) -> None:
        if os.path.exists(self._path(volume.name)):
            return
        self._make_room(volume.size_gb)
        with disks.translated(volume.size_gb), self._unfinished(volume.name) as file:
            os.ftruncate(file, units.gib_to_bytes(volume.size_gb))

    def clone(self, source: base.StoredVolume, volume: base.StoredVolume,
              copied: base.Copied = base.unlimited) -> None:
        """Clone a volume, see `base.Clone`.

        The clone shares extents with its source if the file system supports that. Otherwise the
        data is copied.
        """
        self._make_copy(source.name, volume.name, copied, units.gib_to_bytes(volume.size_gb))

    def create_snapshot(self, snapshot: base.StoredSnapshot,
                        copied: base.Copied = base.unlimited) -> None:
        self._make_copy(snapshot.volume.name, snapshot.name, copied)

    def delete_snapshot(self, snapshot: base.StoredSnapshot) -> None:
        self._delete(snapshot.name)

    def clone_snapshot(self, snapshot: base.StoredSnapshot, volume: base.StoredVolume,
                       copied: base.Copied = base.unlimited) -> None:
        self._make_copy(snapshot.name, volume.name, copied, units.gib_to_bytes(volume.size_gb))

    def revert(self, snapshot: base.StoredSnapshot,
               copied: base.Copied = base.unlimited) -> None:
        """Revert a volume by replacing its file in one step, see `base.Revert`."""
        volume = snapshot.volume
        with self._opened(snapshot.name) as original, self._opened(volume.name) as file:
            size = max(os.fstat(file).st_size, os.fstat(original).st_size)
            self._make_room(volume.size_gb)
            with disks.translated(size / units.GIB), \
                    self._unfinished(volume.name, replace=file) as copy:
                _copy(original, copy, copied, size)

    def manageable(self) -> tuple[base.Manageable, ...]:
        """Return the volumes and snapshots of the directory, see `base.Manage`.

        A file is also reported as in use if the file system grants no lease on the file.
        """
        with disks.translated():
            return tuple(
                base.Manageable(name, size, name.startswith(_SNAPSHOT), in_use=self._is_used(name))
                for name, size in sorted(self._sizes().items()))

    def manage(self, name: str, volume: base.StoredVolume) -> None:
        if name.startswith(_SNAPSHOT):
            raise errors.BackendRefused(reason=f'{name} is not a volume')
        self._take_over(name, volume.name, units.gib_to_bytes(volume.size_gb))

    def manage_snapshot(self, name: str, snapshot: base.StoredSnapshot) -> None:
        """Take over a raw file of the directory as a snapshot, see `base.Manage`.

        A raw file does not record its origin. The method therefore only checks that the file is
        not larger than the volume.
        """
        with self._opened(snapshot.volume.name) as file:
            size = os.fstat(file).st_size
        self._take_over(name, snapshot.name, size, grows=False)

    def delete(self, volume: base.StoredVolume) -> None:
        self._delete(volume.name)

    def extend(self, volume: base.StoredVolume, size_gb: int) -> None:
        with self._opened(volume.name) as file:
            wanted = units.gib_to_bytes(size_gb)
            present = os.fstat(file).st_size
            if present > wanted:
                raise errors.BackendRefused(
                    reason=f'{volume.name} is already larger than {size_gb} GiB')
            if present < wanted:
                self._make_room((wanted - present) / units.GIB)
                with disks.translated(size_gb):
                    os.ftruncate(file, wanted)
                    os.fsync(file)

    def device(self, volume: base.StoredVolume) -> str:
        path = self._path(volume.name)
        if not os.path.isfile(path):
            raise errors.BackendRefused(reason=f'{volume.name} does not exist')
        return path

    def allocated_bytes(self, volume: base.StoredVolume) -> int:
        path = self.device(volume)
        with disks.translated():
            return devices.allocated(path)

    def pools(self) -> tuple[base.PoolReport, ...]:
        with disks.translated():
            room = os.statvfs(self._folder)
            sizes = self._sizes()
        return base.only_pool(
            self._settings, units.bytes_to_gib(room.f_blocks * room.f_frsize),
            units.bytes_to_gib(room.f_bavail * room.f_frsize),
            units.bytes_to_gib(sum(sizes.values())),
            sum(not name.startswith(_SNAPSHOT) for name in sizes),
            f'FileStore:{socket.gethostname()}:{self._folder}')

    def _path(self, name: str) -> str:
        if os.path.basename(name) != name or name.startswith('.'):
            raise errors.BackendRefused(reason=f'{name!r} is not a valid name of a volume file')
        return os.path.join(self._folder, name)

    @contextlib.contextmanager
    def _opened(self, name: str) -> Iterator[int]:
        try:
            file = os.open(self._path(name), os.O_RDWR | os.O_CLOEXEC)
        except (FileNotFoundError, IsADirectoryError):
            raise errors.BackendRefused(reason=f'{name} does not exist') from None
        try:
            yield file
        finally:
            os.close(file)

    def _sizes(self) -> dict[str, int]:
        """Return the sizes of all volumes and snapshots in bytes, by name."""
        sizes = {}
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if not entry.name.startswith('.') and entry.is_file(follow_symlinks=False):
                    # Other processes delete files during the scan.
                    with contextlib.suppress(FileNotFoundError):
                        sizes[entry.name] = entry.stat(follow_symlinks=False).st_size
        return sizes

    def _make_copy(self, source: str, name: str, copied: base.Copied,
                   size: int | None = None) -> None:
        """Create the file ``name`` with the data of the file ``source``, unless ``name`` exists.

        :param size: size of the new file in bytes; None for the size of the source
        """
        if os.path.exists(self._path(name)):
            return
        with self._opened(source) as original:
            wanted = os.fstat(original).st_size if size is None else size
            self._make_room(wanted / units.GIB)
            with disks.translated(wanted / units.GIB), self._unfinished(name) as file:
                _copy(original, file, copied, wanted)

    def _take_over(self, name: str, new_name: str, size: int, grows: bool = True) -> None:
        """Rename a file, and extend the file to ``size`` bytes.

        :param grows: False to keep the size of the file
        :raises BackendRefused: if the file does not exist, is not a regular file, is larger than
            ``size`` bytes, or is in use
        """
        path, new_path = self._path(name), self._path(new_name)
        if not os.path.lexists(path) and os.path.exists(new_path):
            return
        with self._opened(name) as file:
            if not stat.S_ISREG(os.lstat(path).st_mode):
                raise errors.BackendRefused(reason=f'{name} is not a regular file')
            present = os.fstat(file).st_size
            if present > size:
                raise errors.BackendRefused(
                    reason=f'{name} is larger than {size / units.GIB:g} GiB')
            _take_alone(file, name)
            if grows and present < size:
                self._make_room((size - present) / units.GIB)
            with disks.translated(size / units.GIB):
                os.fchmod(file, 0o600)
                if grows:
                    os.ftruncate(file, max(present, size))
                os.fsync(file)
                # A link, unlike a rename, never replaces an existing file.
                if not os.path.exists(new_path):
                    os.link(path, new_path)
                failpoints.point('drivers.file.between_names')
                _unlink(path)
                self._make_durable()

    def _is_used(self, name: str) -> bool:
        """Return False only if the kernel confirms that no other process has the file open."""
        try:
            with self._opened(name) as file:
                _take_alone(file, name)
        except errors.BackendRefused:
            return True
        return False

    def _delete(self, name: str) -> None:
        """Delete the file of a volume or snapshot, and all unfinished files of the same name."""
        path = self._path(name)
        if not os.path.isdir(self._folder):
            return
        with disks.translated():
            if _is_large(path):
                # Freeing takes several steps, and nobody may open the incomplete file by its name.
                os.rename(path, os.path.join(self._folder, f'.{name}.deleted{_UNFINISHED}'))
                self._make_durable()
                failpoints.point('drivers.file.before_free')
            for found in os.listdir(self._folder):
                if found.startswith(f'.{name}.') and found.endswith(_UNFINISHED):
                    _unlink(os.path.join(self._folder, found))
            _unlink(path)
            self._make_durable()

    def _remove_abandoned(self) -> None:
        try:
            for found in os.listdir(self._folder):
                path = os.path.join(self._folder, found)
                if _HIDDEN.fullmatch(found) and _remove_if_abandoned(path):
                    LOG.info('Abandoned file deleted%s', log.fields(path=path))
        except OSError as exc:
            # Not fatal: complete volumes can still be served.
            LOG.warning('Failed to delete abandoned files, will retry at the next start%s',
                        log.fields(path=self._folder, reason=exc.strerror))

    def _make_room(self, size_gb: float) -> None:
        with disks.translated():
            room = os.statvfs(self._folder)
            given = sum(self._sizes().values())
        base.check_room(self._settings, f'pool {self._settings.pool_name}',
                        room.f_blocks * room.f_frsize / units.GIB, given / units.GIB, size_gb)

    @contextlib.contextmanager
    def _unfinished(self, name: str, replace: int | None = None) -> Iterator[int]:
        """Create a hidden file, and publish it as ``name`` if the ``with`` block succeeds.

        If another process has created a file of that name meanwhile, that file is kept and the new
        file is deleted.

        :param replace: descriptor of the file ``name``, which the new file replaces; None if the
            new file replaces no file
        :raises BackendRefused: if another process has the replaced file open
        """
        self._remove_earlier(name)
        file, hidden = self._hidden(name)
        try:
            yield file
            os.fsync(file)
            failpoints.point('drivers.file.before_link')
            if replace is not None:
                _take_alone(replace, name)
                os.rename(hidden, self._path(name))
                if not os.fstat(replace).st_nlink:
                    _free(replace)
            else:
                with contextlib.suppress(FileExistsError):
                    os.link(hidden, self._path(name))
        finally:
            try:
                # The name is removed before the lock, because other processes find the file by
                # its name.
                _unlink(hidden)
            finally:
                os.close(file)
        self._make_durable()

    def _hidden(self, name: str) -> tuple[int, str]:
        """Create a hidden file that no other process deletes while this process is running.

        :returns: descriptor and path of the file
        """
        while True:
            file, hidden = tempfile.mkstemp(_UNFINISHED, f'.{name}.', self._folder)
            # On a file system without locks, other processes cannot lock the file either and
            # therefore do not delete it.
            with contextlib.suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file).st_nlink:
                return file, hidden
            # Another process deleted the file after it was created and before it was locked.
            os.close(file)

    def _remove_earlier(self, name: str) -> None:
        """Delete the unfinished files of a volume or snapshot that killed processes have left.

        The caller has claimed the work on the volume or snapshot. A process that has lost the
        claim without noticing still has its unfinished file locked, so that file is kept.
        """
        for found in os.listdir(self._folder):
            if found.startswith(f'.{name}.') and found.endswith(_UNFINISHED):
                _remove_if_abandoned(os.path.join(self._folder, found), piecewise=True)

    def _make_durable(self) -> None:
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _take_alone(file: int, name: str) -> None:
    """Raise BackendRefused if another process has the file open.

    The kernel grants a write lease only if nobody else has the file open.
    """
    try:
        # If another process opens the file later, the kernel sends a signal. The default signal,
        # SIGIO, would end this process, whereas SIGURG is ignored.
        fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError as exc:
        raise errors.BackendRefused(
            reason=f'{name} is in use, or the file system grants no lease: '
                   f'{exc.strerror}') from exc


def _remove_if_abandoned(path: str, piecewise: bool = False) -> bool:
    """Delete a hidden file unless a running process has it locked.

    Several processes on several hosts may share the folder. Only the lock proves that no process
    works on the file; age, names and process ids prove nothing.

    :param piecewise: free the space in pieces, which is slower but does not block other users of
        the file system (see `_FREED`)
    :returns: True if the file was deleted
    """
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The file may have been completed between the two calls, and be a volume by now.
        if not os.path.samestat(os.fstat(file), os.lstat(path)):
            return False
        # Unlinking comes first. If locks do not work across hosts, the running creator then
        # finds no file to link and fails, and never links a file whose bytes were freed.
        os.unlink(path)
        if piecewise and not os.fstat(file).st_nlink:
            _free(file)
        return True
    except OSError as exc:
        if exc.errno in _NOT_PROVED:
            return False
        raise
    finally:
        os.close(file)


def _unlink(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        if _is_large(path):
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                _free(file)
            finally:
                os.close(file)
        os.unlink(path)


def _is_large(path: str) -> bool:
    """Return True if unlinking the path would free more than `_FREED` bytes at once."""
    with contextlib.suppress(FileNotFoundError):
        status = os.lstat(path)
        return (stat.S_ISREG(status.st_mode) and status.st_nlink == 1
                and status.st_blocks * 512 > _FREED)
    return False


def _free(file: int) -> None:
    """Free the space of a file that is or will be deleted, in pieces of `_FREED` bytes."""
    try:
        for start, length in _data(file, _FREED):
            disks.punch(file, start, length)
            os.fdatasync(file)
    except OSError as exc:
        # Without holes, the kernel frees the file in one step when it is unlinked and closed.
        if exc.errno not in _NO_HOLES:
            raise


def _copy(source: int, copy: int, copied: base.Copied, size: int) -> None:
    """Fill the file ``copy`` with the first ``size`` bytes of the file ``source``.

    If the source is smaller, the remaining bytes are zeros. Extents are shared if possible.
    Otherwise the data is copied, and holes of the source remain holes.
    """
    try:
        fcntl.ioctl(copy, _FICLONE, source)
    except OSError as exc:
        if exc.errno not in _NO_REFLINK:
            raise
        _copy_data(source, copy, copied, size)
    # The source may be larger than the copy if it was extended.
    os.ftruncate(copy, size)


def _copy_data(source: int, copy: int, copied: base.Copied, size: int) -> None:
    unsettled = 0
    for start, length in _data(source, disks.SETTLED):
        end = min(start + length, size)
        if start >= end:
            return
        length = end - start
        while start < end:
            done = os.copy_file_range(source, copy, end - start, start, start)
            if not done:
                # Some file systems of old kernels return 0 instead of an error. An incomplete copy
                # must not become a volume.
                raise OSError(errno.EIO, 'the kernel copied no data')
            start += done
        unsettled += length
        if unsettled >= disks.SETTLED:
            disks.settle(copy)
            unsettled = 0
        copied(length)


def _data(file: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield the offset and length of each data range of a file, split at ``most`` bytes."""
    end = 0
    while True:
        try:
            start = os.lseek(file, end, os.SEEK_DATA)
        except OSError as exc:
            # There is no data after ``end`` (lseek(2)).
            if exc.errno == errno.ENXIO:
                return
            raise
        end = min(os.lseek(file, start, os.SEEK_HOLE), start + most)
        yield start, end - start
