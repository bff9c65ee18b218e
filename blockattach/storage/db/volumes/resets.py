"""Resets of the status of a volume, by os-reset_status or after a forced detach."""
from typing import Any

import sqlalchemy as sa

from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db import storage_db
from blockattach.storage.db import work
from blockattach.storage.db.volumes import volume_rows
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import records
from blockattach.storage.domain import reset_rule
from blockattach.storage.domain import volume_lifecycle

_volumes = models.volumes
_Event = volume_lifecycle.Event
_Own = volume_lifecycle.OwnStatus


def reset_facts(database: storage_db.Database, volume_id: str, requested: reset_rule.Requested,
                ) -> reset_rule.Facts:
    """Return the facts by which `reset_rule.decide` decides on a request. Nothing is written.

    :raises VolumeNotFound: there is no such live volume
    """
    with database.reader() as connection:
        row = connection.execute(_volumes.select().where(
            _volumes.c.id == volume_id, volume_rows.LIVE)).one_or_none()
        if row is None:
            raise errors.VolumeNotFound(volume_id=volume_id)
        return _reset_facts(connection, row, requested)


@storage_db.retried
def reset_status(database: storage_db.Database, volume: records.Judged,
                 requested: reset_rule.Requested) -> reset_rule.Facts:
    """Reset the own status and the migration status of a volume, if `reset_rule` allows the reset.

    :returns: facts by which `reset_rule.decide` has decided. Nothing was written if the outcome is
        not ``ALLOWED``
    :raises VolumeNotFound: the volume is deleted, or belongs to another project
    """
    with database.writer() as connection:
        row = volume_rows.lock_judged(connection, volume)
        # The facts are read again under the lock, because they may have changed since
        # `reset_facts`.
        facts = _reset_facts(connection, row, requested)
        if reset_rule.decide(facts).outcome is not reset_rule.Outcome.ALLOWED:
            return facts
        if requested.migration_status is not None:
            moving = requested.migration_status
            connection.execute(_volumes.update().where(_volumes.c.id == row.id).values(
                migration_status=None if moving == reset_rule.NO_MIGRATION else moving,
                updated_at=database.clock.utcnow()))
        if requested.status is not None:
            if facts.is_derived and requested.status == facts.from_attachments \
                    and row.detach_announced:
                # The announced detaches will not take place, so the reset withdraws them.
                volume_rows.store_rank(connection, database, row, row.lowest_rank, 0)
                # `move` derives the status from the row, so it needs the row with this change.
                row = volume_rows.lock_judged(connection, volume)
            volume_rows.move(connection, database, row, _Event.RESET, facts.own_status_then)
            work.end(connection, volumes.creation(row.id, row.generation))
    return facts


@storage_db.retried
def clear(database: storage_db.Database, volume_id: str, project_id: str) -> None:
    """Set a volume to the status that its attachments imply, after a forced detach.

    Only an own status in `volume_lifecycle.CLEARED_BY_FORCE` is cleared. The volume keeps its own
    status if an operation on the volume is in progress, if no backend has created the volume, or
    if the volume is deleted or belongs to another project.

    :param project_id: project for which the forced detach was authorized
    """
    with database.writer() as connection:
        # If the volume was deleted or transferred in the meantime, no error is raised, because the
        # forced detach itself has succeeded.
        row = volume_rows.await_others(connection, volume_id)
        if row is not None and row.project_id == project_id \
                and row.own_status in volume_lifecycle.CLEARED_BY_FORCE \
                and not _is_at_work(connection, row) and _is_made(row):
            volume_rows.move(connection, database, row, _Event.RESET, _Own.AVAILABLE)


def _reset_facts(connection: sa.Connection, row: Any,
                 requested: reset_rule.Requested) -> reset_rule.Facts:
    return reset_rule.Facts(
        requested=requested, own_status=row.own_status,
        at_work=_is_at_work(connection, row), made=_is_made(row), lowest_rank=row.lowest_rank,
        shown=row.status)


def _is_at_work(connection: sa.Connection, row: Any) -> bool:
    return work.find(connection, 'volume', row.id) is not None


def _is_made(row: Any) -> bool:
    # ``shared_targets`` is true until a backend has created the volume and reports False.
    return not row.shared_targets
