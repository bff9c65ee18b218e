"""Leases of processes on volumes of a backend that several processes serve.

Deadlines are compared in database time. A process acquires a lease before it acts on the backend,
and holds the lease until it has stored the result. One table holds two kinds of leases:

* on a (volume, initiator) pair, to grant or revoke the access of the initiator. Different pairs of
  a volume can be leased at the same time;
* on a whole volume, without an initiator. It excludes the leases on the pairs of the volume.

A process writes its own lease first and then looks for leases of the other kind, each in a
transaction of its own. Of two processes that start at the same moment, at least one sees the
other. A lease is lost when its deadline has passed and another process has acquired the lease. The
leases of an earlier process instance of a service are available to the next instance at once.
"""
from collections.abc import Callable
from typing import NamedTuple

import sqlalchemy as sa
from oslo_db import exception as db_exception

from blockattach.platform import errors
from blockattach.platform.db import clock
from blockattach.storage.db import models
from blockattach.storage.db import storage_db
from blockattach.storage.db.services import services

_attachments = models.attachments
_leases = models.leases
_volumes = models.volumes

WHOLE = ''
"""Value in place of an initiator, for a lease on a whole volume."""
_FORGOTTEN_SECONDS = 86400
# Not zero, for the reason given at `blockattach.storage.db.work.PASSED`.
_PASSED = -0.001


def owner_of(service: str, instance: str) -> str:
    """Return the owner name of a process instance of a service (``host@backend``)."""
    return f'{service}{services.INSTANCE}{instance}'


class Lease(NamedTuple):
    """Lease on a (volume, initiator) pair or on a whole volume.

    :ivar initiator: `WHOLE` for the whole volume
    :ivar owner: see `owner_of`
    """

    volume_id: str
    initiator: str
    owner: str


@storage_db.retried
def take(database: storage_db.Database, lease: Lease, seconds: float) -> bool:
    """Acquire a lease, or renew a lease of the same service.

    Leases of the other kind are not checked here. The caller checks them afterwards by
    `is_excluded`.

    :param seconds: time after which other processes may acquire the lease
    :returns: False if another process holds the lease
    """
    # Insert first, because the lease is usually free and then takes one statement.
    try:
        with database.writer() as connection:
            connection.execute(_leases.insert().values(
                **lease._asdict(), deadline=clock.now(seconds)))
        return True
    except db_exception.DBDuplicateEntry:
        with database.writer() as connection:
            return connection.execute(_leases.update().where(
                _of(lease), sa.or_(services.of_service(_leases.c.owner, lease.owner),
                                   _leases.c.deadline < clock.now()))
                .values(owner=lease.owner, deadline=clock.now(seconds))).rowcount == 1


@storage_db.retried
def give_back(database: storage_db.Database, held: Lease) -> None:
    """Release a lease. A lost lease stays with its new holder."""
    with database.writer() as connection:
        connection.execute(_own(held))


def giving_back(held: Lease) -> Callable[[sa.Connection], None]:
    """Return a function that releases a lease in the transaction that stores the result.

    The function raises BackendUncertain if the lease was lost before.
    """
    def within(connection: sa.Connection) -> None:
        if connection.execute(_own(held)).rowcount != 1:
            raise errors.BackendUncertain(
                reason=f'the lease on volume {held.volume_id} expired during the operation')
    return within


def is_excluded(database: storage_db.Database, held: Lease) -> bool:
    """Return True if another service holds a lease of the other kind on the volume.

    For a lease on the whole volume, that is a lease on any of its pairs. For a lease on a pair, it
    is the lease on the whole volume.
    """
    others = _leases.c.initiator == WHOLE
    return _any(database, sa.select(_leases.c.volume_id).where(
        _leases.c.volume_id == held.volume_id, ~others if held.initiator == WHOLE else others,
        ~services.of_service(_leases.c.owner, held.owner), _valid()))


@storage_db.retried
def forget(database: storage_db.Database) -> int:
    """Delete leases whose deadline passed a day ago, and return their number."""
    old = _leases.c.deadline < clock.now(-_FORGOTTEN_SECONDS)
    with database.reader() as connection:
        found = connection.execute(
            sa.select(_leases.c.volume_id, _leases.c.initiator).where(old)).all()
    # Deleted one by one, by the primary key. A range would lock leases that others acquire now.
    for row in found:
        with database.writer() as connection:
            connection.execute(_leases.delete().where(
                _leases.c.volume_id == row.volume_id, _leases.c.initiator == row.initiator, old))
    return len(found)


def of_earlier_instance(volume_id: sa.ColumnElement[str], *initiators: sa.ColumnElement[str],
                    owner: str) -> sa.ColumnElement[bool]:
    """Return the condition that an earlier instance of the owner's service has leased a pair."""
    return sa.exists().where(
        _leases.c.volume_id == volume_id, _leases.c.initiator.in_(initiators),
        services.of_service(_leases.c.owner, owner), _leases.c.owner != owner)


def holder(initiator: str | sa.BindParameter[str]) -> sa.ColumnElement[str | None]:
    """Return a column for queries of volumes: the owner of a lease on the pair or on the volume.

    The column is NULL if there is no such lease.
    """
    # There can be both leases for a moment. The descending order prefers that on the pair, because
    # `WHOLE` is empty.
    return sa.select(_leases.c.owner).where(
        _leases.c.volume_id == _volumes.c.id, _on(initiator), _valid(),
    ).order_by(_leases.c.initiator.desc()).limit(1).correlate(_volumes).scalar_subquery()


def is_taken(database: storage_db.Database, volume_id: str, initiator: str) -> bool:
    """Return True if any process holds a lease on the pair or on the whole volume."""
    return _any(database, sa.select(_leases.c.volume_id).where(
        _leases.c.volume_id == volume_id, _on(initiator), _valid()))


@storage_db.retried
def leave(database: storage_db.Database, host: str, owner: str) -> int:
    """Release all leases of a process that is stopping.

    The deadlines of the attachments that the process was working on are moved to the past, so that
    the next search for interrupted attachments continues their work.

    :param host: not used
    :returns: number of attachments that other processes may take over now
    """
    mine = _leases.c.owner == owner
    with database.writer() as connection:
        pairs = connection.execute(
            sa.select(_leases.c.volume_id, _leases.c.initiator).where(mine)).all()
        released = 0
        for pair in pairs:
            # The deadline of an attachment protects the work of its owner, which ends now.
            released += connection.execute(_attachments.update().where(
                _attachments.c.volume_id == pair.volume_id, models.live(_attachments),
                sa.or_(_attachments.c.initiator == pair.initiator,
                       _attachments.c.previous_initiator == pair.initiator),
                _attachments.c.deadline >= clock.now()).values(
                deadline=clock.now(_PASSED))).rowcount
        connection.execute(_leases.delete().where(mine))
    return released


def _own(held: Lease) -> sa.Delete:
    return _leases.delete().where(_of(held), _leases.c.owner == held.owner)


def _on(initiator: str | sa.BindParameter[str]) -> sa.ColumnElement[bool]:
    return sa.or_(_leases.c.initiator == initiator, _leases.c.initiator == WHOLE)


def _valid() -> sa.ColumnElement[bool]:
    return _leases.c.deadline >= clock.now()


def _of(lease: Lease) -> sa.ColumnElement[bool]:
    return sa.and_(_leases.c.volume_id == lease.volume_id,
                   _leases.c.initiator == lease.initiator)


def _any(database: storage_db.Database, query: sa.Select) -> bool:
    with database.reader() as connection:
        return connection.execute(query.limit(1)).first() is not None
