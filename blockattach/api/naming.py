"""Named requests: the header ``Idempotency-Key`` of a POST that creates something."""
from blockattach import errors
from blockattach.db import idempotency
from blockattach.http import operation

_LONGEST_KEY = 255


def request_of(call: operation.Call) -> idempotency.Request | None:
    """The name that a client gave its request; None: it gave none.

    :raises InvalidInput: a name that is empty or too long
    """
    key = call.idempotency_key
    if key is None:
        return None
    if not 0 < len(key) <= _LONGEST_KEY:
        raise errors.InvalidInput(
            reason=f'Idempotency-Key must have 1 to {_LONGEST_KEY} characters.')
    return idempotency.named(call.context.project_id or '', call.context.user_id or '', 'POST',
                             call.url.path, key, call.body_digest)
