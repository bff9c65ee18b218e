"""Leases of processes on volumes and (volume, initiator) pairs of a backend.

Leases are stored in the database if several processes serve the backend. A process acquires a
lease before it acts on the backend, and holds the lease until it has stored the result. Deadlines
are compared with the time of the database. There are two kinds of leases:

* A lease on a (volume, initiator) pair is needed to grant or revoke the access of the initiator.
  Different pairs of a volume can be leased at the same time.
* A lease on a whole volume has no initiator. It excludes leases on the pairs of the volume.

A process first writes its own lease, and then looks for leases of the other kind in a second
transaction. If two processes write leases at the same moment, at least one of the processes finds
the lease of the other process. A process loses a lease if another process acquires the lease after
its deadline. When a service has been restarted, the new process instance may acquire the leases of
the earlier instance at once.
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
# The number is not zero for the reason given at `blockattach.storage.db.work.PASSED`.
_PASSED = -0.001


def owner_of(service: str, instance: str) -> str:
    """Return the name by which a process instance owns leases and work.

    :param service: ``host@backend``
    """
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
    """Acquire a lease, or renew a lease that the same service already holds.

    The function checks only leases of the same kind. The caller must then call `is_excluded`.

    :param seconds: seconds until the deadline of the lease
    :returns: False if another service holds the lease, and its deadline has not passed
    """
    # The insertion comes first, because in most cases nobody holds the lease. One statement is
    # then enough.
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
    """Release a lease. Nothing happens if another process has acquired the lease."""
    with database.writer() as connection:
        connection.execute(_own(held))


def giving_back(held: Lease) -> Callable[[sa.Connection], None]:
    """Return a function that releases a lease within the transaction that stores a result.

    The returned function raises BackendUncertain if another process has acquired the lease.
    """
    def within(connection: sa.Connection) -> None:
        if connection.execute(_own(held)).rowcount != 1:
            raise errors.BackendUncertain(
                reason=f'the lease on volume {held.volume_id} expired during the operation')
    return within


def is_excluded(database: storage_db.Database, held: Lease) -> bool:
    """Return True if another service holds a valid lease that excludes the given lease.

    A lease on the whole volume is excluded by a lease on any pair of the volume. A lease on a pair
    is excluded by a lease on the whole volume.
    """
    others = _leases.c.initiator == WHOLE
    return _any(database, sa.select(_leases.c.volume_id).where(
        _leases.c.volume_id == held.volume_id, ~others if held.initiator == WHOLE else others,
        ~services.of_service(_leases.c.owner, held.owner), _valid()))


@storage_db.retried
def forget(database: storage_db.Database) -> int:
    """Delete leases whose deadline passed more than a day ago, and return their number."""
    old = _leases.c.deadline < clock.now(-_FORGOTTEN_SECONDS)
    with database.reader() as connection:
        found = connection.execute(
            sa.select(_leases.c.volume_id, _leases.c.initiator).where(old)).all()
    # Each lease is deleted by its primary key. On MariaDB, the deletion of a range would also lock
    # leases that other processes are acquiring.
    for row in found:
        with database.writer() as connection:
            connection.execute(_leases.delete().where(
                _leases.c.volume_id == row.volume_id, _leases.c.initiator == row.initiator, old))
    return len(found)


def of_earlier_instance(volume_id: sa.ColumnElement[str], *initiators: sa.ColumnElement[str],
                    owner: str) -> sa.ColumnElement[bool]:
    """Return the condition that an earlier process instance of a service holds a lease on a pair.

    :param volume_id: column with the id of the volume
    :param initiators: columns with the initiators, any of which may form the pair
    :param owner: owner name of the present process instance
    """
    return sa.exists().where(
        _leases.c.volume_id == volume_id, _leases.c.initiator.in_(initiators),
        services.of_service(_leases.c.owner, owner), _leases.c.owner != owner)


def holder(initiator: str | sa.BindParameter[str]) -> sa.ColumnElement[str | None]:
    """Return a column for queries of volumes that contains the owner of a valid lease.

    The lease is on the pair of the volume and the initiator, or on the whole volume. The column is
    NULL if there is no such lease.
    """
    # For a moment, both leases can exist. The descending order then prefers the lease on the pair,
    # because `WHOLE` is empty.
    return sa.select(_leases.c.owner).where(
        _leases.c.volume_id == _volumes.c.id, _on(initiator), _valid(),
    ).order_by(_leases.c.initiator.desc()).limit(1).correlate(_volumes).scalar_subquery()


def is_taken(database: storage_db.Database, volume_id: str, initiator: str) -> bool:
    """Return True if any process holds a valid lease on the pair or on the whole volume."""
    return _any(database, sa.select(_leases.c.volume_id).where(
        _leases.c.volume_id == volume_id, _on(initiator), _valid()))


@storage_db.retried
def leave(database: storage_db.Database, host: str, owner: str) -> int:
    """Release all leases of a process instance that is stopping.

    The deadlines of the attachments of the leased pairs are moved to the past. The next search for
    interrupted attachments then continues the work on these attachments.

    :param host: not used
    :param owner: owner name of the process instance
    :returns: number of attachments whose deadline was moved
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
