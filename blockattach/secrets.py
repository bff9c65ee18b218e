"""Sealing of credentials at rest: Fernet, with a key file that only the service may read.

The first key in the file seals; all of them unseal, so that a key is rotated by putting a new one
on top (one key a line).
"""
import contextlib
import os
import secrets
import string

from cryptography import fernet

from blockattach import errors
from blockattach.domain import connection

_ALPHABET = string.ascii_letters + string.digits
# CHAP names and secrets of the length that Cinder's iSCSI drivers make; initiators on Windows
# refuse secrets of more than 16 characters.
_USERNAME_LENGTH = 20
_PASSWORD_LENGTH = 16


class Sealer:
    """Seals text for the database and opens it again."""

    def __init__(self, keys: list[bytes]) -> None:
        self._fernet = fernet.MultiFernet([fernet.Fernet(key) for key in keys])

    def seal(self, text: str) -> str:
        """Text that says nothing without the key."""
        return self._fernet.encrypt(text.encode()).decode()

    def unseal(self, sealed: str) -> str:
        """The text again.

        :raises ConfigurationError: sealed with a key that the file does not hold
        """
        try:
            return self._fernet.decrypt(sealed.encode()).decode()
        except fernet.InvalidToken:
            raise errors.ConfigurationError(
                reason='cannot open a sealed credential: the key file lacks the key that it was '
                       'sealed with') from None


def load_sealer(path: str) -> Sealer:
    """Read the key file; the first start makes it, readable by its owner only.

    :raises ConfigurationError: the file cannot be made or read, or holds no valid key
    """
    try:
        _make_key_file(path)
        with open(path, 'rb') as file:
            keys = file.read().split()
        return Sealer(keys)
    except OSError as exc:
        raise errors.ConfigurationError(
            reason=f'cannot use the key file {path}: {exc.strerror}') from exc
    except ValueError as exc:
        raise errors.ConfigurationError(
            reason=f'cannot use the key file {path}: it holds no valid Fernet key') from exc


def _make_key_file(path: str) -> None:
    """Make it whole or not at all, also when two processes start at once."""
    if os.path.exists(path):
        return
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    draft = f'{path}.{os.getpid()}.{secrets.token_hex(4)}'
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, 'wb') as file:
            file.write(fernet.Fernet.generate_key() + b'\n')
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        os.unlink(draft)


def new_credential() -> connection.Credential:
    """A fresh random name and secret for one (volume, initiator).

    The name begins with a letter: LIO takes 0x and 0b for the beginning of a number.
    """
    name = secrets.choice(string.ascii_letters) + _random(_USERNAME_LENGTH - 1)
    return connection.Credential(name, _random(_PASSWORD_LENGTH))


def _random(length: int) -> str:
    return ''.join(secrets.choice(_ALPHABET) for _ in range(length))
