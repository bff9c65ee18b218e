"""Directory for the files of volumes, on a file system that shares extents if possible."""
import contextlib
import fcntl
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from typing import NamedTuple

# ioctl FICLONE of linux/fs.h, which shares the extents of another file.
_FICLONE = 0x40049409
_IMAGE_BYTES = 64 * 2 ** 30


class Folder(NamedTuple):
    """Directory for the files of volumes.

    :ivar shares: True if files in the directory can share extents (reflink)
    """

    path: pathlib.Path
    shares: bool


@contextlib.contextmanager
def temporary() -> Iterator[Folder]:
    """Create a directory among the temporary files."""
    with tempfile.TemporaryDirectory(prefix='blockattach-bench-') as name:
        yield Folder(pathlib.Path(name), _shares(name))


@contextlib.contextmanager
def sharing() -> Iterator[Folder]:
    """Create a directory whose files can share extents, if possible.

    If temporary files cannot share extents, an XFS image is mounted, provided that this is
    permitted.
    """
    with temporary() as folder, contextlib.ExitStack() as mounted:
        if not folder.shares:
            below = folder.path / 'mounted'
            below.mkdir()
            if _mount(folder.path / 'xfs', below):
                mounted.callback(_did, 'umount', str(below))
                folder = Folder(below, _shares(below))
        yield folder


def _mount(image: pathlib.Path, folder: pathlib.Path) -> bool:
    with image.open('wb') as file:
        file.truncate(_IMAGE_BYTES)
    return (_did('mkfs.xfs', '-q', '-m', 'reflink=1', str(image))
            and _did('mount', '-o', 'loop', str(image), str(folder)))


def _did(program: str, *arguments: str) -> bool:
    """Return True if a program exists and succeeds."""
    path = shutil.which(program, path=f'{os.environ["PATH"]}:/usr/sbin:/sbin')
    return path is not None and subprocess.run(
        [path, *arguments], capture_output=True, check=False).returncode == 0


def _shares(folder: str | pathlib.Path) -> bool:
    with (tempfile.TemporaryFile(dir=folder) as one, tempfile.TemporaryFile(dir=folder) as other):
        one.write(b'1')
        one.flush()
        try:
            fcntl.ioctl(other.fileno(), _FICLONE, one.fileno())
        except OSError:
            return False
        return True
