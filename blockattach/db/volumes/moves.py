"""A volume that moves to another backend, as the one that takes it reads it."""
import dataclasses

from blockattach import errors
from blockattach.db.engine import engine
from blockattach.db.volumes import claims
from blockattach.db.volumes import volume_queries
from blockattach.domain import records


@dataclasses.dataclass(frozen=True, slots=True)
class Move:
    """The volume as it is, and as it will be."""

    here: records.Volume
    there: records.Volume


def claimed(database: engine.Database, held: records.Claim) -> Move:
    """The volume that shall move under a claim.

    :raises StaleGeneration: its owner has lost it
    """
    volume = volume_queries.claimed(database, held)
    pool = claims.pool_of(database, held.resource_id)
    if volume is None or pool is None:
        raise errors.StaleGeneration(noun='volume', id=held.resource_id,
                                     generation=held.generation)
    return Move(volume, dataclasses.replace(volume, pool=pool))
