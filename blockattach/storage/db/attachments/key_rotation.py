"""Rotation of the keys that seal credentials, while the services are running.

A key is replaced in four steps: `prepare`, `promote`, `reseal` and `finish`. The steps are
separate because every process on every host must have a new key before any process seals a
credential with the key. If all processes read the same key file, `rotate` performs all steps.

Each step can be interrupted at any point and repeated. A key is not removed while a credential is
sealed with the key. A grant is updated only if its credential is unchanged since it was read, so
that the write of a concurrent transaction is kept.
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
    """Pair whose credential no key can decrypt, with its live attachments."""

    volume_id: str
    initiator: str
    attachment_ids: tuple[str, ...]


def rotate(database: storage_db.Database) -> list[str]:
    """Perform all steps of a rotation, after completing a rotation that was interrupted.

    :returns: a message for the operator about each step
    :raises ConfigurationError: the keys are listed in the configuration. The service cannot change
        the configuration
    """
    if not database.sealer.replaces:
        raise errors.ConfigurationError(
            reason='cannot rotate the keys in one step because the configuration lists the keys. '
                   'Run --prepare, --promote, --reseal and --finish instead')
    progress = []
    # A second key may have been added by `prepare`, or may be the former sealing key. In both
    # cases, it is correct to reseal with the sealing key and to remove the other key.
    if len(database.sealer.ring()) > 1:
        progress += [reseal(database), finish(database)]
    return [*progress, *(step(database) for step in (prepare, promote, reseal, finish))]


def prepare(database: storage_db.Database) -> str:
    """Add a key that is used only for decryption until `promote` is called.

    :returns: a message for the operator
    :raises ConfigurationError: there is a second key already
    """
    if len(database.sealer.ring()) > 1:
        raise errors.ConfigurationError(
            reason='cannot add a key: a second key already exists. Continue with the next step')
    return database.sealer.add()


def promote(database: storage_db.Database) -> str:
    """Make the key that `prepare` has added the sealing key.

    :returns: a message for the operator
    :raises ConfigurationError: there is only one key, or credentials are sealed with the last key
        already
    """
    sealer = database.sealer
    last = sealer.ring()[-1].id
    if len(sealer.ring()) < 2:
        raise errors.ConfigurationError(
            reason='cannot promote a key: only one key exists. Run --prepare first')
    # If credentials depend on the second key, it is the former sealing key, not a new key.
    if counts(database).get(last):
        raise errors.ConfigurationError(
            reason=f'cannot promote key {last}: credentials are already sealed with the key')
    return sealer.promote()


def reseal(database: storage_db.Database) -> str:
    """Reseal all credentials with the sealing key, and return a message for the operator."""
    done = sum(resealed(database))
    return f'{done} credentials resealed with key {database.sealer.ring()[0].id}.'


def finish(database: storage_db.Database) -> str:
    """Remove all keys except the sealing key.

    :returns: a message for the operator
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

    The check reads only an index of the grants.

    :raises ConfigurationError: a key is missing
    """
    present = {key.id for key in database.sealer.ring()}
    missing = counts(database).keys() - present
    if missing:
        raise errors.ConfigurationError(
            reason='cannot decrypt sealed credentials: sealing keys are missing '
                   f'({", ".join(sorted(missing))})')


def are_there(connections: sa.Engine) -> bool:
    """Return True if the database contains any credential. No key is needed.

    :param connections: engine of the database
    """
    with connections.connect() as connection:
        return connection.execute(sa.select(_grants.c.volume_id).limit(1)).first() is not None


def counts(database: storage_db.Database) -> dict[str, int]:
    """Return the number of credentials that are sealed with each key, by key id."""
    query = sa.select(_grants.c.key_id, sa.func.count()).group_by(_grants.c.key_id)
    with database.reader() as connection:
        return {row.key_id: row[1] for row in connection.execute(query)}


def resealed(database: storage_db.Database, most: int = BATCH) -> Iterator[int]:
    """Reseal credentials with the sealing key, and yield the number of credentials of each batch.

    A credential that no key can decrypt is skipped. A credential that another transaction changes
    at the same time is not overwritten, and is resealed with a later batch if necessary.

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
        # The rows are sorted, so that two processes that reseal at the same time lock the rows in
        # the same order.
        for row, sealed in sorted(rows, key=lambda pair: pair[0][:2]):
            done += connection.execute(_grants.update().where(
                _grants.c.volume_id == row.volume_id, _grants.c.initiator == row.initiator,
                _grants.c.sealed_password == row.sealed_password,
            ).values(sealed_password=sealed.text, key_id=sealed.key_id)).rowcount
    return done


@storage_db.retried
def _awaiting(database: storage_db.Database) -> int:
    """Return the number of credentials that are not sealed with the sealing key.

    The function waits for the transactions that have written grants, and blocks other writers
    until the credentials are counted.
    """
    other = _grants.c.key_id != database.sealer.ring()[0].id
    with database.writer() as connection:
        if connection.dialect.name == 'postgresql':
            # On PostgreSQL, a locking read does not wait for inserted rows that are not committed.
            connection.execute(sa.text(f'LOCK TABLE {_grants.name} IN SHARE MODE'))
        return len(connection.execute(
            sa.select(_grants.c.key_id).where(other).with_for_update(read=True)).all())


def lost(database: storage_db.Database, page: int = _PAGE) -> Iterator[Lost]:
    """Yield the pairs whose credential no key can decrypt.

    The function tries to decrypt every stored credential.

    :param page: number of credentials that are read at a time
    """
    volume_id, initiator = _grants.c.volume_id, _grants.c.initiator
    after = '', ''
    while True:
        with database.reader() as connection:
            # The key columns are not compared as a tuple, because MariaDB would use no index.
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
    """Replace the credential of a pair with a new one, if no key can decrypt the present one.

    Sessions of the host at the target are kept. The target and the host get the new credential
    when an attachment of the pair is connected again.

    :param pair: pair that `lost` has yielded
    """
    mine = (_grants.c.volume_id == pair.volume_id, _grants.c.initiator == pair.initiator)
    with database.writer() as connection:
        sealed = connection.execute(sa.select(_grants.c.sealed_password).where(
            *mine).with_for_update()).scalar_one_or_none()
        # Since `lost` has read the grant, it may have been deleted, or the key may be back.
        if sealed is None or database.sealer.key_of(sealed) is not None:
            return
        credential = connections.new_credential()
        again = database.sealer.sealed(credential.password)
        connection.execute(_grants.update().where(*mine).values(
            username=credential.username, sealed_password=again.text, key_id=again.key_id))
        grants.check_sealed_by(database, again.key_id)
