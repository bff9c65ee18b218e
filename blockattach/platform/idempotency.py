"""Requests with an ``Idempotency-Key`` header, whose repetition creates no second resource."""
import dataclasses
import hashlib

from blockattach.platform import errors

LONGEST_KEY = 255


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """Request with an ``Idempotency-Key`` header.

    :ivar scope: SHA-256 of the project, the user, the method, the path and the key
    :ivar body_digest: SHA-256 of the body. A repetition with another body is rejected
    """

    scope: str
    body_digest: str


def named(project_id: str, user_id: str, method: str, path: str, key: str,
          body_digest: str) -> Request:
    """Return the `Request` that an ``Idempotency-Key`` identifies.

    If another user sends the same key, or the key is used for another operation, the key
    identifies another request.

    :raises InvalidInput: ``key`` is empty or longer than `LONGEST_KEY`
    """
    if not 0 < len(key) <= LONGEST_KEY:
        raise errors.InvalidInput(
            reason=f'Idempotency-Key must have 1 to {LONGEST_KEY} characters.')
    text = '\n'.join((project_id, user_id, method, path, key))
    return Request(hashlib.sha256(text.encode()).hexdigest(), body_digest)
