"""Leases: which process acts on a backend now, where several serve it. Judged in database time.

There are two kinds in one table, of which a process has one before it acts and until it has
recorded the act:

* of a pair: one initiator of a volume is granted or revoked; pairs go on side by side;
* of a volume as a whole, with no initiator: it is acted on while no pair of it is.

A process writes its own lease first and looks for the other kind then, each in a transaction of
its own: of two that begin at the same moment at least one sees the other. A lease is lost when its
deadline has passed and another process has taken it. What an earlier process instance of a service
holds is the next one's at once.
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
"""In place of an initiator: the volume as a whole."""
_FORGOTTEN_SECONDS = 86400
_PASSED = -0.001


def owner_of(service: str, instance: str) -> str:
    """The name of one process instance of a service (``host@backend``)."""
    return f'{service}{services.INSTANCE}{instance}'


class Lease(NamedTuple):
    """Of a pair or of a volume (`WHOLE`), and its owner; see `owner_of`."""

    volume_id: str
    initiator: str
    owner: str


@storage_db.retried
def take(database: storage_db.Database, wanted: Lease, seconds: float) -> bool:
    """Have it from now on, for so many seconds at most; False: another process has it.

    The usual case, that it is free, is one statement. What excludes it is looked for afterwards
    (`is_excluded`).
    """
    try:
        with database.writer() as connection:
            connection.execute(_leases.insert().values(
                **wanted._asdict(), deadline=clock.now(seconds)))
        return True
    except db_exception.DBDuplicateEntry:
        with database.writer() as connection:
            return connection.execute(_leases.update().where(
                _of(wanted), sa.or_(services.of_service(_leases.c.owner, wanted.owner),
                                    _leases.c.deadline < clock.now()))
                .values(owner=wanted.owner, deadline=clock.now(seconds))).rowcount == 1


@storage_db.retried
def give_back(database: storage_db.Database, held: Lease) -> None:
    """Let others have it; one that is lost already stays with its new holder."""
    with database.writer() as connection:
        connection.execute(_own(held))


def giving_back(held: Lease) -> Callable[[sa.Connection], None]:
    """Release it within the transaction that records the act.

    What is returned raises BackendUncertain if it was lost before.
    """
    def within(connection: sa.Connection) -> None:
        if connection.execute(_own(held)).rowcount != 1:
            raise errors.BackendUncertain(
                reason=f'the lease on volume {held.volume_id} expired during the operation')
    return within


def is_excluded(database: storage_db.Database, held: Lease) -> bool:
    """Whether another service acts on a pair of the volume, or for a pair on the volume."""
    others = _leases.c.initiator == WHOLE
    return _any(database, sa.select(_leases.c.volume_id).where(
        _leases.c.volume_id == held.volume_id, ~others if held.initiator == WHOLE else others,
        ~services.of_service(_leases.c.owner, held.owner), _valid()))


@storage_db.retried
def forget(database: storage_db.Database) -> int:
    """Remove leases whose deadlines passed long ago; returns how many."""
    old = _leases.c.deadline < clock.now(-_FORGOTTEN_SECONDS)
    with database.reader() as connection:
        found = connection.execute(
            sa.select(_leases.c.volume_id, _leases.c.initiator).where(old)).all()
    # One by one, by the key: a range would lock what others take meanwhile.
    for row in found:
        with database.writer() as connection:
            connection.execute(_leases.delete().where(
                _leases.c.volume_id == row.volume_id, _leases.c.initiator == row.initiator, old))
    return len(found)


def of_earlier_instance(volume_id: sa.ColumnElement[str], *initiators: sa.ColumnElement[str],
                    owner: str) -> sa.ColumnElement[bool]:
    """Whether a pair is held by an earlier instance of the owner's service."""
    return sa.exists().where(
        _leases.c.volume_id == volume_id, _leases.c.initiator.in_(initiators),
        services.of_service(_leases.c.owner, owner), _leases.c.owner != owner)


def holder(initiator: str | sa.BindParameter[str]) -> sa.ColumnElement[str | None]:
    """In a query for volumes: the owner of a lease of the pair or of the volume; NULL: none."""
    return sa.select(_leases.c.owner).where(
        _leases.c.volume_id == _volumes.c.id, _on(initiator), _valid(),
    ).order_by(_leases.c.initiator.desc()).limit(1).correlate(_volumes).scalar_subquery()


def is_taken(database: storage_db.Database, volume_id: str, initiator: str) -> bool:
    """Whether anybody has the lease of the pair or of the volume."""
    return _any(database, sa.select(_leases.c.volume_id).where(
        _leases.c.volume_id == volume_id, _on(initiator), _valid()))


@storage_db.retried
def leave(database: storage_db.Database, host: str, owner: str) -> int:
    """End the leases of a process that ends: what it was at is overdue, the next look goes on.

    :param host: the ``host@backend`` that it serves
    :returns: how many attachments others may take on now
    """
    mine = _leases.c.owner == owner
    with database.writer() as connection:
        pairs = connection.execute(
            sa.select(_leases.c.volume_id, _leases.c.initiator).where(mine)).all()
        released = 0
        for pair in pairs:
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


def _of(one: Lease) -> sa.ColumnElement[bool]:
    return sa.and_(_leases.c.volume_id == one.volume_id,
                   _leases.c.initiator == one.initiator)


def _any(database: storage_db.Database, query: sa.Select) -> bool:
    with database.reader() as connection:
        return connection.execute(query.limit(1)).first() is not None
