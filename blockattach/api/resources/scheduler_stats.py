"""The last reports of the pools of all backends."""
from typing import Any

from blockattach import errors
from blockattach.api import answers
from blockattach.api import listing
from blockattach.api import services as api_services
from blockattach.db import pools
from blockattach.domain import extra_specs
from blockattach.domain import pools as domain_pools
from blockattach.http import operation
from blockattach.http import schema
from blockattach.policy import access
from blockattach.policy import services as policies

_FILTERED = operation.V(3, 28)
_BY_TYPE = operation.V(3, 35)


def get_pools(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """List the pools, with ``detail`` their whole reports.

    A pool is shown by what it last reported, and as down when that, or the last heartbeat of
    its service, is too old.
    """
    with_detail = listing.flag(call, 'detail')
    found = pools.list_all(services.database, services.service_down_time)
    if call.version >= _FILTERED:
        found = _filtered(services, call, found)
    return {'pools': [_view(pool, with_detail) for pool in found]}


def _filtered(services: api_services.ApiServices, call: operation.Call,
              found: list[domain_pools.Pool]) -> list[domain_pools.Pool]:
    """The pools of a name, and those that have what the extra specs of a type ask for.

    An unknown filter is an error here for administrators too.
    """
    known = {'detail', 'name'} | ({'volume_type'} if call.version >= _BY_TYPE else set())
    unknown = [key for key in dict.fromkeys(call.query) if key not in known]
    if unknown:
        raise errors.InvalidFilter(filters=','.join(unknown))
    name = call.query.get('name')
    kept = [pool for pool in found if name in (None, pool.name)]
    kind = call.query.get('volume_type')
    if kind is None:
        return kept
    wanted = access.find_volume_type(call.context, services.database, kind).extra_specs
    return [pool for pool in kept if extra_specs.lacking(pool.capabilities, wanted) is None]


def _view(pool: domain_pools.Pool, with_detail: bool) -> dict[str, Any]:
    if not with_detail:
        return {'name': pool.name}
    return {'name': pool.name,
            'capabilities': {**pool.capabilities, 'allocated_capacity_gb': pool.allocated_gb,
                             'timestamp': pool.reported_at,
                             'backend_state': 'up' if pool.usable else 'down'}}


_NUMBER_OR_WORD: schema.Schema = {'type': ['number', 'string']}
# A backend may report whatever it likes beside these.
_CAPABILITIES = schema.obj({
    'total_capacity_gb': _NUMBER_OR_WORD,
    'free_capacity_gb': _NUMBER_OR_WORD,
    'allocated_capacity_gb': answers.INTEGER,
    'timestamp': answers.TIME,
    'backend_state': {'enum': ['up', 'down']},
    'reserved_percentage': answers.INTEGER,
    'QoS_support': answers.BOOLEAN,
    'volume_backend_name': answers.TEXT,
    'vendor_name': answers.TEXT,
    'driver_version': answers.TEXT,
    'storage_protocol': answers.TEXT,
}, required=['allocated_capacity_gb', 'timestamp', 'backend_state'],
    additional=True)

OPERATIONS = (
    operation.Operation(
        'GET', '/scheduler-stats/get_pools', get_pools, policy=policies.GET_POOLS,
        answer={operation.BASE: schema.wrapped('pools', schema.array(schema.obj(
            {'name': answers.TEXT, 'capabilities': _CAPABILITIES}, required=['name'])))},
        faults=(errors.VolumeTypeNotFound,), summary='List the pools of all backends.'),
)
