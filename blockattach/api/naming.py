"""Named requests: the header ``Idempotency-Key`` of a POST that creates something."""
from blockattach.db import idempotency
from blockattach.http import operation


def request_of(call: operation.Call) -> idempotency.Request | None:
    """The name that a client gave its request; None: it gave none.

    :raises InvalidInput: a name that is empty or too long
    """
    key = call.idempotency_key
    if key is None:
        return None
    return idempotency.named(call.context.project_id or '', call.context.user_id or '', 'POST',
                             call.url.path, key, call.body_digest)
