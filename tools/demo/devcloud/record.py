"""Record of a cloud of `tools/devcloud`, with everything that is needed to remove the cloud.

Resources outside of the state directory are named after a mark. The mark is recorded before any
resource is created, so that an interrupted command leaves nothing that cannot be found again.
"""
import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from typing import Any

FOLDER_MODE = 0o700
_FILE_MODE = 0o600
_SEARCHABLE = 0o711
_FILE = 'record.json'
_LOCK = 'lock'


class Refused(Exception):
    """Raised if a command cannot be executed.

    The text is one line with the reason and the remedy.
    """


@dataclasses.dataclass(frozen=True, slots=True)
class Process:
    """Process that the command has started.

    :ivar born: start time, which distinguishes it from other processes with the same pid
        (`demo.devcloud.processes.born`)
    :ivar since: start time for display, in UTC
    :ivar port: port on which the process listens, if any
    :ivar health: path of its health file; None for a process that is ready if it answers on its
        port
    """

    name: str
    pid: int
    born: str
    since: str
    port: int | None = None
    health: str | None = None


@dataclasses.dataclass(slots=True)
class Record:
    """State of a cloud.

    :ivar scratch: directory of the servers that the command has started, and of temporary files
        that prepare them
    :ivar found: external servers that the cloud uses: administration URL by kind of server
    :ivar keystone: entry of ``clouds.yaml`` whose Keystone is used; None for a Keystone that the
        command has started
    :ivar images: True if the cloud has a Glance
    :ivar broker: True if the cloud has a broker. Without one, processes send messages over HTTP
    :ivar complete: True once all processes of the cloud have been ready
    :ivar ports: ports of the services of the cloud, by name
    """

    mark: str
    scratch: str
    found: dict[str, str]
    keystone: str | None = None
    images: bool = False
    broker: bool = True
    complete: bool = False
    ports: dict[str, int] = dataclasses.field(default_factory=dict)
    processes: dict[str, Process] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the resources of the cloud on external servers."""
        return f'devcloud-{self.mark[:8]}'

    @property
    def account(self) -> str:
        """Name of the database and its account."""
        return self.name.replace('-', '_')


def make_scratch(path: str) -> None:
    """Create the scratch directory unless it exists.

    Servers run under other accounts, each in a subdirectory of its own. Therefore every account
    may search the directory.
    """
    os.makedirs(path, exist_ok=True)
    os.chmod(path, _SEARCHABLE)


class StateDirectory:
    """Directory with the files of a cloud, readable only by its owner."""

    def __init__(self, path: str) -> None:
        self.path = pathlib.Path(path).absolute()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Create the directory if needed, and hold its exclusive lock in the context.

        The directory is removed at the end if it is empty.

        :raises Refused: another process holds the lock, or the directory cannot be used
        """
        lock = self._lock()
        try:
            yield
        finally:
            if [one.name for one in self.path.iterdir()] == [_LOCK]:
                (self.path / _LOCK).unlink()
                self.path.rmdir()
            os.close(lock)

    def _lock(self) -> int:
        try:
            if self.path.is_dir() and not (self.path / _LOCK).exists() and any(
                    self.path.iterdir()):
                raise Refused(f'{self.path} contains other files. Specify another directory '
                              'with --state-dir')
            self.path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            lock = os.open(self.path / _LOCK, os.O_CREAT | os.O_RDWR, _FILE_MODE)
        except OSError as exc:
            raise Refused(f'cannot use {self.path}: {exc.strerror}. Specify another directory '
                          'with --state-dir') from exc
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The process that had the lock may have removed the file.
            if os.path.samestat(os.fstat(lock), os.stat(self.path / _LOCK)):
                return lock
        except (BlockingIOError, FileNotFoundError):
            pass
        os.close(lock)
        raise Refused(f'another tools/devcloud is using {self.path}')

    def load(self) -> Record | None:
        """Return the recorded cloud, or None.

        :raises Refused: the record cannot be read
        """
        try:
            values = json.loads((self.path / _FILE).read_text('utf-8'))
            values['processes'] = {name: Process(**facts)
                                   for name, facts in values['processes'].items()}
            return Record(**values)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as exc:
            raise Refused(f'cannot read {self.path / _FILE}: {exc}') from exc

    def begin(self, **facts: Any) -> Record:
        """Create and save the record of a new cloud.

        :param facts: fields of `Record`
        """
        mark = uuid.uuid4().hex
        record = Record(mark, os.path.join(tempfile.gettempdir(), f'blockattach-{mark}'), **facts)
        self.save(record)
        return record

    def save(self, record: Record) -> None:
        """Save the record."""
        self.write(_FILE, json.dumps(dataclasses.asdict(record), indent=2) + '\n')

    def write(self, name: str, text: str) -> str:
        """Replace a file atomically, and return its path."""
        path = self.path / name
        path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        draft = path.with_name(f'{path.name}.new')
        draft.unlink(missing_ok=True)
        with open(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _FILE_MODE), 'w',
                  encoding='utf-8') as file:
            file.write(text)
        draft.replace(path)
        return str(path)

    def folder(self, name: str) -> pathlib.Path:
        """Return a subdirectory, which is created if needed."""
        path = self.path / name
        path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        return path

    def remove(self, record: Record) -> None:
        """Delete all files of the cloud, the record last."""
        shutil.rmtree(record.scratch, ignore_errors=True)
        for one in self.path.iterdir():
            if one.name not in (_FILE, _LOCK):
                shutil.rmtree(one) if one.is_dir() else one.unlink()
        (self.path / _FILE).unlink(missing_ok=True)
