"""Requests with an ``Idempotency-Key``, which create nothing when repeated."""
import dataclasses
import hashlib

from blockattach.platform import errors

LONGEST_KEY = 255


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """Request with a key.

    :ivar scope: digest of the caller, the operation and the key
    :ivar body_digest: SHA-256 of the body, which every repetition must have
    """

    scope: str
    body_digest: str


def named(project_id: str, user_id: str, method: str, path: str, key: str,
          body_digest: str) -> Request:
    """Return the request that a key stands for.

    The same key of another user, or for another operation, stands for another request.

    :raises InvalidInput: the key is empty or too long
    """
    if not 0 < len(key) <= LONGEST_KEY:
        raise errors.InvalidInput(
            reason=f'Idempotency-Key must have 1 to {LONGEST_KEY} characters.')
    text = '\n'.join((project_id, user_id, method, path, key))
    return Request(hashlib.sha256(text.encode()).hexdigest(), body_digest)
