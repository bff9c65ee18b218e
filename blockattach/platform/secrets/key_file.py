"""Encryption keys in a file with one key per line, which processes read again after a change."""
import contextlib
import fcntl
import os
import secrets as random_source
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence

from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.platform import secrets
from blockattach.platform.conf import changing


class KeyFile(secrets.Sealer):
    """Sealer that uses the current keys of a file, and encrypts with the first key."""

    replaces = True

    def __init__(self, path: str) -> None:
        """Read the key file. A missing file is created with a new key, readable by its owner only.

        :raises ConfigurationError: the file cannot be created or read, is accessible to other
            users, or contains no valid key
        """
        super().__init__(())
        self.path = path
        try:
            make(path, secrets.new_key)
            changing.check_private(path)
        except OSError as exc:
            raise _unusable(path, exc) from exc
        self._file = changing.ChangingFile(path, _parse)
        self._noted: Sequence[secrets.Key] = ()
        self.ring()

    def ring(self) -> Sequence[secrets.Key]:
        """Return the keys in the file, or the previous keys if the file is not valid."""
        keys = self._file.said()
        if keys is not self._noted:
            self._remember(keys)
            self._noted = keys
        return keys

    def wrong(self) -> str | None:
        return self._file.wrong()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Hold a lock that prevents other processes from changing the key file.

        The operating system releases the lock if the process ends.

        :raises ConfigurationError: another process holds the lock
        """
        try:
            # A lock on the folder, because the file itself is replaced.
            descriptor = os.open(os.path.dirname(os.path.abspath(self.path)), os.O_RDONLY)
        except OSError as exc:
            raise _unusable(self.path, exc) from exc
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as exc:
                raise errors.ConfigurationError(
                    reason=f'cannot change keys in {self.path}: another process is changing '
                           f'the file') from exc
            yield
        finally:
            os.close(descriptor)

    def add(self) -> str:
        """Append a new key to the file."""
        text = secrets.new_key()
        self._write([*self._lines(), text])
        return f'Key {secrets.Key(text).id} added to {self.path}, for decryption only.'

    def promote(self) -> str:
        """Move the last key to the first line."""
        *others, last = self._lines()
        self._write([last, *others])
        return f'Key {secrets.Key(last).id} in {self.path} is now the sealing key.'

    def keep_first(self) -> str:
        """Remove all keys except the first from the file."""
        first, *_ = self._lines()
        self._write([first])
        return f'Key {secrets.Key(first).id} is now the only key in {self.path}.'

    def _lines(self) -> list[bytes]:
        with open(self.path, 'rb') as file:
            return file.read().split()

    def _write(self, keys: Iterable[bytes]) -> None:
        """Replace the file atomically, keeping its owner."""
        try:
            before = os.stat(self.path)
            draft = _draft(self.path, keys)
            try:
                # The command may be run by root, and the service must still be able to read the
                # file.
                os.chown(draft, before.st_uid, before.st_gid)
                failpoints.point('secrets.key_file.before_replace')
                os.replace(draft, self.path)
            except BaseException:
                os.unlink(draft)
                raise
            _sync_folder(os.path.dirname(os.path.abspath(self.path)))
        except OSError as exc:
            raise _unusable(self.path, exc) from exc
        failpoints.point('secrets.key_file.after_replace')


def _parse(text: str) -> Sequence[secrets.Key]:
    try:
        keys = tuple(secrets.Key(line.encode()) for line in text.split())
    except ValueError:
        keys = ()
    if not keys:
        raise errors.ConfigurationError(reason='no valid Fernet key found')
    return keys


def make(path: str, new_key: Callable[[], bytes]) -> None:
    """Create a file with one new key, unless the file exists.

    :raises OSError: the file cannot be created
    """
    if os.path.exists(path):
        return
    os.makedirs(os.path.dirname(os.path.abspath(path)), mode=0o700, exist_ok=True)
    draft = _draft(path, [new_key()])
    try:
        # A hard link never replaces a file. If two processes start at the same time, both use the
        # key of the first one.
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
        _sync_folder(os.path.dirname(os.path.abspath(path)))
    finally:
        os.unlink(draft)


def _draft(path: str, keys: Iterable[bytes]) -> str:
    """Write the keys to a new file in the same folder, sync the file, and return its path."""
    draft = f'{path}.{os.getpid()}.{random_source.token_hex(4)}'
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, 'wb') as file:
        file.write(b''.join(key + b'\n' for key in keys))
        file.flush()
        os.fsync(file.fileno())
    return draft


def _sync_folder(folder: str) -> None:
    # The new name must survive a power failure, because credentials that were encrypted with a
    # lost key could not be decrypted.
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unusable(path: str, exc: OSError) -> errors.ConfigurationError:
    return errors.ConfigurationError(reason=f'cannot use the key file {path}: {exc.strerror}')
