"""The credentials of grants as they are sealed: by which keys, with another one, or not at all.

While keys are replaced every process works: a row is changed only if it is as it was read, so that
a concurrent write wins.
"""
from collections.abc import Iterator
from typing import Any
from typing import NamedTuple

import sqlalchemy as sa
from oslo_db import exception as oslo_db_exception

from blockattach import errors
from blockattach import failpoints
from blockattach import secrets
from blockattach.db import engine
from blockattach.db import models
from blockattach.db import online_migrations

_grants = models.grants
_attachments = models.attachments
_PAGE = 500


class Lost(NamedTuple):
    """A credential that no key opens, and the live attachments that use it."""

    volume_id: str
    initiator: str
    attachment_ids: tuple[str, ...]


def check(database: engine.Database) -> None:
    """Make sure that we have every key that sealed anything, by an index.

    :raises ConfigurationError: we have not
    """
    known = {key.id for key in database.sealer.ring()}
    missing = counts(database).keys() - known
    if missing:
        raise errors.ConfigurationError(
            reason='cannot open sealed credentials: the key that they were sealed with is missing '
                   f'({", ".join(sorted(missing))})')


def are_there(connections: sa.Engine) -> bool:
    """Whether any credential is stored; for a process without keys."""
    with connections.connect() as connection:
        return connection.execute(sa.select(_grants.c.volume_id).limit(1)).first() is not None


def counts(database: engine.Database) -> dict[str, int]:
    """How many credentials each key has sealed, by its id."""
    query = sa.select(_grants.c.key_id, sa.func.count()).group_by(_grants.c.key_id)
    with database.reader() as connection:
        return {row.key_id: row[1] for row in connection.execute(query)}


def stays(database: engine.Database, sealed: secrets.Sealed) -> None:
    """Check, after a row was written and before the commit, that its key is still the one that
    seals.

    `awaiting` waits for the row to be committed. So either it counts the row before another key is
    removed, or the row is written once more.

    :raises RetryRequest: keys were replaced meanwhile
    """
    if database.sealer.ring()[0].id != sealed.key_id:
        raise oslo_db_exception.RetryRequest(errors.ConfigurationError(
            reason='the key that seals was replaced'))


@engine.retried
def awaiting(database: engine.Database) -> int:
    """How many credentials are not sealed by the key that seals now. It waits for running
    transactions, and blocks writers until it has counted.
    """
    other = _grants.c.key_id != database.sealer.ring()[0].id
    with database.writer() as connection:
        if connection.dialect.name == 'postgresql':
            # It would not see rows that are not committed, and so not wait for them.
            connection.execute(sa.text(f'LOCK TABLE {_grants.name} IN SHARE MODE'))
        return len(connection.execute(
            sa.select(_grants.c.key_id).where(other).with_for_update(read=True)).all())


def lost(database: engine.Database, page: int = _PAGE) -> Iterator[Lost]:
    """Those that cannot be opened; tries each, a page at a time."""
    for row in _each(database, page):
        if database.sealer.key_of(row.sealed_password) is None:
            with database.reader() as connection:
                using = connection.execute(sa.select(_attachments.c.id).where(
                    _attachments.c.volume_id == row.volume_id, models.live(_attachments),
                    _attachments.c.initiator == row.initiator).order_by(_attachments.c.id))
                yield Lost(row.volume_id, row.initiator, tuple(using.scalars()))


@engine.retried
def renew(database: engine.Database, pair: Lost) -> None:
    """Replace a credential that is still lost by a new one.

    Sessions go on. Target and host get the new one when the attachment is connected again.
    """
    mine = (_grants.c.volume_id == pair.volume_id, _grants.c.initiator == pair.initiator)
    with database.writer() as connection:
        sealed = connection.execute(sa.select(_grants.c.sealed_password).where(
            *mine).with_for_update()).scalar_one_or_none()
        if sealed is None or database.sealer.key_of(sealed) is not None:
            return
        credential = secrets.new_credential()
        again = database.sealer.sealed(credential.password)
        connection.execute(_grants.update().where(*mine).values(
            username=credential.username, sealed_password=again.text, key_id=again.key_id))
        stays(database, again)


def reseal(database: engine.Database, most: int) -> online_migrations.Progress:
    """Seal a batch of what other keys have sealed with the one that seals now.

    What cannot be opened is left alone, and not found.
    """
    known = [key.id for key in database.sealer.ring()]
    rows = _some(database, _grants.c.key_id.in_(known[1:]), most)
    openable = [row for row in rows if database.sealer.key_of(row.sealed_password) is not None]
    progress = online_migrations.Progress(len(openable), _change(database, [
        (row, database.sealer.sealed(database.sealer.unseal(row.sealed_password)))
        for row in openable]))
    failpoints.point('db.sealed_grants.after_batch')
    return progress


def _each(database: engine.Database, page: int) -> Iterator[sa.Row[Any]]:
    after: tuple[str, str] | None = None
    while True:
        query = _grants.select().order_by(_grants.c.volume_id, _grants.c.initiator).limit(page)
        if after is not None:
            query = query.where(sa.or_(
                _grants.c.volume_id > after[0],
                sa.and_(_grants.c.volume_id == after[0], _grants.c.initiator > after[1])))
        with database.reader() as connection:
            rows = connection.execute(query).all()
        yield from rows
        if len(rows) < page:
            return
        after = rows[-1].volume_id, rows[-1].initiator


def _some(database: engine.Database, which: sa.ColumnElement[bool],
          most: int) -> list[sa.Row[Any]]:
    with database.reader() as connection:
        return list(connection.execute(_grants.select().where(which).limit(most)))


@engine.retried
def _change(database: engine.Database, rows: list[tuple[sa.Row[Any], secrets.Sealed]]) -> int:
    """Write rows sealed so, if they are still as they were read; returns how many."""
    done = 0
    with database.writer() as connection:
        for row, sealed in sorted(rows, key=lambda pair: pair[0][:2]):
            done += connection.execute(_grants.update().where(
                _grants.c.volume_id == row.volume_id, _grants.c.initiator == row.initiator,
                _grants.c.sealed_password == row.sealed_password,
            ).values(sealed_password=sealed.text, key_id=sealed.key_id)).rowcount
    return done
