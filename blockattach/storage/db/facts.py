"""Facts in the database on which `blockattach.storage.domain.invariants` are checked."""
import datetime

import sqlalchemy as sa

from blockattach.platform.db import clock
from blockattach.storage.db import models
from blockattach.storage.db import storage_db
from blockattach.storage.db.volumes import sources
from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain.invariants import observed

_volumes = models.volumes
_work = models.work
_rows = models.attachments
_grants = models.grants
_leases = models.leases
_pools = models.pools
_transfers = models.transfers
_snapshots = models.snapshots


# The columns are in the order of the fields of the fact classes. The queries are built only once,
# because the simulation executes them after every operation.
_VOLUMES = sa.select(
    _volumes.c.id, _volumes.c.own_status, _volumes.c.lowest_rank, _volumes.c.status,
    _volumes.c.attach_status, _volumes.c.multiattach, _volumes.c.single_writer,
    _volumes.c.detach_announced, _volumes.c.size_gb, _volumes.c.pool, _volumes.c.deleted,
    _volumes.c.shared_targets == sa.false(),
    sa.exists().where(_transfers.c.volume_id == _volumes.c.id),
    _volumes.c.claimed_pool, _volumes.c.claimed_gb, sources.IS_COPY, sources.SOURCE_POOL,
    _volumes.c.project_id,
    ).where(models.live(_volumes))
_ATTACHMENTS = sa.select(
    _rows.c.id, _rows.c.volume_id, _rows.c.project_id, _rows.c.instance_uuid, _rows.c.state,
    _rows.c.legacy_reservation, _rows.c.rank, _rows.c.slot, _rows.c.mode,
    # Targets report canonical names, but rows of an earlier release may have another form.
    sa.func.lower(_rows.c.initiator), sa.func.lower(_rows.c.previous_initiator),
    _rows.c.connection.is_not(None), _rows.c.deleted,
    _rows.c.deadline).where(sa.or_(
        # A deleted row can violate an invariant only by a slot, a rank, a deadline, or a state
        # other than GONE.
        models.live(_rows), _rows.c.slot.is_not(None), _rows.c.rank.is_not(None),
        _rows.c.deadline.is_not(None), _rows.c.state != attachment_lifecycle.State.GONE.value))
_WORK = sa.union_all(
    sa.select(_work.c.noun, _work.c.resource_id, _work.c.verb, _work.c.deadline),
    sa.select(sa.literal('attachment'), _rows.c.id, _rows.c.state, _rows.c.deadline).where(
        _rows.c.deadline.is_not(None)))
_GRANTS = sa.select(_grants.c.volume_id, sa.func.lower(_grants.c.initiator), _grants.c.alias,
                    _grants.c.username)
_SNAPSHOTS = sa.select(
    _snapshots.c.id, _snapshots.c.volume_id, _snapshots.c.status, _snapshots.c.status_reset,
    _snapshots.c.pool).where(models.live(_snapshots))
_POOLS = sa.select(_pools.c.name, _pools.c.allocated_gb, _pools.c.limit_gb)


def read(database: storage_db.Database) -> observed.Facts:
    """Return the facts that the database contains. Facts about targets are not included."""
    with database.reader() as connection:
        # Deadlines are in database time.
        now = connection.execute(sa.select(clock.now())).scalar_one()
        attachments = tuple(
            observed.AttachmentFact(*(*values, _overdue(deadline, now)))
            for *values, deadline in connection.execute(_ATTACHMENTS))
        leased = sa.select(_leases.c.volume_id, sa.func.lower(_leases.c.initiator)).where(
            _leases.c.deadline >= clock.now())
        return observed.Facts(
            volumes=tuple(observed.VolumeFact(*row) for row in connection.execute(_VOLUMES)),
            attachments=attachments,
            work=tuple(observed.WorkFact(noun, resource_id, verb, (now - end).total_seconds())
                       for noun, resource_id, verb, end in connection.execute(_WORK)),
            grants=tuple(observed.GrantFact(*row) for row in connection.execute(_GRANTS)),
            snapshots=tuple(observed.SnapshotFact(*row)
                            for row in connection.execute(_SNAPSHOTS)),
            pools=tuple(observed.PoolFact(*row) for row in connection.execute(_POOLS)),
            busy=frozenset((volume_id, initiator) for volume_id, initiator
                           in connection.execute(leased)) | _at_work(attachments))


def _overdue(deadline: datetime.datetime | None, now: datetime.datetime) -> float | None:
    return None if deadline is None else (now - deadline).total_seconds()


def _at_work(attachments: tuple[observed.AttachmentFact, ...]) -> frozenset[tuple[str, str]]:
    return frozenset((row.volume_id, name) for row in attachments
                     if row.overdue is not None and row.overdue < 0 for name in row.initiators)
