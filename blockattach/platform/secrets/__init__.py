"""Sealing of credentials at rest: Fernet, with keys that only the service may read.

The first key seals; all of them unseal, so that a key is replaced while every process works. Where
keys come from is a module each: `key_file`, `key_manager`.
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
    """One Fernet key, under an id that says nothing of it."""

    def __init__(self, text: bytes) -> None:
        """
        :raises ValueError: it is none
        """
        self.fernet = fernet.Fernet(text)
        self.id = hashlib.sha256(text.strip()).hexdigest()[:_ID_LENGTH]


class Sealed(NamedTuple):
    """What stands in the database instead of a text, and the id of the key that sealed it."""

    text: str
    key_id: str


class Sealer:
    """Seals text for the database and opens it again. The keys of this one never change.

    What was read from the database before its key was taken away is still opened: a process keeps
    in mind every key that it has had.
    """

    replaces = False
    """Whether `add`, `promote` and `keep_first` do it themselves, and do not only say how."""

    def __init__(self, keys: Iterable[bytes]) -> None:
        """
        :raises ValueError: one of them is none
        """
        self._keys = tuple(map(Key, keys))
        self._known: dict[str, Key] = {}

    def ring(self) -> Sequence[Key]:
        """Those that open; the first one seals."""
        return self._keys

    def reload(self) -> None:
        """Apply an operator's changes. Other changes are noticed without it."""

    def wrong(self) -> str | None:
        """Return the reason why the keys cannot be read, or None if they can."""
        return None

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Replace keys, under a lock.

        :raises ConfigurationError: another process does
        """
        yield

    def add(self) -> str:
        """Have one key more, which opens only; or say how. Returns a line for the operator.

        :raises ConfigurationError: that cannot be
        """
        raise errors.ConfigurationError(reason='cannot change sealing keys of a fixed set')

    def promote(self) -> str:
        """Make the last key the one that seals."""
        return self.add()

    def keep_first(self) -> str:
        """Forget all keys but the one that seals."""
        return self.add()

    def seal(self, text: str) -> str:
        """Text that says nothing without the key."""
        return self.sealed(text).text

    def sealed(self, text: str) -> Sealed:
        """Seal a text; returns the key's id too."""
        key = self.ring()[0]
        return Sealed(key.fernet.encrypt(text.encode()).decode(), key.id)

    def unseal(self, sealed: str) -> str:
        """The text again.

        :raises ConfigurationError: sealed with a key that has never been among ours
        """
        for key in (*self.ring(), *self._known.values()):
            try:
                return key.fernet.decrypt(sealed.encode()).decode()
            except fernet.InvalidToken:
                continue
        raise errors.ConfigurationError(
            reason='cannot decrypt a sealed credential: the sealing key is missing')

    def key_of(self, sealed: str) -> str | None:
        """The id of the key that sealed it; None: it is not among ours now."""
        for key in self.ring():
            with contextlib.suppress(fernet.InvalidToken):
                key.fernet.decrypt(sealed.encode())
                return key.id
        return None

    def _remember(self, keys: Iterable[Key]) -> None:
        self._known |= {key.id: key for key in keys}


def new_key() -> bytes:
    """A fresh key, as text."""
    return fernet.Fernet.generate_key()
