"""Rotation of the keys that seal credentials, while all processes continue to attach.

A key is replaced in four steps: `prepare`, `promote`, `reseal` and `finish`. There are several
steps because every process, on any host, must have a key before another process seals with the
key. If all processes read one key file, `rotate` performs all steps.

Each step can be interrupted at any point and repeated. No key is removed while a credential needs
it. A row is updated only if it is unchanged since it was read, so a concurrent write wins.
"""
from collections.abc import Iterator
from typing import Any
from typing import NamedTuple

import sqlalchemy as sa

from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.platform import secrets
from blockattach.storage.db import models
from blockattach.storage.db import storage_db
from blockattach.storage.db.attachments import grants
from blockattach.storage.domain import connection as connections

BATCH = 100

_grants = models.grants
_attachments = models.attachments
_PAGE = 500


class Lost(NamedTuple):
    """Credential that no key can decrypt, with the live attachments that use it."""

    volume_id: str
    initiator: str
    attachment_ids: tuple[str, ...]


def rotate(database: storage_db.Database) -> list[str]:
    """Perform all steps, after the remaining steps of an interrupted rotation.

    :returns: a line for the operator about each step
    :raises ConfigurationError: the configuration lists the keys, so the service cannot write them
    """
    if not database.sealer.replaces:
        raise errors.ConfigurationError(
            reason='cannot rotate the keys in one step because the configuration lists the keys. '
                   'Run --prepare, --promote, --reseal and --finish instead')
    progress = []
    # A key that waits for its promotion looks like a key that waits for its removal. In both
    # cases, resealing with the sealing key and removing the others is correct.
    if len(database.sealer.ring()) > 1:
        progress += [reseal(database), finish(database)]
    return [*progress, *(step(database) for step in (prepare, promote, reseal, finish))]


def prepare(database: storage_db.Database) -> str:
    """Add a key that is used only for decryption.

    :raises ConfigurationError: there is a second key already
    """
    if len(database.sealer.ring()) > 1:
        raise errors.ConfigurationError(
            reason='cannot add a key: a second key already exists. Continue with the next step')
    return database.sealer.add()


def promote(database: storage_db.Database) -> str:
    """Make the added key the sealing key.

    :raises ConfigurationError: there is no added key, or credentials are sealed with it already
    """
    sealer = database.sealer
    last = sealer.ring()[-1].id
    if len(sealer.ring()) < 2:
        raise errors.ConfigurationError(
            reason='cannot promote a key: only one key exists. Run --prepare first')
    # A second key on which credentials depend is not new: it waits for its removal by `finish`.
    if counts(database).get(last):
        raise errors.ConfigurationError(
            reason=f'cannot promote key {last}: credentials are already sealed with the key')
    return sealer.promote()


def reseal(database: storage_db.Database) -> str:
    """Reseal all credentials with the sealing key, and return a line for the operator."""
    done = sum(resealed(database))
    return f'{done} credentials resealed with key {database.sealer.ring()[0].id}.'


def finish(database: storage_db.Database) -> str:
    """Remove all keys except the sealing key.

    :raises ConfigurationError: a credential is sealed with another key
    """
    remaining = _awaiting(database)
    if remaining:
        raise errors.ConfigurationError(
            reason=f'cannot remove the old keys: {remaining} credentials are not sealed with key '
                   f'{database.sealer.ring()[0].id}. Run --reseal first')
    return database.sealer.keep_first()


def check(database: storage_db.Database) -> None:
    """Check that this process has every key with which credentials are sealed.

    The check reads only an index.

    :raises ConfigurationError: a key is missing
    """
    present = {key.id for key in database.sealer.ring()}
    missing = counts(database).keys() - present
    if missing:
        raise errors.ConfigurationError(
            reason='cannot decrypt sealed credentials: sealing keys are missing '
                   f'({", ".join(sorted(missing))})')


def are_there(connections: sa.Engine) -> bool:
    """Return True if any credential is stored, for a process without keys."""
    with connections.connect() as connection:
        return connection.execute(sa.select(_grants.c.volume_id).limit(1)).first() is not None


def counts(database: storage_db.Database) -> dict[str, int]:
    """Return the number of credentials sealed with each key, by the id of the key."""
    query = sa.select(_grants.c.key_id, sa.func.count()).group_by(_grants.c.key_id)
    with database.reader() as connection:
        return {row.key_id: row[1] for row in connection.execute(query)}


def resealed(database: storage_db.Database, most: int = BATCH) -> Iterator[int]:
    """Reseal credentials with the sealing key, and yield the number of each batch.

    A credential that no key can decrypt is skipped. A credential that changes concurrently is left
    to the next batch.

    :param most: maximum number of credentials in a batch
    """
    sealer = database.sealer
    while True:
        others = [key.id for key in sealer.ring()[1:]]
        with database.reader() as connection:
            found = connection.execute(
                _grants.select().where(_grants.c.key_id.in_(others)).limit(most)).all()
        openable = [row for row in found if sealer.key_of(row.sealed_password) is not None]
        done = _reseal(database, [
            (row, sealer.sealed(sealer.unseal(row.sealed_password))) for row in openable])
        failpoints.point('db.key_rotation.after_batch')
        if not openable:
            return
        yield done


@storage_db.retried
def _reseal(database: storage_db.Database, rows: list[tuple[sa.Row[Any], secrets.Sealed]]) -> int:
    done = 0
    with database.writer() as connection:
        # Sorted, so that two processes that reseal at the same time lock the rows in one order.
        for row, sealed in sorted(rows, key=lambda pair: pair[0][:2]):
            done += connection.execute(_grants.update().where(
                _grants.c.volume_id == row.volume_id, _grants.c.initiator == row.initiator,
                _grants.c.sealed_password == row.sealed_password,
            ).values(sealed_password=sealed.text, key_id=sealed.key_id)).rowcount
    return done


@storage_db.retried
def _awaiting(database: storage_db.Database) -> int:
    """Return the number of credentials that are not sealed with the sealing key.

    Waits for running transactions, and blocks writers until the credentials are counted.
    """
    other = _grants.c.key_id != database.sealer.ring()[0].id
    with database.writer() as connection:
        if connection.dialect.name == 'postgresql':
            # Row locks of PostgreSQL do not wait for rows that are not committed yet.
            connection.execute(sa.text(f'LOCK TABLE {_grants.name} IN SHARE MODE'))
        return len(connection.execute(
            sa.select(_grants.c.key_id).where(other).with_for_update(read=True)).all())


def lost(database: storage_db.Database, page: int = _PAGE) -> Iterator[Lost]:
    """Yield the credentials that no key can decrypt.

    Every stored credential is tried.

    :param page: number of credentials read at a time
    """
    volume_id, initiator = _grants.c.volume_id, _grants.c.initiator
    after = '', ''
    while True:
        with database.reader() as connection:
            # Not compared as a tuple, for which MariaDB uses no index.
            found = connection.execute(_grants.select().where(sa.or_(
                volume_id > after[0], sa.and_(volume_id == after[0], initiator > after[1]),
            )).order_by(volume_id, initiator).limit(page)).all()
            closed = [Lost(row.volume_id, row.initiator, tuple(connection.execute(
                sa.select(_attachments.c.id).where(
                    _attachments.c.volume_id == row.volume_id, models.live(_attachments),
                    _attachments.c.initiator == row.initiator).order_by(_attachments.c.id),
                ).scalars())) for row in found
                if database.sealer.key_of(row.sealed_password) is None]
        yield from closed
        if len(found) < page:
            return
        after = found[-1].volume_id, found[-1].initiator


@storage_db.retried
def renew(database: storage_db.Database, pair: Lost) -> None:
    """Replace a credential that still cannot be decrypted by a new one.

    Sessions continue. The target and the host get the new credential when the attachment is
    connected again.
    """
    mine = (_grants.c.volume_id == pair.volume_id, _grants.c.initiator == pair.initiator)
    with database.writer() as connection:
        sealed = connection.execute(sa.select(_grants.c.sealed_password).where(
            *mine).with_for_update()).scalar_one_or_none()
        # The grant may have ended, or the missing key may be back, since `lost` has read it.
        if sealed is None or database.sealer.key_of(sealed) is not None:
            return
        credential = connections.new_credential()
        again = database.sealer.sealed(credential.password)
        connection.execute(_grants.update().where(*mine).values(
            username=credential.username, sealed_password=again.text, key_id=again.key_id))
        grants.check_sealed_by(database, again.key_id)
