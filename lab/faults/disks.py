"""A small file system for one process and its children: nobody else sees it, and it goes with the
last of them.
"""
import contextlib
import ctypes
import os

_NEW_MOUNTS = 0x00020000
_OWN_ROOT = 0x00000200
_RECURSIVE, _PRIVATE = 0x4000, 0x40000


class OwnDisk:
    """Called in a process, gives it the file system; `path_in` leads there from outside."""

    def __init__(self, mebibytes, inodes):
        self._options = f'size={mebibytes}m,nr_inodes={inodes}'

    def mount(self, folder, neighbour):
        """Mount it there, or share the one of a process that has it already.

        :param neighbour: file with the id of that process; there may be none
        """
        library = ctypes.CDLL(None, use_errno=True)
        if neighbour.exists():
            pid = int(neighbour.read_text('ascii').split()[0])
            # The kernel refuses a thread that shares root and working directory with another one,
            # were it for a moment (setns(2), EINVAL).
            _sure(library.unshare(_OWN_ROOT))
            with open(f'/proc/{pid}/ns/mnt', 'rb') as space:
                _sure(library.setns(space.fileno(), _NEW_MOUNTS))
            return
        _sure(library.unshare(_NEW_MOUNTS))
        # What is mounted from now on is nobody else's.
        _sure(library.mount(None, b'/', None, _RECURSIVE | _PRIVATE, None))
        # The state directory above it is made here too, for its owner only.
        before = os.umask(0o077)
        os.makedirs(folder, exist_ok=True)
        os.umask(before)
        _sure(library.mount(b'tmpfs', str(folder).encode(), b'tmpfs', 0, self._options.encode()))


def why_missing():
    """Why this cannot be had here; None: it can."""
    return None if os.geteuid() == 0 else 'only root may mount a file system'


def path_in(pid, folder):
    """A folder as a process sees it."""
    return f'/proc/{pid}/root{folder}'


@contextlib.contextmanager
def full(folder):
    """While it lasts, there is no room for a byte or a file."""
    made = []
    try:
        with contextlib.suppress(OSError):
            while True:
                made.append(os.path.join(folder, f'.filler-{len(made)}'))
                with open(made[-1], 'wb', buffering=0) as file:
                    # The first takes the bytes, the others the names.
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
