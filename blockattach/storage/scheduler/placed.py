"""Table of the operations on volumes that the scheduler places on a pool.

All work that needs capacity on a pool is placed by the flow of
`blockattach.storage.scheduler.flows`. A new verb of such work needs an entry in `PLACED` and in
`blockattach.storage.domain.pools.request_of`.
"""
from collections.abc import Callable
from collections.abc import Mapping
from typing import NamedTuple

from blockattach.storage.db import storage_db
from blockattach.storage.db.volumes import extending
from blockattach.storage.db.volumes import managing
from blockattach.storage.db.volumes import moving
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import messages
from blockattach.storage.domain import pools


class Placed(NamedTuple):
    """Functions for the placement of one kind of work.

    :ivar claim: function that claims the capacity of a request on a pool. It returns the new
        generation of the volume, or None if the capacity is no longer available
    :ivar give_back: function that releases the claim if the manager did not accept the work. Its
        arguments are the database, the volume id, the generation, and the seconds after which
        another process resumes the placement. It returns the new generation. None if the work can
        only be done on one pool. The manager of this pool is then notified again after the
        deadline
    :ivar message: user message if no pool is suitable
    :ivar stay: function that finishes the work if the chosen pool already has the volume. It
        replaces ``claim`` and the call to the manager, and returns the new generation. None if the
        work always needs a manager
    """

    claim: Callable[[storage_db.Database, pools.VolumeRequest, pools.Pool], int | None]
    give_back: Callable[[storage_db.Database, str, int, float], int] | None
    message: messages.Text
    stay: Callable[[storage_db.Database, str, int], int] | None = None


def _claim_move(database: storage_db.Database, request: pools.VolumeRequest,
                pool: pools.Pool) -> int | None:
    return moving.claim(database, request.volume_id, request.generation, pool.name,
                        pool.service_uuid)


PLACED: Mapping[str, Placed] = {
    'create': Placed(
        lambda database, request, pool: volumes.claim(
            database, request.volume_id, request.generation, pool.name, pool.service_uuid),
        volumes.unclaim, messages.NO_VALID_POOL),
    # To extend or manage a volume, only one pool is possible, so no other pool can be tried.
    'extend': Placed(
        lambda database, request, pool: extending.claim(
            database, request.volume_id, request.generation, pool.name,
            request.room_gb(pool.name)),
        None, messages.EXTEND_NO_POOL),
    'manage': Placed(
        lambda database, request, pool: managing.claim(
            database, request.volume_id, request.generation),
        None, messages.MANAGE_NO_POOL),
    'migrate': Placed(_claim_move, moving.unclaim, messages.MIGRATE_NO_POOL),
    'retype': Placed(_claim_move, moving.unclaim, messages.RETYPE_NO_POOL,
                     moving.retyped),
}
