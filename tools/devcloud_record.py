"""What `tools/devcloud` remembers: enough to end and remove all that it has made.

What is made outside of the state directory is named after a mark, and the mark is written down
before anything is made: at whatever moment we are interrupted, it can be found again.
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
    """One line that says why it cannot be, and what to do."""


@dataclasses.dataclass(frozen=True, slots=True)
class Process:
    """One that we have started.

    :ivar born: which of all processes that ever had this pid (`devcloud_processes.born`)
    :ivar since: when it was started, in UTC
    :ivar port: where it listens, if it does
    :ivar health: the file that it reports to; None: a process that listens is well
    """

    name: str
    pid: int
    born: str
    since: str
    port: int | None = None
    health: str | None = None


@dataclasses.dataclass(slots=True)
class Record:
    """A cloud.

    :ivar scratch: folder of the servers that we have started, and of what prepares them
    :ivar found: servers of others that are used: their kind, and a URL to administer them by
    :ivar keystone: entry of ``clouds.yaml`` whose Keystone is used; None: one of our own
    :ivar images: whether there is a Glance, one of our own
    :ivar broker: whether there is one; else the processes send to each other over HTTP
    :ivar complete: whether it has ever been whole
    :ivar ports: where our services listen, by name
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
        """What everything of ours is called where others have things too."""
        return f'devcloud-{self.mark[:8]}'

    @property
    def account(self) -> str:
        """The same for a database and an account."""
        return self.name.replace('-', '_')


def make_scratch(path: str) -> None:
    """Make the folder, unless it is there. Servers run as other accounts, each in a folder of its
    own in it."""
    os.makedirs(path, exist_ok=True)
    os.chmod(path, _SEARCHABLE)


class StateDirectory:
    """Where a cloud keeps its files. Nobody else may look into it."""

    def __init__(self, path: str) -> None:
        self.path = pathlib.Path(path).absolute()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Make it if need be, and be the only one to change what it describes. If nothing is in
        it at the end, it is removed.

        :raises Refused: somebody else does, or it cannot be used
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
        """What is there; None: nothing.

        :raises Refused: it cannot be read
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
        """A cloud that has nothing yet."""
        mark = uuid.uuid4().hex
        record = Record(mark, os.path.join(tempfile.gettempdir(), f'blockattach-{mark}'), **facts)
        self.save(record)
        return record

    def save(self, record: Record) -> None:
        """Remember."""
        self.write(_FILE, json.dumps(dataclasses.asdict(record), indent=2) + '\n')

    def write(self, name: str, text: str) -> str:
        """Put a file in place of the former one; its path."""
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
        """A folder in it, made if need be."""
        path = self.path / name
        path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        return path

    def remove(self, record: Record) -> None:
        """Forget it all, what is remembered last."""
        shutil.rmtree(record.scratch, ignore_errors=True)
        for one in self.path.iterdir():
            if one.name not in (_FILE, _LOCK):
                shutil.rmtree(one) if one.is_dir() else one.unlink()
        (self.path / _FILE).unlink(missing_ok=True)
