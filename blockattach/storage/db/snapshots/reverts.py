"""Start of the revert of a volume to its latest snapshot, in one transaction."""
import logging
from typing import NamedTuple

from blockattach.platform import log
from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db import rows
from blockattach.storage.db import storage_db
from blockattach.storage.db import work
from blockattach.storage.db.volumes import snapshot_rows
from blockattach.storage.db.volumes import volume_rows
from blockattach.storage.domain import records
from blockattach.storage.domain import snapshots
from blockattach.storage.domain import volume_lifecycle

LOG = logging.getLogger(__name__)

_rows = models.snapshots
_Own = volume_lifecycle.OwnStatus
_Event = volume_lifecycle.Event


class Reverting(NamedTuple):
    """Volume that is being reverted to a snapshot.

    :ivar generation: generation of the volume after the start of the revert
    :ivar host: ``host@backend`` that reverts the volume
    """

    id: str
    generation: int
    host: str


@storage_db.retried
def start(database: storage_db.Database, volume: records.Judged, snapshot_id: str | None,
          lease_seconds: float, request_id: str | None = None) -> Reverting:
    """Record the revert of a volume to its latest snapshot. The backend is not called yet.

    :param snapshot_id: id from the request, which must be that of the latest snapshot
    :param lease_seconds: seconds after which another process may start the revert, in database
        time
    :raises VolumeNotFound: the volume is deleted, or belongs to another project
    :raises InvalidInput: the volume has no snapshots, ``snapshot_id`` is not its latest snapshot,
        or the sizes of the volume and the snapshot differ
    :raises NotRevertible: the volume or the snapshot is not available
    """
    volume_id = volume.id
    with database.writer(lambda again: rows.holds(
            volume_rows.await_others(again, volume_id),
            {'generation': row.generation + 1, 'own_status': _Own.REVERTING})) as connection:
        row = volume_rows.lock_judged(connection, volume)
        # A locking read of the latest snapshot, so that it cannot be deleted until the commit.
        latest = connection.execute(_rows.select().where(
            _rows.c.volume_id == volume_id, snapshot_rows.LIVE).order_by(
            _rows.c.created_at.desc(), _rows.c.id.desc()).limit(1).with_for_update()).first()
        if latest is None:
            raise errors.InvalidInput(f"Volume {volume_id} doesn't have any snapshots.")
        if snapshot_id != latest.id:
            raise errors.InvalidInput(
                f'Specified snapshot {errors.shortened(snapshot_id)} is None or not the latest '
                f'one of volume {volume_id}.')
        if row.size_gb != latest.size_gb:
            raise errors.InvalidInput(
                f"Can't revert volume {volume_id} to its latest snapshot {latest.id}. The volume "
                f"size must be equal to the snapshot size.")
        for noun, status in (('volume', row.status if row.own_status == _Own.AVAILABLE
                              else row.own_status), ('snapshot', latest.status)):
            if status != snapshots.Status.AVAILABLE:
                raise errors.NotRevertible(noun=noun, which=noun.capitalize(),
                                           volume_id=volume_id, snapshot_id=latest.id)
        # An update of the row, so that a deletion of the snapshot on another node of a database
        # cluster conflicts.
        snapshot_rows.claim(connection, latest)
        volume_rows.move(connection, database, row, _Event.REVERT)
        host = str(records.host_of(row.pool))
        work.begin(connection, database, reversion(volume_id, row.generation + 1), lease_seconds,
                   host, request_id=request_id, project_id=row.project_id,
                   progress={'snapshot_id': latest.id})
    log.step(LOG, 'Reverting volume to snapshot', volume_id=volume_id, snapshot_id=latest.id)
    return Reverting(volume_id, row.generation + 1, host)


def reversion(volume_id: str, generation: int, owner: str | None = None) -> records.Claim:
    """Return the claim on the revert of a volume.

    :param owner: process instance; None for any
    """
    return records.Claim('volume', volume_id, 'revert', generation, owner)
