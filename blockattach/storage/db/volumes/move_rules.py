"""Rules for the migration and the retype of a volume, checked under the lock of the volume."""
from typing import Any

import sqlalchemy as sa

from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db.types import volume_types
from blockattach.storage.db.volumes import snapshot_rows
from blockattach.storage.domain import records
from blockattach.storage.domain import volume_lifecycle
from blockattach.storage.domain import volume_type

_specs = models.qos_specs
# Cinder's text.
_NO_RETYPE = ('Retype needs volume to be in available or in-use state, not be part of an active '
              'migration or a consistency group, requested type has to be different that the one '
              'from the volume, and for in-use volumes front-end qos specs cannot change.')
_AVAILABLE = volume_lifecycle.OwnStatus.AVAILABLE.value
_IN_USE = volume_lifecycle.RANK_STATUSES[volume_lifecycle.ATTACHED_RANK].status


def check_migration(connection: sa.Connection, row: Any, destination: str) -> None:
    """Raise InvalidVolume if a volume cannot be migrated to a destination.

    :param row: row of the locked volume
    :param destination: ``host@backend``, or ``host@backend#pool``
    """
    if row.own_status == _AVAILABLE and row.lowest_rank is not None:
        raise errors.InvalidVolume(
            reason=f'Volume {row.id} is {row.status}. Migration of volumes in use is not '
                   f'supported. Detach the volume first.')
    found = snapshot_rows.dependants(connection, row.id)
    if (row.own_status != _AVAILABLE or row.migration_status in volume_lifecycle.MOVING
            or row.pool is None or records.host_of(row.pool) == records.host_of(destination)
            or found.has_snapshots):
        raise errors.InvalidVolume(
            reason=f'Volume {row.id} status must be available or in-use, must not be migrating, '
                   f'have snapshots, be replicated, be part of a group and destination '
                   f'host/cluster must be different than the current one')
    if found.is_copied:
        raise errors.InvalidVolume(
            reason=f'Another volume is being created from volume {row.id}. Retry when the '
                   f'operation has finished.')


def check_retype(connection: sa.Connection, row: Any, kind: records.VolumeType) -> None:
    """Raise InvalidVolume if a volume cannot be retyped.

    A volume with attachments can be retyped only if the attachments are not affected.

    :param row: row of the locked volume
    :param kind: new volume type
    """
    if row.own_status != _AVAILABLE or row.status not in (_AVAILABLE, _IN_USE) \
            or row.migration_status in volume_lifecycle.MOVING or row.volume_type_id == kind.id:
        raise errors.InvalidVolume(reason=_NO_RETYPE)
    if row.lowest_rank is None:
        return
    own = volume_types.read(connection, row.volume_type_id)
    modes = [_mode(one) for one in (own, kind)]
    if modes[0] != modes[1]:
        raise errors.InvalidVolume(
            reason=f'Retype cannot change the mode of the volume type from {modes[0]} to '
                   f'{modes[1]} while volume {row.id} is in use, because the existing attachments '
                   f'depend on the mode. Detach the volume first.')
    if not _is_unseen(connection, row, own, kind):
        raise errors.InvalidVolume(reason=_NO_RETYPE)


def _mode(kind: records.VolumeType) -> str:
    single = volume_type.is_single_writer(kind.extra_specs)
    return volume_type.ONE_WRITER if single else volume_type.ALL_WRITE


def _is_unseen(connection: sa.Connection, row: Any, own: records.VolumeType,
               kind: records.VolumeType) -> bool:
    """Return True if a retype does not affect the existing attachments of a volume.

    :param own: present type of the volume
    :param kind: new type of the volume
    """
    now = {name: getattr(row, name) for name in volume_types.columns_of(own)}
    if now | {'volume_type_id': kind.id} != volume_types.columns_of(kind) \
            or own.encryption != kind.encryption:
        return False
    # A host receives the limits that it enforces only when it connects the volume.
    consumers = connection.execute(sa.select(_specs.c.consumer).where(_specs.c.id.in_(
        {own.qos_specs_id, kind.qos_specs_id} - {None}))).scalars()
    return own.qos_specs_id == kind.qos_specs_id or all(
        consumer == volume_type.BACK_END for consumer in consumers)


def may_leave(connection: sa.Connection, row: Any) -> bool:
    """Return True if the data of a locked volume may be moved to another backend.

    This is the case if the volume has no attachments and no snapshots, is not a cached image, and
    is not the source of a volume that is being created.
    """
    return row.lowest_rank is None and not any(snapshot_rows.dependants(connection, row.id))
