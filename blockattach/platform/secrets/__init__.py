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
        :raises ValueError: the text is not a Fernet key
        """
        self.fernet = fernet.Fernet(text)
        self.id = hashlib.sha256(text.strip()).hexdigest()[:_ID_LENGTH]


class Sealed(NamedTuple):
    """Encrypted text as stored in the database, and the ID of the key that encrypted it."""

    text: str
    key_id: str


class Sealer:
    """Encryption and decryption of texts in the database, here with a fixed set of keys.

    A process remembers every key it has had, so that texts read from the database before their key
    was removed can still be decrypted.
    """

    replaces = False
    """Support for changing keys.

    If False, `add`, `promote` and `keep_first` change nothing. They return instructions for the
    operator or raise an error.
    """

    def __init__(self, keys: Iterable[bytes]) -> None:
        """
        :raises ValueError: one of the texts is not a Fernet key
        """
        self._keys = tuple(map(Key, keys))
        self._known: dict[str, Key] = {}

    def ring(self) -> Sequence[Key]:
        """Return the keys for decryption. The first key is also used for encryption."""
        return self._keys

    def reload(self) -> None:
        """Apply changed key IDs. Changes of key files are detected without this call."""

    def wrong(self) -> str | None:
        """Return the reason why the keys cannot be read, or None if they can."""
        return None

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Hold a lock while keys are changed.

        :raises ConfigurationError: another process holds the lock
        """
        yield

    def add(self) -> str:
        """Add a key for decryption only, or return instructions for doing so.

        :returns: one line for the operator
        :raises ConfigurationError: keys cannot be added
        """
        raise errors.ConfigurationError(reason='cannot change sealing keys of a fixed set')

    def promote(self) -> str:
        """Make the last key the encryption key. See `add`."""
        return self.add()

    def keep_first(self) -> str:
        """Remove all keys except the encryption key. See `add`."""
        return self.add()

    def seal(self, text: str) -> str:
        """Return the text encrypted with the first key."""
        return self.sealed(text).text

    def sealed(self, text: str) -> Sealed:
        """Return the text encrypted with the first key, and the ID of that key."""
        key = self.ring()[0]
        return Sealed(key.fernet.encrypt(text.encode()).decode(), key.id)

    def unseal(self, sealed: str) -> str:
        """Decrypt a text.

        :raises ConfigurationError: the text was encrypted with a key that this process has never
            had
        """
        for key in (*self.ring(), *self._known.values()):
            try:
                return key.fernet.decrypt(sealed.encode()).decode()
            except fernet.InvalidToken:
                continue
        raise errors.ConfigurationError(
            reason='cannot decrypt a sealed credential: the sealing key is missing')

    def key_of(self, sealed: str) -> str | None:
        """Return the ID of the key that encrypted a text, or None if it is not a current key."""
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
