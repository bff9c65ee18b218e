"""Query of the volume service for a snapshot that is being managed."""
from blockattach.platform import errors
from blockattach.storage.db import storage_db
from blockattach.storage.db import work
from blockattach.storage.db.snapshots import snapshot_queries
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.domain import managing
from blockattach.storage.domain import records


def claimed(database: storage_db.Database, held: records.Claim) -> managing.ManagedSnapshot:
    """Return the snapshot of a manage operation, with its volume.

    :raises StaleGeneration: the owner has lost the claim on the operation
    """
    snapshot = snapshot_queries.claimed(database, held)
    at_work = work.of_resource(database, held.noun, held.resource_id)
    if snapshot is None or at_work is None:
        raise errors.StaleGeneration(noun='snapshot', id=held.resource_id,
                                     generation=held.generation)
    return managing.ManagedSnapshot(
        snapshot, volume_queries.get_bare(database, snapshot.volume_id),
        at_work.progress['reference'])
