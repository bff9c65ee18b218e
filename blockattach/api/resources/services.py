"""The processes of the service, as operators see them."""
from typing import Any

from blockattach.api import answers
from blockattach.api import services as api_services
from blockattach.db import pools
from blockattach.db import services
from blockattach.domain import binaries
from blockattach.domain import records
from blockattach.http import operation
from blockattach.http import schema
from blockattach.http.operation import BASE
from blockattach.http.operation import Operation
from blockattach.http.operation import V
from blockattach.policy import services as policies

_CLUSTERS = V(3, 7)
_BACKENDS = V(3, 49)


def index(handed: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """List the services, all or those of a host or of a name."""
    down_after = handed.service_down_time
    found = services.list_all(handed.database, down_after, call.query.get('host') or None,
                              call.query.get('binary') or None)
    living: frozenset[str] = frozenset()
    if call.version >= _BACKENDS:
        living = frozenset(pool.host for pool in pools.list_all(handed.database, down_after)
                           if pool.up)
    return {'services': [_view(call.version, one, living) for one in found]}


def _view(version: V, service: records.Service, living: frozenset[str]) -> dict[str, Any]:
    """One service.

    :param living: the backends with a pool that can be used
    """
    shown: dict[str, Any] = {
        'binary': service.binary,
        'host': service.host,
        'zone': service.availability_zone,
        'status': 'disabled' if service.disabled else 'enabled',
        'state': 'up' if service.up else 'down',
        'updated_at': service.updated_at,
        'disabled_reason': service.disabled_reason,
    }
    if version >= _CLUSTERS:
        shown['cluster'] = None
    if service.binary == binaries.VOLUME:
        shown |= {'replication_status': 'disabled', 'active_backend_id': None, 'frozen': False}
        if version >= _BACKENDS:
            shown['backend_state'] = 'up' if service.host in living else 'down'
    return shown


_WORD: schema.Schema = {'enum': ['up', 'down']}
_SERVICE = schema.extend(answers.whole({
    'binary': answers.TEXT,
    'host': answers.TEXT,
    'zone': answers.TEXT,
    'status': {'enum': ['enabled', 'disabled']},
    'state': _WORD,
    'updated_at': answers.TIME,
    'disabled_reason': answers.NULLABLE_TEXT,
}), {
    'replication_status': answers.TEXT,
    'active_backend_id': answers.NULL,
    'frozen': answers.BOOLEAN,
})
_CLUSTERED = schema.extend(_SERVICE, {'cluster': answers.NULL}, required=['cluster'])
_ANSWER = {
    since: schema.wrapped('services', schema.array(service)) for since, service in (
        (BASE, _SERVICE), (_CLUSTERS, _CLUSTERED),
        (_BACKENDS, schema.extend(_CLUSTERED, {'backend_state': _WORD})))}

OPERATIONS = (
    Operation('GET', '/os-services', index, policy=policies.GET_ALL, answer=_ANSWER,
              summary='List the processes of the service.'),
)
