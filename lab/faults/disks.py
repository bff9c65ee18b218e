"""Small file system of one process and its children, in a mount namespace of their own.

The file system vanishes with the last of these processes.
"""
import contextlib
import ctypes
import os

_NEW_MOUNTS = 0x00020000
_OWN_ROOT = 0x00000200
_RECURSIVE, _PRIVATE = 0x4000, 0x40000


class OwnDisk:
    """Small file system that a process mounts in its own mount namespace.

    `path_in` returns its path for other processes.
    """

    def __init__(self, mebibytes, inodes):
        self._options = f'size={mebibytes}m,nr_inodes={inodes}'

    def mount(self, folder, neighbour):
        """Mount the file system, or join the namespace of a process that has mounted it.

        :param folder: the mount point
        :param neighbour: the file with the ID of that process, which need not exist
        """
        library = ctypes.CDLL(None, use_errno=True)
        if neighbour.exists():
            pid = int(neighbour.read_text('ascii').split()[0])
            # setns(2) fails with EINVAL if the thread shares its root and working directory with
            # another thread.
            _sure(library.unshare(_OWN_ROOT))
            with open(f'/proc/{pid}/ns/mnt', 'rb') as space:
                _sure(library.setns(space.fileno(), _NEW_MOUNTS))
            return
        _sure(library.unshare(_NEW_MOUNTS))
        # Later mounts are not propagated to other namespaces.
        _sure(library.mount(None, b'/', None, _RECURSIVE | _PRIVATE, None))
        # This also creates the state directory above, which only its owner may enter.
        before = os.umask(0o077)
        os.makedirs(folder, exist_ok=True)
        os.umask(before)
        _sure(library.mount(b'tmpfs', str(folder).encode(), b'tmpfs', 0, self._options.encode()))


def why_missing():
    """Return why the file system cannot be mounted here; None if it can."""
    return None if os.geteuid() == 0 else 'only root may mount a file system'


def path_in(pid, folder):
    """Return the path at which a process sees a folder."""
    return f'/proc/{pid}/root{folder}'


@contextlib.contextmanager
def full(folder):
    """Fill a folder with bytes and files, while the context lasts."""
    made = []
    try:
        with contextlib.suppress(OSError):
            while True:
                made.append(os.path.join(folder, f'.filler-{len(made)}'))
                with open(made[-1], 'wb', buffering=0) as file:
                    # The first file takes all bytes, the other files all inodes.
                    while len(made) == 1 and _written(file):
                        pass
        yield
    finally:
        for path in made:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


def _written(file):
    try:
        return file.write(bytes(65536))
    except OSError:
        return 0


def _sure(failed):
    if failed:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
