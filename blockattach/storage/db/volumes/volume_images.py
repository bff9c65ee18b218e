"""Volumes and images: a volume is filled from one, uploaded as one, or filled anew. Each verb is
one transaction under the volume's lock.

What is known of the image stands in the progress of the work (``image``), and in the volume's
image metadata once the volume has its bytes.
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
"""What the progress calls what is known of the image."""
UPLOADABLE = ('available', 'in-use')
"""Statuses in which a volume can be uploaded, and to which it returns afterwards."""
_UPLOADED_SIZE = 'uploaded_size'
_UNUSED = ('available', 'reserved')
"""What attachments say of a volume that no host is connected to."""
_Own = volume_lifecycle.OwnStatus
_Event = volume_lifecycle.Event
_metadata = models.volume_image_metadata


class Begun(NamedTuple):
    """Work on a volume that its manager is to be asked for, and what the row said before."""

    claim: records.Claim
    host: str
    was: Any


def progress_of(image: images.Image) -> dict[str, Any]:
    """What work remembers of an image."""
    return {IMAGE: {**dataclasses.asdict(image), 'properties': dict(image.properties)}}


def image_of(progress: Mapping[str, Any]) -> images.Image | None:
    """The image that work is about; None: it is about none."""
    return images.Image.of(progress[IMAGE]) if IMAGE in progress else None


def about(found: volume_queries.AtWork) -> images.Image:
    """The image that work is about, which is about one."""
    image = image_of(found.progress)
    assert image is not None
    return image


@storage_db.retried
def begin_download(database: storage_db.Database, claim: records.Claim) -> records.Claim:
    """The backend has made the volume, and it is to be filled: by the same owner.

    :returns: the claim under which it goes on
    :raises StaleGeneration: another process went on with it; what was made must be removed
    """
    next_claim = claim._replace(verb='download', generation=claim.generation + 1)
    with database.writer(volume_rows.stepped(
            claim.resource_id, claim.generation, own_status=_Own.DOWNLOADING)) as connection:
        row = volume_rows.lock_at(connection, claim.resource_id, claim.generation, _Own.CREATING)
        work.read(connection, claim)
        if row.pool is None:
            raise _stale(claim)
        volume_rows.move(connection, database, row, _Event.DOWNLOAD, shared_targets=False)
        work.change(connection, claim, verb=next_claim.verb, generation=next_claim.generation,
                    attempts=1)
    log.step(LOG, 'Downloading image to volume', volume_id=claim.resource_id)
    return next_claim


@storage_db.retried
def cloned(database: storage_db.Database, claim: records.Claim) -> None:
    """The volume was made of the cached volume of its image, and is as if it had been filled.

    :raises StaleGeneration: another process went on with it
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
    """Begin to give a volume the bytes of another image.

    :param reserved: also if it is reserved
    :raises VolumeNotFound: the volume is gone, or of another project
    :raises Conflict: more than one server is to use it
    :raises InvalidVolume: its status does not allow it, no backend has it, or it is a cached image
        that a volume is being made of
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
        # What an administrator has said may stand above a host that is connected.
        used = volume_lifecycle.derive_status(_Own.AVAILABLE, row.lowest_rank).status
        if row.status not in statuses or used not in _UNUSED or row.pool is None:
            raise errors.InvalidVolume(
                reason=f'Volume {volume_id} status must be {" or ".join(statuses)}, but current '
                       f'status is {row.status if used in _UNUSED else used}.')
        snapshot_rows.keep_cached(connection, volume_id)
        begun = _begin(connection, database, row, 'reimage', _Event.DOWNLOAD, seconds,
                       request_id, progress_of(image))
    log.step(LOG, 'Reimaging volume', volume_id=volume_id,
             image_id=image.id)
    return begun


@storage_db.retried
def start_upload(database: storage_db.Database, volume: records.Judged, image: images.Image,
                 in_use: bool, seconds: float, request_id: str | None) -> Begun:
    """Begin to upload a volume as an image.

    :param image: what it shall be
    :param in_use: also if the volume is in use
    :raises VolumeNotFound: the volume is gone, or of another project
    :raises InvalidVolume: its status does not allow it
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
    """Remember how far the work is.

    :raises StaleGeneration: it was lost
    """
    work.note(database, claim, percent=percent)


def note_uploaded(database: storage_db.Database, claim: records.Claim, size: int) -> None:
    """Remember how many bytes the image gets. It raises as `note_percent`."""
    work.note(database, claim, **{_UPLOADED_SIZE: size})


def uploaded_size(found: volume_queries.AtWork) -> int | None:
    """How many bytes an earlier attempt gave the image; None: none did."""
    return found.progress.get(_UPLOADED_SIZE)


def is_uploading(database: storage_db.Database, volume_id: str) -> bool:
    """Whether a volume is being uploaded, by any process."""
    with database.reader() as connection:
        return connection.execute(sa.select(models.volumes.c.id).where(
            models.volumes.c.id == volume_id, volume_rows.LIVE,
            models.volumes.c.own_status == _Own.UPLOADING.value)).first() is not None


def is_uploaded_as(database: storage_db.Database, volume_id: str, image_id: str) -> bool:
    """Return True if any process is uploading the volume as this image.

    False means that the upload has ended and the volume has its former status.

    :raises VolumeNotFound: the volume was deleted
    :raises InvalidVolume: the status of the volume was reset
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
    """What a volume keeps of the image that it was made of."""
    with database.reader() as connection:
        return {row.key: row.value for row in connection.execute(
            sa.select(_metadata.c.key, _metadata.c.value)
            .where(_metadata.c.volume_id == volume_id))}


def keep_metadata(connection: sa.Connection, volume_id: str, image: images.Image) -> None:
    """Replace the image metadata of a locked volume."""
    connection.execute(_metadata.delete().where(_metadata.c.volume_id == volume_id))
    connection.execute(_metadata.insert(), [
        {'volume_id': volume_id, 'key': key, 'value': value}
        for key, value in image.metadata.items()])


def _begin(connection: sa.Connection, database: storage_db.Database, row: Any, verb: str,
           event: _Event, seconds: float, request_id: str | None,
           progress: Mapping[str, Any]) -> Begun:
    """Move a volume, and write down the work that its manager is to do."""
    claim = records.Claim('volume', row.id, verb, row.generation + 1, None)
    host = str(records.host_of(row.pool))
    volume_rows.move(connection, database, row, event)
    work.begin(connection, database, claim, seconds, host, request_id=request_id,
               project_id=row.project_id, progress=dict(progress))
    return Begun(claim, host, row)


def _stale(claim: records.Claim) -> errors.StaleGeneration:
    return errors.StaleGeneration(noun=claim.noun, id=claim.resource_id,
                                  generation=claim.generation)
