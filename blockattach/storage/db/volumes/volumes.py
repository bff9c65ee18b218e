"""Creation and deletion of volumes, and changes of attributes that users set.

Each function that writes does so in one transaction. A function that changes an existing volume
locks the volume, or updates it on condition of its generation.
"""
import dataclasses
import logging
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

import sqlalchemy as sa

from blockattach.platform import log
from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db import rows
from blockattach.storage.db import storage_db
from blockattach.storage.db import work
from blockattach.storage.db.volumes import snapshot_rows
from blockattach.storage.db.volumes import sources
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volume_rows
from blockattach.storage.domain import records
from blockattach.storage.domain import volume_lifecycle

LOG = logging.getLogger(__name__)

_volumes = models.volumes
_Own = volume_lifecycle.OwnStatus
_Event = volume_lifecycle.Event


NOT_DELETABLE = (
    'Volume status must be available or error or error_restoring or error_extending or '
    'error_managing and must not be migrating, attached, belong to a group, have snapshots, '
    'awaiting a transfer, or be disassociated from snapshots after volume transfer.')
Change = Callable[[Mapping[str, str]], Mapping[str, str]]
"""Function that returns the new metadata for the present metadata.

The function may be called repeatedly. If it raises an error, the metadata are not changed.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Draft:
    """Requested properties of a new volume.

    :ivar kind: volume type for which the request was authorized
    """

    project_id: str
    user_id: str
    name: str | None
    description: str | None
    size_gb: int
    kind: records.VolumeType
    availability_zone: str
    metadata: Mapping[str, str]
    hints: Mapping[str, Any] | None = None
    """Scheduler hints of the request; None if there are none."""
    request_id: str | None = None
    source: sources.Source | None = None
    """Source for which the request was authorized; None for an empty volume."""
    progress: Mapping[str, Any] | None = None
    """Initial progress of the creation; None for empty progress."""


class WithSnapshots(NamedTuple):
    """Option to delete a volume together with its snapshots.

    :ivar enabled: True to delete the snapshots; False to refuse the deletion of a volume that has
        snapshots
    :ivar project_id: project that must own all snapshots of the volume; None for any project
    """

    enabled: bool
    project_id: str | None = None


_WITHOUT = WithSnapshots(False)


class Deleting(NamedTuple):
    """Volume whose deletion has started.

    :ivar generation: generation of the volume after the start of the deletion
    :ivar own_status: own status of the volume after the start of the deletion
    :ivar host: ``host@backend`` that deletes the volume; None if the volume had no pool. The
        volume is then deleted already
    """

    id: str
    generation: int
    own_status: volume_lifecycle.OwnStatus
    host: str | None


@storage_db.retried
def create(database: storage_db.Database, draft: Draft, lease_seconds: float,
           within: Callable[[sa.Connection, str], None] | None = None) -> records.Volume:
    """Insert a new volume, and the work of creating the volume. No backend is called yet.

    :param lease_seconds: seconds after which the request to the scheduler is repeated
    :param within: called in the same transaction with the id of the new volume; if ``within``
        raises an error, nothing is written
    :raises VolumeTypeNotFound: the volume type is deleted
    :raises VolumeTypeChanged: the volume type has changed since the request was authorized
    :raises VolumeNotFound, SnapshotNotFound, InvalidVolume, InvalidSnapshot, InvalidInput: the
        source has changed since the request was authorized, see `sources.hold`
    :raises QuotaExceeded, VolumeSizeExceedsLimit: the volume exceeds a quota of the project
    """
    volume_id = database.new_id()
    limits = volume_rows.limits(database, draft.project_id)
    with database.writer(lambda again: _is_there(
            again, draft.kind.id, volume_id)) as connection:
        # The source is locked before the project and the type, as in the lock order of `quotas`.
        made_of = {} if draft.source is None else sources.hold(
            connection, draft.source, draft.size_gb)
        row = volume_rows.insert(
            connection, database, draft.kind, limits, id=volume_id, project_id=draft.project_id,
            user_id=draft.user_id, name=draft.name, description=draft.description,
            size_gb=draft.size_gb, availability_zone=draft.availability_zone,
            **made_of, scheduler_hints=rows.to_json(draft.hints or None))
        if draft.source is not None:
            sources.copy_image(connection, draft.source, volume_id)
        work.begin(connection, database, creation(volume_id, 1), lease_seconds,
                   request_id=draft.request_id, project_id=draft.project_id,
                   progress=dict(draft.progress or {}))
        if draft.metadata:
            connection.execute(models.volume_metadata.insert(), [
                {'volume_id': volume_id, 'key': key, 'value': value}
                for key, value in draft.metadata.items()])
        if within is not None:
            within(connection, volume_id)
        # If the type has no QoS specs, the written values suffice for the record. Otherwise the
        # limits of the volume depend on the row of the QoS specs.
        if draft.kind.qos_specs_id is None:
            made = rows.made_volume(row, draft.kind, draft.metadata)
        else:
            made = volume_queries.read(connection, volume_id, unused=True)
    log.step(LOG, 'Creating volume', volume_id=volume_id, size_gb=draft.size_gb)
    return made


@storage_db.retried
def claim(database: storage_db.Database, volume_id: str, generation: int, pool_name: str,
          service_uuid: str | None) -> int | None:
    """Assign a new volume to a pool, and allocate the space of the volume on the pool.

    The work of creating the volume belongs to the scheduler until the volume service of the pool
    claims it.

    :param service_uuid: UUID of the volume service; None if unknown
    :returns: new generation of the volume; None if the pool is unknown or has not enough space. In
        this case, nothing is written
    :raises StaleGeneration: the volume is no longer waiting for a pool
    """
    with database.writer(volume_rows.stepped(
            volume_id, generation, own_status=_Own.CREATING, pool=pool_name)) as connection:
        done = volume_rows.CLAIM.change(
            connection, volume_id=volume_id, generation=generation, pool=pool_name,
            service_uuid=service_uuid, now=database.clock.utcnow())
        if done != 1:
            # Raises the proper error if the volume is deleted or has changed. Otherwise the volume
            # has a pool already.
            volume_rows.lock_at(connection, volume_id, generation, _Own.CREATING)
            raise errors.StaleGeneration(noun='volume', id=volume_id, generation=generation)
        # Volumes are locked before pools.
        if volume_rows.TAKE.change(connection, volume_id=volume_id, pool=pool_name) != 1:
            connection.rollback()
            return None
    return generation + 1


@storage_db.retried
def unclaim(database: storage_db.Database, volume_id: str, generation: int, lease_seconds: float,
            owner: str | None = None, tried: bool = True,
            say: work.Say = work.silent) -> int:
    """Release the space of a new volume on its pool, so that the volume waits for another pool.

    Data that the volume service may have created on the pool are removed by separate work. Until
    the deadline of the creation, this work belongs to the owner of the creation.

    :param lease_seconds: seconds after which the request to the scheduler is repeated
    :param owner: owner that must have the claim on the creation; None for any owner
    :param tried: True to exclude the pool from further scheduling. If False, the pool is excluded
        only if a volume service has claimed the creation
    :returns: new generation of the volume
    :raises StaleGeneration: another process has continued the creation
    """
    with database.writer(volume_rows.stepped(
            volume_id, generation, own_status=_Own.CREATING, pool=None)) as connection:
        row = volume_rows.lock_at(connection, volume_id, generation, _Own.CREATING)
        mine = creation(volume_id, generation, owner)
        now = work.read(connection, mine)
        volume_rows.release(connection, row)
        volume_rows.move(connection, database, row, _Event.UNCLAIM, pool=None, service_uuid=None)
        progress = rows.from_json(now.progress)
        if row.pool is not None and (tried or now.host is not None):
            progress['tried'] = [*progress.get('tried', ()), row.pool]
        work.change(connection, mine, lease_seconds, generation=generation + 1, host=None,
                    owner=None, progress=rows.to_json(progress))
        # If the work has no host, no volume service has accepted the creation. The pool then has
        # no data of the volume.
        if now.host is not None and row.pool is not None:
            work.replace(connection, database, work.remains(volume_id, row.pool, now.owner),
                         0 if now.owner is None else now.deadline, now.host)
        say(connection)
    LOG.warning('Rescheduling volume creation%s',
                log.fields(volume_id=volume_id, pool=row.pool))
    return generation + 1


@storage_db.retried
def created(database: storage_db.Database, volume_id: str, generation: int,
            shared_targets: bool, owner: str | None = None) -> None:
    """Record that the backend has created a volume.

    :param shared_targets: True if the volume shares a target with other volumes
    :param owner: owner that must have the claim on the creation; None for any owner
    :raises StaleGeneration: another process has continued the creation; the caller must remove the
        created data
    """
    with database.writer(volume_rows.stepped(
            volume_id, generation, own_status=_Own.AVAILABLE)) as connection:
        if volume_rows.CREATED.change(
                connection, volume_id=volume_id, generation=generation,
                shared_targets=shared_targets, now=database.clock.utcnow()) != 1:
            # The statement also fails if the volume has attachments. `move` respects their rank.
            row = volume_rows.lock_at(connection, volume_id, generation, _Own.CREATING)
            if row.pool is None:
                raise errors.StaleGeneration(noun='volume', id=volume_id, generation=generation)
            volume_rows.move(connection, database, row, _Event.CREATED,
                             shared_targets=shared_targets)
        work.end(connection, creation(volume_id, generation, owner))
    log.step(LOG, 'Volume created', volume_id=volume_id)


@storage_db.retried
def start_delete(database: storage_db.Database, volume: records.Judged, lease_seconds: float,
                 force: bool = False, request_id: str | None = None,
                 with_snapshots: WithSnapshots = _WITHOUT) -> Deleting:
    """Start the deletion of a volume. A volume without a pool is deleted at once.

    :param force: True to ignore only the status of the volume and of its snapshots
    :raises VolumeNotFound: the volume is deleted, or belongs to another project
    :raises InvalidVolume: the status does not allow the deletion, the backend is frozen, another
        volume is being created from the volume, or the volume has live attachments, or snapshots
        that must not be deleted
    """
    volume_id = volume.id
    with database.writer(lambda again: volume_rows.stepped(
            volume_id, row.generation, own_status=own_status)(again)) as connection:
        row = volume_rows.lock_judged(connection, volume)
        status_allows = (force or row.own_status in volume_lifecycle.DELETABLE) and (
            row.migration_status not in volume_lifecycle.MOVING)
        found = snapshot_rows.dependants(connection, volume_id)
        if not status_allows or row.lowest_rank is not None or found.is_copied:
            raise errors.InvalidVolume(reason=NOT_DELETABLE)
        snapshots = {} if not found.has_snapshots else _start_delete_snapshots(
            connection, database, volume_id, force, with_snapshots)
        if found.is_cached:
            # From now on, no volume is created from this cached image, even if the deletion fails.
            connection.execute(models.cached_images.delete().where(
                models.cached_images.c.volume_id == volume_id))
        own_status = _Own.GONE if row.pool is None else _Own.DELETING
        host = records.host_of(row.pool)
        # Only with a forced deletion can there be other work on the volume. A resource has at most
        # one work item.
        if force:
            work.end(connection, creation(volume_id, row.generation))
        if row.pool is None:
            volume_rows.remove(connection, database, row, _Event.DISCARD)
        elif volume_rows.is_frozen(connection, row.pool):
            raise errors.InvalidVolume(reason=f'The backend of volume {volume_id} is frozen.')
        else:
            volume_rows.move(connection, database, row,
                             _Event.FORCE_DELETE if force else _Event.DELETE)
            work.begin(connection, database, deletion(volume_id, row.generation + 1),
                       lease_seconds, host, request_id=request_id,
                       project_id=row.project_id, progress={
                           'was': volume_lifecycle.WITHOUT_WORK.get(row.own_status,
                                                                    row.own_status),
                           'snapshots': snapshots})
    if own_status is _Own.GONE:
        log.step(LOG, 'Volume deleted', volume_id=volume_id)
    else:
        log.step(LOG, 'Deleting volume', volume_id=volume_id, pool=row.pool)
    return Deleting(volume_id, row.generation + 1, own_status, host)


@storage_db.retried
def leave_remains(database: storage_db.Database, volume: records.Volume,
                  retry_seconds: float) -> None:
    """Schedule the removal of data that a volume has left on a pool.

    :param volume: the volume; its attribute ``pool`` must be the pool with the data
    :param retry_seconds: seconds until the removal is attempted
    """
    pool = volume.pool or ''
    with database.writer() as connection:
        work.replace(connection, database, work.remains(volume.id, pool), retry_seconds,
                     records.host_of(pool))


@storage_db.retried
def set_readonly(database: storage_db.Database, volume: records.Judged, readonly: bool) -> None:
    """Set the read-only flag of a volume. The flag determines the mode of later attachments.

    :raises VolumeNotFound: the volume is deleted, or belongs to another project
    :raises InvalidVolume: the volume is not available, or the flag is to be removed from a cached
        image from which a volume is being created
    """
    with database.writer() as connection:
        row = volume_rows.lock_judged(connection, volume)
        if row.status != _Own.AVAILABLE:
            raise errors.InvalidVolume(
                reason=f'Volume {row.id} status must be available to update readonly flag, '
                       f'but current status is: {row.status}.')
        # As long as the volume is read-only, no host can change the data that are being copied.
        if not readonly:
            snapshot_rows.keep_cached(connection, row.id)
        volume_rows.update(connection, row, readonly=readonly,
                           updated_at=database.clock.utcnow())


def creation(volume_id: str, generation: int, owner: str | None = None) -> records.Claim:
    """Return the claim on creating a volume.

    :param owner: process instance; None for any owner
    """
    return records.Claim('volume', volume_id, 'create', generation, owner)


def deletion(volume_id: str, generation: int, owner: str | None = None) -> records.Claim:
    """Return the claim on deleting a volume.

    :param owner: process instance; None for any owner
    """
    return records.Claim('volume', volume_id, 'delete', generation, owner)


def _is_there(connection: sa.Connection, volume_type_id: str, volume_id: str) -> bool:
    types = models.volume_types
    # The transaction that creates the volume holds a shared lock on the type. Wait for its end.
    connection.execute(sa.select(types.c.id).where(types.c.id == volume_type_id)
                       .with_for_update())
    return connection.execute(sa.select(_volumes.c.id).where(
        _volumes.c.id == volume_id)).one_or_none() is not None


def _start_delete_snapshots(connection: sa.Connection, database: storage_db.Database,
                            volume_id: str, force: bool, option: WithSnapshots) -> dict[str, str]:
    if not option.enabled:
        raise errors.InvalidVolume(reason=NOT_DELETABLE)
    try:
        return snapshot_rows.delete_with(connection, database, volume_id, force,
                                         option.project_id)
    except errors.InvalidSnapshot as exc:
        raise errors.InvalidVolume(reason=f'{NOT_DELETABLE} {exc}') from exc


@storage_db.retried
def update(database: storage_db.Database, volume: records.Judged, values: Mapping[str, Any],
           metadata: Mapping[str, str] | None = None) -> records.Volume:
    """Update the ``name``, ``description`` or ``bootable`` columns of a volume, and its metadata.

    :param values: new values by column name
    :param metadata: new metadata, which replace all present metadata; None to keep the present
        metadata
    :raises VolumeNotFound: the volume is deleted, or belongs to another project
    :raises InvalidVolume: the volume is in maintenance
    """
    volume_id = volume.id
    with database.writer() as connection:
        row = volume_rows.lock_judged(connection, volume)
        if row.own_status == _Own.MAINTENANCE:
            raise errors.InvalidVolume(
                reason='The volume cannot be updated during maintenance.')
        volume_rows.update(connection, row, **values, updated_at=database.clock.utcnow())
        if metadata is not None:
            _replace(connection, models.volume_metadata, volume_id, metadata)
        changed = volume_queries.read(connection, volume_id)
    log.step(LOG, 'Volume updated', volume_id=volume_id,
             keys=','.join([*values, *(['metadata'] if metadata else [])]))
    return changed


@storage_db.retried
def change_metadata(database: storage_db.Database, volume: records.Judged,
                    change: Change) -> Mapping[str, str]:
    """Change the metadata of a volume, and return the resulting metadata.

    :param change: function that returns the new metadata, see `Change`
    :raises VolumeNotFound: the volume is deleted, or belongs to another project
    :raises InvalidVolume: the volume is in maintenance or being uploaded
    """
    with database.writer() as connection:
        changed = _change(connection, models.volume_metadata, volume, change)
    log.step(LOG, 'Volume metadata updated', volume_id=volume.id)
    return changed


@storage_db.retried
def change_image_metadata(database: storage_db.Database, volume: records.Judged,
                          change: Change) -> Mapping[str, str]:
    """Change the image metadata of a volume, and return the resulting metadata.

    Raises the errors of `change_metadata`.
    """
    with database.writer() as connection:
        changed = _change(connection, models.volume_image_metadata, volume, change)
    log.step(LOG, 'Volume image metadata updated', volume_id=volume.id)
    return changed


def _change(connection: sa.Connection, table: sa.Table, volume: records.Judged,
            change: Change) -> Mapping[str, str]:
    row = volume_rows.lock_judged(connection, volume)
    if row.own_status in (_Own.MAINTENANCE, _Own.UPLOADING):
        raise errors.InvalidVolume(
            reason=f'Updating volume metadata is not allowed for volumes in {row.own_status} '
                   f'status.')
    volume_rows.claim(connection, row)
    changed = change(_read(connection, table, row.id))
    _replace(connection, table, row.id, changed)
    return changed


def _read(connection: sa.Connection, table: sa.Table, volume_id: str) -> dict[str, str]:
    return {row.key: row.value for row in connection.execute(
        sa.select(table.c.key, table.c.value).where(table.c.volume_id == volume_id))}


def _replace(connection: sa.Connection, table: sa.Table, volume_id: str,
             pairs: Mapping[str, str]) -> None:
    """Replace the metadata of a volume. Unchanged items are not written."""
    before = _read(connection, table, volume_id)
    old = [key for key, value in before.items() if pairs.get(key) != value]
    if old:
        connection.execute(table.delete().where(
            table.c.volume_id == volume_id, table.c.key.in_(old)))
    new = [{'volume_id': volume_id, 'key': key, 'value': value}
           for key, value in pairs.items() if before.get(key) != value]
    if new:
        connection.execute(table.insert(), new)
