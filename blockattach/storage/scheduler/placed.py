"""The verbs whose work is placed: what differs between them, as one table.

Whatever needs room on a pool is placed by the same flow (`blockattach.storage.scheduler.flows`); a
further verb is a row here, and what `blockattach.storage.domain.pools.request_of` says that it
asks for.
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
    """Verb whose work the scheduler places on a pool.

    :ivar claim: takes the room of a request on a pool; the volume's generation from then on, or
        None: there is none left
    :ivar give_back: gives it back where a manager has not taken the volume on, for another pool;
        given the volume, the generation and the seconds until it is looked at again. None: there
        is no other pool; it is handed over once more at its deadline
    :ivar message: to the user then
    :ivar stay: ends the work on the pool that has the volume, in the place of ``claim``: no
        manager is needed. None: it never stays there
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
