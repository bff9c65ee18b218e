"""Idempotency keys of clients (``Idempotency-Key``), by which a repeated request is recognized.

The transaction that creates a resource also stores the id of the resource and a digest of the
request body. The response is not stored, because it may contain a secret and would become stale.
"""
import sqlalchemy as sa
from oslo_db import exception as db_exception

from blockattach.platform import errors
from blockattach.platform import idempotency
from blockattach.platform.db import clock
from blockattach.platform.db import statements
from blockattach.storage.db import models
from blockattach.storage.db import storage_db

_keys = models.idempotency_keys
_OF_SCOPE = _keys.c.scope == statements.value('scope')
_FIND = statements.Statement(lambda dialect: _keys.select().where(
    _OF_SCOPE, _keys.c.expires_at > clock.now()))
_FORGET = statements.Statement(lambda dialect: _keys.delete().where(
    _OF_SCOPE, sa.or_(_keys.c.expires_at <= clock.now(),
                      _keys.c.resource_id == statements.value('instead_of'))))


def find(database: storage_db.Database, request: idempotency.Request) -> str | None:
    """Return the id of the resource that an earlier request with the same key has created.

    :returns: the id; None if there was no such request, or if the key has expired
    :raises IdempotencyKeyReused: the body of the earlier request was different
    """
    with database.reader() as connection:
        row = _FIND.first(connection, scope=request.scope)
    if row is None:
        return None
    if row.body_digest != request.body_digest:
        raise errors.IdempotencyKeyReused()
    return str(row.resource_id)


def remember(connection: sa.Connection, database: storage_db.Database,
             request: idempotency.Request, resource_id: str, seconds: float,
             instead_of: str | None = None) -> None:
    """Store the id of the resource that a request creates, in the same transaction.

    :param seconds: seconds until the key expires
    :param instead_of: id of a failed resource that an earlier request with the same key has
        created; None if there is no such resource
    :raises IdempotencyKeyTaken: another request with the same key has created a resource in the
        meantime
    """
    # No resource has an empty id. So the statement then deletes only an expired key.
    _FORGET.change(connection, scope=request.scope, instead_of=instead_of or '')
    step = statements.inserting(_keys, {
        'scope': request.scope, 'body_digest': request.body_digest, 'resource_id': resource_id,
        'expires_at': clock.Later(seconds), 'created_at': database.clock.utcnow()})
    try:
        step.statement.change(connection, **step.values)
    except db_exception.DBDuplicateEntry:
        # The insertion has waited for the transaction of the other request. If the client repeats
        # its request, it gets the resource of that transaction.
        raise errors.IdempotencyKeyTaken() from None


@storage_db.retried
def purge(database: storage_db.Database) -> int:
    """Delete expired idempotency keys, and return their number."""
    with database.writer() as connection:
        return connection.execute(_keys.delete().where(_keys.c.expires_at <= clock.now())).rowcount
