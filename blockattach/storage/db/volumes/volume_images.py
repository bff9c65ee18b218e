"""Downloads of images to volumes, reimages, and uploads of volumes to images.

Each function that writes does so in one transaction under the lock of the volume. The progress of
the work contains the image under the key ``image``. At the end of a download, the image metadata
of the volume are set to `images.Image.metadata`.
"""
import dataclasses
import logging
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
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volume_rows
from blockattach.storage.domain import images
from blockattach.storage.domain import records
from blockattach.storage.domain import volume_lifecycle

LOG = logging.getLogger(__name__)

IMAGE = 'image'
"""Key of the image in the progress of work."""
UPLOADABLE = ('available', 'in-use')
"""Statuses in which a volume can be uploaded. The status is restored after the upload."""
_UPLOADED_SIZE = 'uploaded_size'
_UNUSED = ('available', 'reserved')
"""Statuses of a volume, as derived from its attachments, in which no host is connected."""
_Own = volume_lifecycle.OwnStatus
_Event = volume_lifecycle.Event
_metadata = models.volume_image_metadata


class Begun(NamedTuple):
    """Inserted work item, with the arguments for calling the volume service.

    :ivar claim: claim on the work, without an owner
    :ivar host: ``host@backend`` that executes the work
    :ivar was: row of the volume before the start of the work
    """

    claim: records.Claim
    host: str
    was: Any


def progress_of(image: images.Image) -> dict[str, Any]:
    """Return an image as progress of work, from which `image_of` restores the image."""
    return {IMAGE: {**dataclasses.asdict(image), 'properties': dict(image.properties)}}


def image_of(progress: Mapping[str, Any]) -> images.Image | None:
    """Return the image in the progress of work, or None if the progress contains no image."""
    return images.Image.of(progress[IMAGE]) if IMAGE in progress else None


def about(at_work: volume_queries.AtWork) -> images.Image:
    """Return the image in the progress of claimed work. The progress must contain an image."""
    image = image_of(at_work.progress)
    assert image is not None
    return image


@storage_db.retried
def begin_download(database: storage_db.Database, claim: records.Claim) -> records.Claim:
    """Convert the work of creating a volume to the work of downloading its image.

    Called when the backend has created the volume. The owner of the work does not change.

    :param claim: claim on the creation
    :returns: claim on the download
    :raises StaleGeneration: another process has continued the creation; the caller must remove the
        created data
    """
    next_claim = claim._replace(verb='download', generation=claim.generation + 1)
    with database.writer(volume_rows.stepped(
            claim.resource_id, claim.generation, own_status=_Own.DOWNLOADING)) as connection:
        row = volume_rows.lock_at(connection, claim.resource_id, claim.generation, _Own.CREATING)
        work.read(connection, claim)
        if row.pool is None:
            raise _stale(claim)
        volume_rows.move(connection, database, row, _Event.DOWNLOAD, shared_targets=False)
        # The work item is kept, so that its owner has a claim at any time. The attempts of the
        # creation do not count for the download.
        work.change(connection, claim, verb=next_claim.verb, generation=next_claim.generation,
                    attempts=1)
    log.step(LOG, 'Downloading image to volume', volume_id=claim.resource_id)
    return next_claim


@storage_db.retried
def cloned(database: storage_db.Database, claim: records.Claim) -> None:
    """Record that the backend has created a volume from the cached volume of its image.

    Afterwards the volume has the same columns and image metadata as after a download.

    :param claim: claim on the creation
    :raises StaleGeneration: another process has continued the creation
    """
    with database.writer(volume_rows.stepped(
            claim.resource_id, claim.generation, own_status=_Own.AVAILABLE)) as connection:
        row = volume_rows.lock_at(connection, claim.resource_id, claim.generation, _Own.CREATING)
        image = image_of(rows.from_json(work.read(connection, claim).progress))
        assert image is not None
        volume_rows.move(connection, database, row, _Event.CREATED, bootable=True,
                         shared_targets=False, source_volid=None)
        keep_metadata(connection, row.id, image)
        work.end(connection, claim)
    log.step(LOG, 'Volume created from cached image', volume_id=claim.resource_id,
             image_id=image.id, source_volid=row.source_volid)


@storage_db.retried
def start_reimage(database: storage_db.Database, volume: records.Judged, image: images.Image,
                  reserved: bool, seconds: float, request_id: str | None) -> Begun:
    """Start a reimage, which replaces the data of a volume with the data of an image.

    :param reserved: True to allow a volume in status reserved
    :param seconds: seconds until the deadline, after which the volume service starts the work even
        without a call
    :raises VolumeNotFound: the volume is deleted, or belongs to another project
    :raises Conflict: the volume has more than one attachment
    :raises InvalidVolume: the status of the volume does not allow a reimage, the volume has no
        pool, or the volume is a cached image from which a volume is being created
    """
    volume_id = volume.id
    statuses = ('available', 'error', 'reserved') if reserved else ('available', 'error')
    with database.writer(lambda again: volume_rows.stepped(
            volume_id, begun.was.generation, own_status=_Own.DOWNLOADING)(again)) as connection:
        row = volume_rows.lock_judged(connection, volume)
        attachments = models.attachments
        if connection.execute(sa.select(sa.func.count()).where(
                attachments.c.volume_id == volume_id,
                models.live(attachments))).scalar_one() > 1:
            raise errors.Conflict(
                'Cannot re-image a volume which is attached to more than one server.')
        # An administrator may have reset the status of a volume to which a host is connected. So
        # the status that is derived from the attachments is checked too.
        used = volume_lifecycle.derive_status(_Own.AVAILABLE, row.lowest_rank).status
        if row.status not in statuses or used not in _UNUSED or row.pool is None:
            raise errors.InvalidVolume(
                reason=f'Volume {volume_id} status must be {" or ".join(statuses)}, but current '
                       f'status is {row.status if used in _UNUSED else used}.')
        # The data of a cached image must not change while another volume is created from them.
        snapshot_rows.keep_cached(connection, volume_id)
        begun = _begin(connection, database, row, 'reimage', _Event.DOWNLOAD, seconds,
                       request_id, progress_of(image))
    log.step(LOG, 'Reimaging volume', volume_id=volume_id,
             image_id=image.id)
    return begun


@storage_db.retried
def start_upload(database: storage_db.Database, volume: records.Judged, image: images.Image,
                 in_use: bool, seconds: float, request_id: str | None) -> Begun:
    """Start the upload of a volume to an image.

    :param image: image to which the data of the volume are uploaded
    :param in_use: True to allow a volume in status in-use
    :param seconds: seconds until the deadline, after which the volume service starts the work even
        without a call
    :raises VolumeNotFound: the volume is deleted, or belongs to another project
    :raises InvalidVolume: the status of the volume does not allow an upload, or the volume has no
        pool
    """
    volume_id = volume.id
    statuses = UPLOADABLE if in_use else UPLOADABLE[:1]
    with database.writer(lambda again: volume_rows.stepped(
            volume_id, begun.was.generation, own_status=_Own.UPLOADING)(again)) as connection:
        row = volume_rows.lock_judged(connection, volume)
        if row.status not in statuses or row.pool is None:
            raise errors.InvalidVolume(
                reason=f'Volume {volume_id} status must be {" or ".join(statuses)}')
        begun = _begin(connection, database, row, 'upload', _Event.UPLOAD, seconds, request_id,
                       progress_of(image))
    log.step(LOG, 'Uploading volume to image', volume_id=volume_id, image_id=image.id)
    return begun


def note_percent(database: storage_db.Database, claim: records.Claim, percent: int) -> None:
    """Record how much of a download, a reimage or an upload is done, in percent.

    :raises StaleGeneration: the claim on the work is no longer valid
    """
    work.note(database, claim, percent=percent)


def note_uploaded(database: storage_db.Database, claim: records.Claim, size: int) -> None:
    """Record the size of the uploaded image in bytes.

    :raises StaleGeneration: the claim on the upload is no longer valid
    """
    work.note(database, claim, **{_UPLOADED_SIZE: size})


def uploaded_size(at_work: volume_queries.AtWork) -> int | None:
    """Return the size of the uploaded image in bytes, as recorded by `note_uploaded`.

    :returns: the size; None if no attempt has recorded a size
    """
    return at_work.progress.get(_UPLOADED_SIZE)


def is_uploading(database: storage_db.Database, volume_id: str) -> bool:
    """Return True if a live volume is being uploaded to an image."""
    with database.reader() as connection:
        return connection.execute(sa.select(models.volumes.c.id).where(
            models.volumes.c.id == volume_id, volume_rows.LIVE,
            models.volumes.c.own_status == _Own.UPLOADING.value)).first() is not None


def is_uploaded_as(database: storage_db.Database, volume_id: str, image_id: str) -> bool:
    """Return True if a volume is being uploaded to the given image.

    False means that the upload has ended, and that the volume could be uploaded again.

    :raises VolumeNotFound: the upload has ended, and the volume was deleted
    :raises InvalidVolume: the upload has ended, and the status of the volume is not in
        `UPLOADABLE`
    """
    with database.reader() as connection:
        found = connection.execute(sa.select(models.work.c.progress).where(
            models.work.c.noun == 'volume', models.work.c.resource_id == volume_id,
            models.work.c.verb == 'upload')).first()
    image = found and image_of(rows.from_json(found.progress))
    if image is not None and image.id == image_id:
        return True
    status = volume_queries.get(database, volume_id).status
    if status not in UPLOADABLE:
        raise errors.InvalidVolume(
            reason=f'Volume {volume_id} status must be uploading, but current status is {status}.')
    return False


def metadata(database: storage_db.Database, volume_id: str) -> dict[str, str]:
    """Return the image metadata of a volume."""
    with database.reader() as connection:
        return {row.key: row.value for row in connection.execute(
            sa.select(_metadata.c.key, _metadata.c.value)
            .where(_metadata.c.volume_id == volume_id))}


def keep_metadata(connection: sa.Connection, volume_id: str, image: images.Image) -> None:
    """Replace the image metadata of a locked volume with the metadata of an image."""
    connection.execute(_metadata.delete().where(_metadata.c.volume_id == volume_id))
    connection.execute(_metadata.insert(), [
        {'volume_id': volume_id, 'key': key, 'value': value}
        for key, value in image.metadata.items()])


def _begin(connection: sa.Connection, database: storage_db.Database, row: Any, verb: str,
           event: _Event, seconds: float, request_id: str | None,
           progress: Mapping[str, Any]) -> Begun:
    claim = records.Claim('volume', row.id, verb, row.generation + 1, None)
    host = str(records.host_of(row.pool))
    volume_rows.move(connection, database, row, event)
    work.begin(connection, database, claim, seconds, host, request_id=request_id,
               project_id=row.project_id, progress=dict(progress))
    return Begun(claim, host, row)


def _stale(claim: records.Claim) -> errors.StaleGeneration:
    return errors.StaleGeneration(noun=claim.noun, id=claim.resource_id,
                                  generation=claim.generation)
