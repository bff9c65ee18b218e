"""Settings of a volume apart from its lifecycle: the read-only flag, and a reset of its status."""
from typing import Any

import sqlalchemy as sa

from blockattach import errors
from blockattach.db import engine
from blockattach.db import models
from blockattach.db import volume_rows
from blockattach.db import volumes
from blockattach.db import work
from blockattach.domain import reset_rule
from blockattach.domain import volume_lifecycle

_volumes = models.volumes
_FACTS = (_volumes.c.own_status, _volumes.c.pool, _volumes.c.lowest_rank, _volumes.c.status,
          _volumes.c.shared_targets)


@engine.retried
def set_readonly(database: engine.Database, volume_id: str, readonly: bool) -> None:
    """Let attachments made from now on read only, or not.

    :raises InvalidVolume: it is in use
    """
    with database.writer() as connection:
        row = volume_rows.lock(connection, volume_id)
        if row.status != volume_lifecycle.OwnStatus.AVAILABLE:
            raise errors.InvalidVolume(
                reason=f'Volume {volume_id} status must be available to update readonly flag, '
                       f'but current status is: {row.status}.')
        connection.execute(_volumes.update().where(_volumes.c.id == volume_id).values(
            readonly=readonly, updated_at=database.clock.utcnow()))


def reset_facts(database: engine.Database, volume_id: str, requested: reset_rule.Requested,
                ) -> reset_rule.Facts:
    """The input of the rule for a reset now; nothing is written.

    :raises VolumeNotFound: there is no such live volume
    """
    query = sa.select(*_FACTS).where(_volumes.c.id == volume_id, volume_rows.LIVE)
    with database.reader() as connection:
        row = connection.execute(query).one_or_none()
        if row is None:
            raise errors.VolumeNotFound(volume_id=volume_id)
        return _facts(connection, volume_id, row, requested)


@engine.retried
def reset_status(database: engine.Database, volume_id: str,
                 requested: reset_rule.Requested) -> reset_rule.Facts:
    """Reset the volume's own status, unless the rule refuses.

    :returns: the input of the rule; where it refuses, nothing was written
    :raises VolumeNotFound: there is no such live volume
    """
    with database.writer() as connection:
        row = volume_rows.lock(connection, volume_id)
        facts = _facts(connection, volume_id, row, requested)
        if reset_rule.decide(facts).outcome is reset_rule.Outcome.ALLOWED and \
                requested.status is not None:
            if facts.is_derived and requested.status == facts.from_attachments \
                    and row.detach_announced:
                # The detaches that were announced will not come.
                volume_rows.store_rank(connection, database, row, row.lowest_rank, 0)
                row = volume_rows.lock(connection, volume_id)
            volume_rows.store_own_status(connection, database, row, requested.own_status)
            work.end(connection, volumes.creation(volume_id, row.generation))
    return facts


def _facts(connection: sa.Connection, volume_id: str, row: Any,
           requested: reset_rule.Requested) -> reset_rule.Facts:
    return reset_rule.Facts(
        requested=requested, own_status=row.own_status,
        at_work=work.find(connection, 'volume', volume_id) is not None,
        # Its targets count as shared until a backend reports otherwise.
        made=not row.shared_targets, lowest_rank=row.lowest_rank, shown=row.status)
