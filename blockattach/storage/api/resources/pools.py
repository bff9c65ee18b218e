"""Pools and capabilities of backends, as last reported by the backends."""
from collections.abc import Mapping
from typing import Any

from blockattach.platform.http import operation
from blockattach.platform.http import schema
from blockattach.storage import errors
from blockattach.storage.api import answers
from blockattach.storage.api import listing
from blockattach.storage.api import services as api_services
from blockattach.storage.db.services import pools
from blockattach.storage.db.services import services as db_services
from blockattach.storage.domain import binaries
from blockattach.storage.domain import volume_type
from blockattach.storage.policy import access
from blockattach.storage.policy import services as policies

_FILTERED = operation.V(3, 28)
_BY_TYPE = operation.V(3, 35)
# cinderclient adds all_tenants to the requests of every caller.
_NO_FILTERS = frozenset(('detail', 'all_tenants'))
_REPORTED = ('vendor_name', 'volume_backend_name', 'pool_name', 'driver_version',
             'storage_protocol', 'display_name', 'description', 'visibility')
# Capabilities that extra specs can require of any backend.
_PROPERTIES = {
    name: {'title': title, 'description': description, 'type': 'boolean'}
    for name, title, description in (
        ('thin_provisioning', 'Thin Provisioning', 'Sets thin provisioning.'),
        ('compression', 'Compression', 'Enables compression.'),
        ('qos', 'QoS', 'Enables QoS.'),
        ('replication_enabled', 'Replication', 'Enables replication.'))}


def get_pools(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """List the pools that match the filters and the extra specs of the requested volume type.

    With ``detail``, the response contains the last report of each pool. ``backend_state`` is down
    if the report is too old, if the report itself contains this state, if no enabled service of
    the backend is up, or if the backend is frozen. Such a pool gets no volumes.
    """
    with_detail = listing.flag(call, 'detail')
    asked = _filters(services, call)
    kind = asked.pop('volume_type', None)
    wanted = {} if kind is None else access.find_volume_type(
        call.context, services.database, kind).extra_specs
    found = [pool for pool in pools.list_all(services.database, services.service_down_time)
             if volume_type.lacking(pool.capabilities, wanted) is None
             and all(_has({**pool.capabilities, 'name': pool.name}, key, value)
                     for key, value in asked.items())]
    if not with_detail:
        return {'pools': [{'name': pool.name} for pool in found]}
    return {'pools': [{'name': pool.name, 'capabilities': {
        **pool.capabilities,
        'allocated_capacity_gb': pool.allocated_gb,
        'timestamp': pool.reported_at,
        'backend_state': 'up' if pool.usable else 'down',
    }} for pool in found]}


def _filters(services: api_services.ApiServices, call: operation.Call) -> dict[str, str]:
    """Return the filters of a request: name, volume type and capabilities.

    :raises InvalidFilter: if a filter is unknown, even if the caller is an administrator
    """
    if call.version < _FILTERED:
        return {}
    asked = {key: value for key, value in call.query.items() if key not in _NO_FILTERS}
    named = services.filters.get('pool', ())
    known = {name.removesuffix('~') for name in named}
    if call.version >= listing.LIKE_FILTERS:
        known |= set(named)
    unknown = [key for key in asked if key not in known]
    # As in Cinder, this list rejects unknown filters even for administrators. Other lists do not.
    if unknown and call.version >= listing.STRICT_FILTERS:
        raise errors.InvalidFilter(filters=','.join(unknown))
    if call.version < _BY_TYPE:
        asked.pop('volume_type', None)
    return {key: value for key, value in asked.items() if key in known}


def _has(reported: Mapping[str, Any], key: str, value: str) -> bool:
    """Return True if a pool matches a filter.

    :param reported: capabilities of the pool
    :param key: name of a capability. With ``~`` at the end, the capability must contain the value
    """
    found = reported.get(key.removesuffix('~'))
    if key.endswith('~'):
        return found is not None and value in str(found)
    if isinstance(found, bool):
        return volume_type.matches(found, f'<is> {value}')
    if isinstance(found, int | float):
        return volume_type.matches(found, f'== {value}')
    return bool(found == value)


def show(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Show the capabilities of a backend from the last report of its first pool.

    :raises ServiceNotFound: if the backend does not exist
    :raises ServiceSilent: if no service of the backend sends heartbeats
    """
    # Cinder calls the backend instead. ServiceSilent has the status of a timeout of this call.
    host, down_after = call.path['host'], services.service_down_time
    keeping = db_services.keeping(services.database, binaries.VOLUME, host, down_after)
    if not keeping:
        raise errors.ServiceNotFound(binary=binaries.VOLUME, host=host)
    if not keeping[0].up:
        raise errors.ServiceSilent(binary=binaries.VOLUME, host=host, seconds=down_after)
    found = [pool for pool in pools.list_all(services.database, down_after) if pool.host == host]
    reported: Mapping[str, Any] = {}
    if found:
        reported = {**found[0].capabilities, 'pool_name': found[0].name.partition('#')[2]}
    return {
        'namespace': f'OS::Storage::Capabilities::{host}',
        **{key: reported.get(key) for key in _REPORTED},
        'replication_targets': [],
        'properties': _PROPERTIES,
    }


_NUMBER_OR_WORD: schema.Schema = {'type': ['number', 'string']}
# A backend may report other capabilities too.
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

_PROPERTY = answers.whole({'title': answers.TEXT, 'description': answers.TEXT,
                           'type': answers.TEXT})
_ANSWER = answers.whole({
    'namespace': answers.TEXT,
    **dict.fromkeys(_REPORTED, answers.NULLABLE_TEXT),
    'replication_targets': schema.array(answers.TEXT),
    'properties': schema.obj(patternProperties={'.+': _PROPERTY}),
})

OPERATIONS = (
    operation.Operation(
        'GET', '/scheduler-stats/get_pools', get_pools, policy=policies.GET_POOLS,
        answer={operation.BASE: schema.wrapped('pools', schema.array(schema.obj(
            {'name': answers.TEXT, 'capabilities': _CAPABILITIES}, required=['name'])))},
        faults=(errors.VolumeTypeNotFound,), summary='List the storage pools of all backends.'),
    operation.Operation(
        'GET', '/capabilities/{host}', show, policy=policies.GET_CAPABILITIES,
        answer={operation.BASE: _ANSWER},
        faults=(errors.ServiceNotFound, errors.ServiceSilent),
        summary='Show the capabilities of a backend.'),
)
