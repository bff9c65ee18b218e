"""Transfers: a project offers a volume, and another one takes it with a key."""
import dataclasses
import datetime
import hashlib
import hmac
import secrets

_KEY_BYTES = 16
_SALT_BYTES = 16


@dataclasses.dataclass(frozen=True, slots=True)
class Transfer:
    """An offer that was not accepted yet: one that is accepted or deleted is gone.

    :ivar project_id: the project that offers the volume
    :ivar sealed: what `matches` compares a key with; the key itself is not kept
    """

    id: str
    volume_id: str
    project_id: str
    name: str | None
    no_snapshots: bool
    sealed: str = dataclasses.field(repr=False)
    created_at: datetime.datetime = dataclasses.field(kw_only=True)


def new_key() -> str:
    """What the accepting project must say: 128 random bits in hexadecimal digits."""
    return secrets.token_hex(_KEY_BYTES)


def seal(auth_key: str) -> str:
    """Salt and digest of a key, which tell nothing of it."""
    salt = secrets.token_hex(_SALT_BYTES)
    return f'{salt}{_digest(salt, auth_key)}'


def matches(sealed: str, auth_key: str) -> bool:
    """Whether it is the key; the time it takes tells nothing of where the two differ."""
    salt, digest = sealed[:2 * _SALT_BYTES], sealed[2 * _SALT_BYTES:]
    return hmac.compare_digest(digest, _digest(salt, auth_key))


def _digest(salt: str, auth_key: str) -> str:
    # A key of 128 random bits cannot be guessed: a slow digest would protect nothing.
    return hashlib.sha256(f'{salt}{auth_key}'.encode()).hexdigest()
