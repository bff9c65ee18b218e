"""Table of the operations on volumes and snapshots that are executed as work.

The noun of an operation is the kind of its resource, and the verb is its name, such as ``extend``.
The common code that ends work (`work_ends`) takes from this table how the resource changes, which
sentence is logged, and which user message is created. An outcome that is absent from the table is
implemented in a module of the resource. The start of each operation is also implemented there.
"""
import dataclasses
import enum
import logging
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

import sqlalchemy as sa

from blockattach.storage.db import storage_db
from blockattach.storage.db.volumes import claims
from blockattach.storage.db.volumes import snapshot_rows
from blockattach.storage.db.volumes import volume_images
from blockattach.storage.db.volumes import volume_rows
from blockattach.storage.domain import messages
from blockattach.storage.domain import snapshots
from blockattach.storage.domain import volume_lifecycle

_Own = volume_lifecycle.OwnStatus
_Event = volume_lifecycle.Event
_Change = snapshots.Event
Status = volume_lifecycle.OwnStatus | snapshots.Status


class Ended(NamedTuple):
    """Argument of `Ending.values`: work that ends, and the transaction in which it ends.

    :ivar row: row of the locked resource
    :ivar progress: progress of the work; empty if `Ending.reads` is False
    """

    connection: sa.Connection
    database: storage_db.Database
    row: Any
    progress: Mapping[str, Any]


class Cancels(enum.Enum):
    """Phase in which work can be cancelled, provided that no process is executing the work."""

    UNPLACED = 'before a manager has accepted the work'
    UNBEGUN = 'before the first attempt'
    ALWAYS = 'at any time'


def _nothing(ended: Ended) -> Mapping[str, Any]:
    return {}


class Ending(NamedTuple):
    """Outcome of work, with the changes and the log sentence that belong to the outcome.

    :ivar event: event that is applied to the resource
    :ivar sentence: log sentence
    :ivar values: function that changes other rows within the transaction, and returns further
        columns of the resource
    :ivar chosen: function that returns the new status of the resource from the progress that the
        row of the work stores; None if the event determines the new status
    :ivar reads: True if ``values`` or ``chosen`` needs the stored progress
    :ivar level: log level of ``sentence``; not used for the outcome ``done``
    """

    event: volume_lifecycle.Event | snapshots.Event
    sentence: str
    values: Callable[[Ended], Mapping[str, Any]] = _nothing
    chosen: Callable[[Mapping[str, Any]], Status] | None = None
    reads: bool = False
    level: int = logging.WARNING


@dataclasses.dataclass(frozen=True, slots=True)
class Verb:
    """Operation that is executed as work, with the outcomes that are in the table.

    :ivar noun: kind of the resource, ``volume`` or ``snapshot``
    :ivar at: own statuses of a volume while the work is in progress; empty for snapshots
    :ivar done: outcome if the backend has completed the work
    :ivar failed: outcome if the backend has refused the work permanently
    :ivar refused: outcome if the scheduler has found no pool
    :ivar cancelled: outcome if an administrator has cancelled the work
    :ivar failed_message: user message for the outcomes failed and refused. The reason is appended
    :ivar cancelled_message: user message for the outcome cancelled; None for no message
    """

    noun: str
    name: str
    at: tuple[volume_lifecycle.OwnStatus, ...]
    cancelled: Ending
    done: Ending | None = None
    failed: Ending | None = None
    refused: Ending | None = None
    cancels: Cancels = Cancels.UNBEGUN
    failed_message: messages.Text | None = None
    cancelled_message: messages.Text | None = None

    @property
    def full_name(self) -> str:
        """Name of the operation with its noun, such as ``volume.extend``."""
        return f'{self.noun}.{self.name}'


def _give_up_pool(ended: Ended) -> Mapping[str, Any]:
    volume_rows.release(ended.connection, ended.row)
    return {'pool': None, 'service_uuid': None}


def _bury(ended: Ended) -> Mapping[str, Any]:
    volume_rows.release(ended.connection, ended.row)
    return volume_rows.bury(ended.connection, ended.database, ended.row)


def _keep_snapshots_in_error(ended: Ended) -> Mapping[str, Any]:
    # On MariaDB, a locking read of a volume without snapshots would lock the gap between rows.
    if snapshot_rows.dependants(ended.connection, ended.row.id).has_snapshots:
        snapshot_rows.cannot_delete_with(ended.connection, ended.database, ended.row.id)
    return {}


def _keep_snapshots(ended: Ended) -> Mapping[str, Any]:
    if ended.progress.get('snapshots'):
        snapshot_rows.keep(ended.connection, ended.database, ended.row.id,
                           ended.progress['snapshots'])
    return {}


def _former_status(progress: Mapping[str, Any]) -> Status:
    return _Own(progress['was'])


def _size_of_claim(ended: Ended) -> Mapping[str, Any]:
    return {**claims.NONE, 'size_gb': ended.row.claimed_gb, 'shared_targets': False}


def _leave_storage(ended: Ended) -> Mapping[str, Any]:
    return {'pool': None, 'service_uuid': None, **claims.give_back(ended.connection, ended.row)}


def _failed_migration(ended: Ended) -> Mapping[str, Any]:
    # A retype that has not started to migrate the volume leaves its migration status unchanged.
    row = ended.row
    begun = row.own_status != _Own.RETYPING or row.migration_status in volume_lifecycle.MOVING
    return {'migration_status': 'error'} if begun else {}


def _keep_image_metadata(ended: Ended) -> Mapping[str, Any]:
    image = volume_images.image_of(ended.progress)
    assert image is not None
    volume_images.keep_metadata(ended.connection, ended.row.id, image)
    return {'bootable': True, 'shared_targets': False}


def _former_snapshot_status(progress: Mapping[str, Any]) -> Status:
    return snapshots.settled(progress['was'])


def _whole(ended: Ended) -> Mapping[str, Any]:
    return {'progress': snapshots.WHOLE}


CREATE = Verb(
    'volume', 'create', (_Own.CREATING,),
    refused=Ending(_Event.CREATE_FAILED, 'Failed to create volume', _give_up_pool),
    cancelled=Ending(_Event.CREATE_FAILED, 'Volume creation cancelled', _give_up_pool),
    cancels=Cancels.UNPLACED, failed_message=messages.DRIVER_CREATE_FAILED,
    cancelled_message=messages.CREATE_CANCELLED)
DELETE = Verb(
    'volume', 'delete', (_Own.DELETING,),
    done=Ending(_Event.DELETED, 'Volume deleted', _bury),
    failed=Ending(_Event.DELETE_FAILED, 'Failed to delete volume', _keep_snapshots_in_error,
                  level=logging.ERROR),
    cancelled=Ending(_Event.DELETE_CANCELLED, 'Volume deletion cancelled', _keep_snapshots,
                     _former_status, reads=True),
    failed_message=messages.DELETE_FAILED)
EXTEND = Verb(
    'volume', 'extend', (_Own.EXTENDING,),
    failed=Ending(_Event.EXTEND_FAILED, 'Failed to extend volume', level=logging.ERROR),
    refused=Ending(_Event.EXTEND_REFUSED, 'Failed to extend volume'),
    cancelled=Ending(_Event.EXTEND_REFUSED, 'Volume extend cancelled'),
    cancels=Cancels.UNPLACED, failed_message=messages.EXTEND_FAILED,
    cancelled_message=messages.EXTEND_CANCELLED)
MANAGE = Verb(
    'volume', 'manage', (_Own.MANAGING,),
    done=Ending(_Event.MANAGED, 'Volume managed', _size_of_claim),
    failed=Ending(_Event.MANAGE_FAILED, 'Failed to manage volume', _leave_storage,
                  level=logging.ERROR),
    refused=Ending(_Event.MANAGE_FAILED, 'Failed to manage volume', _leave_storage),
    cancelled=Ending(_Event.MANAGE_FAILED, 'Volume manage cancelled', _leave_storage),
    cancels=Cancels.UNPLACED, failed_message=messages.MANAGE_FAILED,
    cancelled_message=messages.MANAGE_CANCELLED)
UNMANAGE = Verb(
    'volume', 'unmanage', (_Own.UNMANAGING,),
    done=Ending(_Event.UNMANAGED, 'Volume unmanaged', _bury),
    failed=Ending(_Event.UNMANAGE_FAILED, 'Failed to unmanage volume', chosen=_former_status,
                  reads=True, level=logging.ERROR),
    cancelled=Ending(_Event.UNMANAGE_FAILED, 'Volume unmanage cancelled', chosen=_former_status,
                     reads=True),
    failed_message=messages.UNMANAGE_FAILED, cancelled_message=messages.UNMANAGE_CANCELLED)
MIGRATE = Verb(
    'volume', 'migrate', (_Own.MIGRATING, _Own.MIGRATING_LOCKED),
    refused=Ending(_Event.MIGRATED, 'Failed to migrate volume', _failed_migration),
    cancelled=Ending(_Event.MIGRATED, 'Volume migration cancelled', _failed_migration),
    cancels=Cancels.UNPLACED, failed_message=messages.MIGRATE_FAILED,
    cancelled_message=messages.MIGRATE_CANCELLED)
RETYPE = Verb(
    'volume', 'retype', (_Own.RETYPING,),
    refused=Ending(_Event.RETYPED, 'Failed to retype volume', _failed_migration),
    cancelled=Ending(_Event.RETYPED, 'Volume retype cancelled', _failed_migration),
    cancels=Cancels.UNPLACED, failed_message=messages.RETYPE_FAILED,
    cancelled_message=messages.RETYPE_CANCELLED)
DOWNLOAD = Verb(
    'volume', 'download', (_Own.DOWNLOADING,),
    done=Ending(_Event.DOWNLOADED, 'Image downloaded to volume', _keep_image_metadata,
                reads=True),
    failed=Ending(_Event.DOWNLOAD_FAILED, 'Failed to download image to volume'),
    cancelled=Ending(_Event.DOWNLOAD_FAILED, 'Image download to volume cancelled'),
    cancels=Cancels.ALWAYS, failed_message=messages.DOWNLOAD_FAILED,
    cancelled_message=messages.DOWNLOAD_CANCELLED)
REIMAGE = dataclasses.replace(
    DOWNLOAD, name='reimage',
    done=Ending(_Event.DOWNLOADED, 'Volume reimaged', _keep_image_metadata, reads=True),
    failed=Ending(_Event.DOWNLOAD_FAILED, 'Failed to reimage volume'),
    cancelled=Ending(_Event.DOWNLOAD_FAILED, 'Volume reimage cancelled'),
    failed_message=messages.REIMAGE_FAILED,
    cancelled_message=messages.REIMAGE_CANCELLED)
UPLOAD = Verb(
    'volume', 'upload', (_Own.UPLOADING,),
    done=Ending(_Event.UPLOADED, 'Volume uploaded to image'),
    failed=Ending(_Event.UPLOADED, 'Failed to upload volume to image'),
    cancelled=Ending(_Event.UPLOADED, 'Volume upload to image cancelled'),
    cancels=Cancels.ALWAYS, failed_message=messages.UPLOAD_FAILED,
    cancelled_message=messages.UPLOAD_CANCELLED)
REVERT = Verb(
    'volume', 'revert', (_Own.REVERTING,),
    done=Ending(_Event.REVERTED, 'Volume reverted to snapshot'),
    failed=Ending(_Event.REVERT_FAILED, 'Failed to revert volume to snapshot',
                  level=logging.ERROR),
    cancelled=Ending(_Event.REVERTED, 'Volume revert to snapshot cancelled'),
    failed_message=messages.REVERT_FAILED)
SNAPSHOT_CREATE = Verb(
    'snapshot', 'create', (),
    done=Ending(_Change.CREATED, 'Snapshot created', _whole),
    failed=Ending(_Change.CREATE_FAILED, 'Failed to create snapshot'),
    cancelled=Ending(_Change.CREATE_FAILED, 'Snapshot creation cancelled'),
    cancels=Cancels.ALWAYS, failed_message=messages.SNAPSHOT_CREATE_FAILED,
    cancelled_message=messages.SNAPSHOT_CANCELLED)
SNAPSHOT_MANAGE = Verb(
    'snapshot', 'manage', (),
    done=Ending(_Change.CREATED, 'Snapshot managed', _whole),
    failed=Ending(_Change.CREATE_FAILED, 'Failed to manage snapshot'),
    cancelled=Ending(_Change.CREATE_FAILED, 'Snapshot manage cancelled'),
    failed_message=messages.SNAPSHOT_MANAGE_FAILED, cancelled_message=messages.SNAPSHOT_CANCELLED)
SNAPSHOT_DELETE = Verb(
    'snapshot', 'delete', (),
    done=Ending(_Change.DELETED, 'Snapshot deleted'),
    failed=Ending(_Change.DELETE_FAILED, 'Failed to delete snapshot', level=logging.ERROR),
    cancelled=Ending(_Change.DELETE_CANCELLED, 'Snapshot deletion cancelled',
                     chosen=_former_snapshot_status, reads=True),
    failed_message=messages.SNAPSHOT_DELETE_FAILED)

VERBS: Mapping[str, Verb] = {verb.full_name: verb for verb in (
    CREATE, DELETE, EXTEND, MANAGE, UNMANAGE, MIGRATE, RETYPE, DOWNLOAD, REIMAGE, UPLOAD, REVERT,
    SNAPSHOT_CREATE, SNAPSHOT_MANAGE, SNAPSHOT_DELETE)}
