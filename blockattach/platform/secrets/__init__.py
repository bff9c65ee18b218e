"""Encryption of stored credentials: Fernet, with keys that only the service may read.

The first key encrypts and all keys decrypt, so that keys can be replaced while processes run. Each
source of keys has its own module: `key_file`, `key_manager`.
"""
import contextlib
import hashlib
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import NamedTuple

from cryptography import fernet

from blockattach.platform import errors

_ID_LENGTH = 16


class Key:
    """Fernet key with an ID that does not reveal the key."""

    def __init__(self, text: bytes) -> None:
        """
        :raises ValueError: ``text`` is not a Fernet key
        """
        self.fernet = fernet.Fernet(text)
        self.id = hashlib.sha256(text.strip()).hexdigest()[:_ID_LENGTH]


class Sealed(NamedTuple):
    """Encrypted text as stored in the database, and the ID of the key that encrypted it."""

    text: str
    key_id: str


class Sealer:
    """Encryption and decryption of stored credentials with a fixed set of keys.

    Subclasses obtain their keys from another source, and notice changes. They remember all keys
    that the process has loaded. A text that was read from the database before its key was removed
    can then still be decrypted.
    """

    replaces = False
    """True if `add`, `promote` and `keep_first` change the keys.

    If False, these methods do not change the keys in use. They return instructions for the
    operator, or raise an error.
    """

    def __init__(self, keys: Iterable[bytes]) -> None:
        """
        :raises ValueError: an item of ``keys`` is not a Fernet key
        """
        self._keys = tuple(map(Key, keys))
        self._known: dict[str, Key] = {}

    def ring(self) -> Sequence[Key]:
        """Return the keys for decryption. The first key is also used for encryption."""
        return self._keys

    def reload(self) -> None:
        """Load the keys if the configured key IDs have changed.

        Changes of key files are detected without this call.
        """

    def wrong(self) -> str | None:
        """Return the reason why the changed keys cannot be read, or None if they were read."""
        return None

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Hold a lock that prevents other processes from changing the keys.

        :raises ConfigurationError: another process holds the lock
        """
        yield

    def add(self) -> str:
        """Add a key for decryption only, or return instructions for doing so.

        :returns: message or instructions for the operator, as one line
        :raises ConfigurationError: keys cannot be added
        """
        raise errors.ConfigurationError(reason='cannot change sealing keys of a fixed set')

    def promote(self) -> str:
        """Make the last key the encryption key. Results and errors are those of `add`."""
        return self.add()

    def keep_first(self) -> str:
        """Remove all keys except the encryption key. Results and errors are those of `add`."""
        return self.add()

    def seal(self, text: str) -> str:
        """Encrypt a text with the first key."""
        return self.sealed(text).text

    def sealed(self, text: str) -> Sealed:
        """Encrypt a text with the first key, and return the result with the ID of the key."""
        key = self.ring()[0]
        return Sealed(key.fernet.encrypt(text.encode()).decode(), key.id)

    def unseal(self, sealed: str) -> str:
        """Decrypt a text.

        :raises ConfigurationError: ``sealed`` was encrypted with a key that this process has never
            loaded
        """
        for key in (*self.ring(), *self._known.values()):
            try:
                return key.fernet.decrypt(sealed.encode()).decode()
            except fernet.InvalidToken:
                continue
        raise errors.ConfigurationError(
            reason='cannot decrypt a sealed credential: the sealing key is missing')

    def key_of(self, sealed: str) -> str | None:
        """Return the ID of the current key that encrypted a text, or None if no key matches."""
        for key in self.ring():
            with contextlib.suppress(fernet.InvalidToken):
                key.fernet.decrypt(sealed.encode())
                return key.id
        return None

    def _remember(self, keys: Iterable[Key]) -> None:
        self._known |= {key.id: key for key in keys}


def new_key() -> bytes:
    """Return a new Fernet key as text."""
    return fernet.Fernet.generate_key()
