"""The steps of its lifecycle that every volume takes: one statement each."""
import sqlalchemy as sa

from blockattach.db import models
from blockattach.db import prepared
from blockattach.domain import volume_lifecycle

_volumes = models.volumes
_pools = models.pools
_Own = volume_lifecycle.OwnStatus


def _at(own_status: volume_lifecycle.OwnStatus) -> tuple[sa.ColumnElement[bool], ...]:
    """A volume at one step; by the key alone, as in `blockattach.db.attachments`."""
    return (_volumes.c.id == prepared.value('volume_id'),
            _volumes.c.generation == prepared.value('generation'),
            _volumes.c.own_status == own_status.value)


def _created() -> sa.Update:
    available = volume_lifecycle.derive_status(_Own.AVAILABLE, None)
    return _volumes.update().where(
        *_at(_Own.CREATING), _volumes.c.pool.is_not(None), _volumes.c.lowest_rank.is_(None),
    ).values(own_status=_Own.AVAILABLE.value, status=available.status,
             attach_status=available.attach_status,
             shared_targets=prepared.value('shared_targets'), **_NEXT)


_NEXT = {'generation': _volumes.c.generation + 1, 'updated_at': prepared.value('now')}
# Its words stay as they are: it is being made, now as before.
CLAIM = prepared.Statement(lambda dialect: _volumes.update().where(
    *_at(_Own.CREATING), _volumes.c.pool.is_(None)).values(
        pool=prepared.value('pool'), service_uuid=prepared.value('service_uuid'), **_NEXT))
_SIZE = sa.select(_volumes.c.size_gb).where(
    _volumes.c.id == prepared.value('volume_id')).scalar_subquery()
TAKE = prepared.Statement(lambda dialect: _pools.update().where(
    _pools.c.name == prepared.value('pool'),
    sa.or_(_pools.c.limit_gb.is_(None), _pools.c.allocated_gb + _SIZE <= _pools.c.limit_gb),
).values(allocated_gb=_pools.c.allocated_gb + _SIZE))
GIVE = prepared.Statement(lambda dialect: _pools.update().where(
    _pools.c.name == prepared.value('pool')).values(
        allocated_gb=_pools.c.allocated_gb - prepared.value('size_gb', sa.Integer())))
NO_GRANTS = prepared.Statement(lambda dialect: models.grants.delete().where(
    models.grants.c.volume_id == prepared.value('volume_id')))
CREATED = prepared.Statement(lambda dialect: _created())
