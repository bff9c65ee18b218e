"""Transfers: offers of a volume to another project, which accepts an offer with a key."""
import dataclasses
import datetime
import hashlib
import hmac
import secrets

_KEY_BYTES = 16
_SALT_BYTES = 16


@dataclasses.dataclass(frozen=True, slots=True)
class Transfer:
    """Offer of a volume to another project. An accepted offer is deleted.

    :ivar project_id: project that offers the volume
    :ivar no_snapshots: True if the snapshots of the volume are not offered
    :ivar sealed: salt and digest of the authorization key, which is not stored itself
    """

    id: str
    volume_id: str
    project_id: str
    name: str | None
    no_snapshots: bool
    sealed: str = dataclasses.field(repr=False)
    created_at: datetime.datetime = dataclasses.field(kw_only=True)


def new_key() -> str:
    """Return a random authorization key of 128 bits in hexadecimal digits."""
    return secrets.token_hex(_KEY_BYTES)


def seal(auth_key: str) -> str:
    """Return a random salt and the salted digest of an authorization key, as one text."""
    salt = secrets.token_hex(_SALT_BYTES)
    return f'{salt}{_digest(salt, auth_key)}'


def matches(sealed: str, auth_key: str) -> bool:
    """Return True if an authorization key matches its stored salt and digest.

    The comparison takes constant time.
    """
    salt, digest = sealed[:2 * _SALT_BYTES], sealed[2 * _SALT_BYTES:]
    return hmac.compare_digest(digest, _digest(salt, auth_key))


def _digest(salt: str, auth_key: str) -> str:
    # A key of 128 random bits cannot be guessed, so a slow digest would add no protection.
    return hashlib.sha256(f'{salt}{auth_key}'.encode()).hexdigest()
