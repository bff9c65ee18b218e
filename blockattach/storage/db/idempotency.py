"""Requests that a client named (``Idempotency-Key``): the same request makes nothing twice.

The id of what was made is stored in its transaction, with a digest of the body; never the answer,
which may hold a secret and would become stale.
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
    """The id that this request made before; None: it has made nothing.

    :raises IdempotencyKeyReused: the name was given to another body
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
    """Write down what a request makes, in the transaction that makes it.

    :param instead_of: what it made before, which failed
    :raises IdempotencyKeyTaken: a copy of the request is doing so elsewhere, or just has
    """
    # No resource has an empty id.
    _FORGET.change(connection, scope=request.scope, instead_of=instead_of or '')
    step = statements.inserting(_keys, {
        'scope': request.scope, 'body_digest': request.body_digest, 'resource_id': resource_id,
        'expires_at': clock.Later(seconds), 'created_at': database.clock.utcnow()})
    try:
        step.statement.change(connection, **step.values)
    except db_exception.DBDuplicateEntry:
        raise errors.IdempotencyKeyTaken() from None


@storage_db.retried
def purge(database: storage_db.Database) -> int:
    """Remove expired keys; returns how many."""
    with database.writer() as connection:
        return connection.execute(_keys.delete().where(_keys.c.expires_at <= clock.now())).rowcount
