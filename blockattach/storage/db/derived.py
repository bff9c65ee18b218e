"""Recalculation of derived columns, for a command with which an operator repairs the database.

The services do not need this module, because they write derived columns in the same transaction as
the columns from which they are derived.
"""
from typing import Any

import sqlalchemy as sa
from oslo_log import log as oslo_log

from blockattach.platform import log
from blockattach.platform.db import clock
from blockattach.storage.db import models
from blockattach.storage.db import storage_db
from blockattach.storage.db import work
from blockattach.storage.db.attachments import grants
from blockattach.storage.db.volumes import claims
from blockattach.storage.db.volumes import snapshot_rows
from blockattach.storage.db.volumes import volume_rows
from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import records
from blockattach.storage.domain import volume_lifecycle

LOG = oslo_log.getLogger(__name__)

_rows = models.attachments
_grants = models.grants
_volumes = models.volumes
_pools = models.pools
_Own = volume_lifecycle.OwnStatus
_REMEMBERING = frozenset({
    _Own.REVERTING, _Own.MANAGING, _Own.UNMANAGING, _Own.DOWNLOADING, _Own.UPLOADING,
    _Own.MIGRATING, _Own.MIGRATING_LOCKED, _Own.RETYPING})
"""Own statuses whose work cannot be recreated, because its progress contains the request."""
_VERBS: dict[str, str] = {_Own.DELETING: 'delete', _Own.EXTENDING: 'extend'}


@storage_db.retried
def volume_status(database: storage_db.Database, volume_id: str) -> None:
    """Recalculate everything that is derived from a volume, its snapshots and its attachments.

    These are the ranks and slots of the attachments, the grants, the work on the volume and its
    snapshots, the claimed space, and the status of the volume. A connecting or disconnecting
    attachment without a deadline gets a deadline that has passed, so that its work is resumed. For
    an own status in `_REMEMBERING`, the work on the volume is left unchanged. The volume is locked
    meanwhile.

    :raises VolumeNotFound: there is no such live volume
    """
    with database.writer() as connection:
        row = volume_rows.lock(connection, volume_id)
        _derive_rows(connection, volume_id)
        initiators = set()
        for names in connection.execute(
                sa.select(_rows.c.initiator, _rows.c.previous_initiator).where(
                    _rows.c.volume_id == volume_id, _rows.c.deleted == sa.false())):
            initiators |= set(filter(None, names))
        for initiator in sorted(initiators):
            grants.ensure(connection, database, volume_id, initiator)
        grants.drop_unused(connection, volume_id, connection.execute(
            sa.select(_grants.c.initiator).where(_grants.c.volume_id == volume_id)).scalars())
        # ``shared_targets`` is true until a backend has created the volume. A volume with data can
        # have the own status creating after a reset, and must not be created again.
        at_work = row.own_status in (_Own.DELETING, _Own.EXTENDING) or (
            row.own_status == _Own.CREATING and row.shared_targets)
        if row.own_status not in _REMEMBERING:
            _derive_work(connection, database, row, at_work)
        snapshot_rows.derive_work(connection, database, row)
        if row.own_status not in volume_lifecycle.CLAIMING:
            freed = claims.give_back(connection, row)
            if freed:
                connection.execute(_volumes.update().where(
                    _volumes.c.id == volume_id).values(**freed))
        lowest = connection.execute(sa.select(sa.func.min(_rows.c.rank)).where(
            _rows.c.volume_id == volume_id)).scalar_one()
        volume_rows.store_rank(connection, database, row, lowest)
    LOG.warning('Derived columns of volume recalculated%s',
                log.fields(volume_id=volume_id))


def _derive_work(connection: sa.Connection, database: storage_db.Database, row: Any,
                 at_work: bool) -> None:
    claim = records.Claim('volume', row.id, _VERBS.get(row.own_status, 'create'), row.generation,
                          None)
    if not at_work:
        work.end(connection, claim)
    elif work.find(connection, claim.noun, row.id) is None:
        # The former progress is lost. The new size of an extension follows from the columns of
        # the volume.
        progress = {'new_size': row.size_gb + (row.claimed_gb or 0)} \
            if row.own_status == _Own.EXTENDING else {}
        work.begin(connection, database, claim, work.PASSED, records.host_of(row.pool),
                   project_id=row.project_id, progress=progress)


def _derive_rows(connection: sa.Connection, volume_id: str) -> None:
    found = connection.execute(sa.select(
        _rows.c.id, _rows.c.state, _rows.c.legacy_reservation, _rows.c.rank, _rows.c.slot,
        _rows.c.deadline, _rows.c.deleted).where(_rows.c.volume_id == volume_id)).all()
    for one in found:
        state = attachment_lifecycle.State(one.state)
        values = {'rank': attachment_lifecycle.rank_of(state, one.legacy_reservation),
                  'deleted': state is attachment_lifecycle.State.GONE,
                  'slot': None if state is attachment_lifecycle.State.GONE else one.slot}
        differs = any(getattr(one, name) != value for name, value in values.items())
        at_work = state in attachment_lifecycle.TRANSITIONAL
        if at_work != (one.deadline is not None):
            # The work is due at once, because no owner is known.
            values['deadline'], differs = clock.now() if at_work else None, True
        if differs:
            connection.execute(_rows.update().where(_rows.c.id == one.id).values(**values))


@storage_db.retried
def counts(database: storage_db.Database) -> None:
    """Recalculate the allocated space of all pools from the volumes on each pool."""
    given = (sa.select(sa.func.coalesce(sa.func.sum(size), 0)).where(
        pool == _pools.c.name, volume_rows.LIVE).scalar_subquery() for pool, size in claims.GIVEN)
    with database.writer() as connection:
        connection.execute(_pools.update().values(allocated_gb=sum(given, sa.literal(0))))
    LOG.warning('Allocated space of pools recalculated')
