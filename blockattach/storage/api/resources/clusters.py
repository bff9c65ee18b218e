"""Clusters of volume services that manage the same backend."""
from typing import Any

from blockattach.platform.http import operation
from blockattach.platform.http import schema
from blockattach.storage import errors
from blockattach.storage.api import answers
from blockattach.storage.api import listing
from blockattach.storage.api import services as api_services
from blockattach.storage.db.services import clusters
from blockattach.storage.domain import binaries
from blockattach.storage.domain import clusters as domain
from blockattach.storage.policy import clusters as policies

_SINCE = operation.V(3, 7)
_REPLICATION = operation.V(3, 26)
_FILTERS = frozenset(('name', 'binary', 'is_up', 'disabled', 'num_hosts', 'num_down_hosts'))
_MORE_FILTERS = _FILTERS | {'replication_status', 'frozen', 'active_backend_id'}
_BOOLEANS = frozenset(('is_up', 'disabled', 'frozen'))
# No backend is replicated.
_REPLICATION_STATUS = 'disabled'


def index(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """List clusters."""
    view = operation.at_version(_SUMMARIES, call.version)
    return {'clusters': [view.show(one) for one in _found(services, call)]}


def detail(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """List clusters with details, including the number of hosts."""
    view = operation.at_version(_DETAILS, call.version)
    return {'clusters': [view.show(one) for one in _found(services, call)]}


def show(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Show cluster details."""
    found = clusters.get(services.database, services.service_down_time, call.path['id'],
                         call.query.get('binary', binaries.VOLUME))
    return {'cluster': operation.at_version(_DETAILS, call.version).show(found)}


def enable(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Enable all members of a cluster."""
    return _set(services, call, disabled=False)


def disable(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Disable all members of a cluster, so that no new volumes are created there.

    Existing volumes are not affected.
    """
    return _set(services, call, disabled=True)


def _set(services: api_services.ApiServices, call: operation.Call,
         disabled: bool) -> dict[str, Any]:
    name, binary = call.body['name'], call.body.get('binary') or binaries.VOLUME
    reason = (call.body.get('disabled_reason') or '').strip() or None
    clusters.set_disabled(services.database, name, binary, disabled, reason)
    changed = clusters.get(services.database, services.service_down_time, name, binary)
    shown = operation.at_version(_SUMMARIES, call.version).show(changed)
    return {'cluster': {**shown, 'disabled_reason': reason}}


def _found(services: api_services.ApiServices, call: operation.Call) -> list[domain.Cluster]:
    """Return the clusters that match the filters of the request.

    :raises InvalidInput: if a filter is unknown, or the value of a filter is malformed
    """
    asked = dict(call.query.items())
    known = _FILTERS if call.version < _REPLICATION else _MORE_FILTERS
    if unknown := [key for key in asked if key not in known]:
        raise errors.InvalidInput(
            f'Invalid input received: Invalid filter keys: {", ".join(unknown)}')
    wanted = {key: listing.flag(call, key) if key in _BOOLEANS else value
              for key, value in asked.items()}
    return [one for one in clusters.list_all(services.database, services.service_down_time)
            if all(_value(one, key) == value for key, value in wanted.items())]


def _value(cluster: domain.Cluster, key: str) -> Any:
    """Return the value of a cluster that is compared with the value of a filter.

    :param key: name of the filter
    """
    if key == 'replication_status':
        return _REPLICATION_STATUS
    value = getattr(cluster, key, None)
    # The query contains numbers as text. `_found` has parsed the booleans.
    return value if isinstance(value, bool) else str(value)


_SUMMARY = {
    'name': answers.TEXT,
    'binary': answers.TEXT,
    'state': ({'enum': ['up', 'down']}, lambda cluster: 'up' if cluster.is_up else 'down'),
    'status': ({'enum': ['enabled', 'disabled']},
               lambda cluster: 'disabled' if cluster.disabled else 'enabled'),
}
_REPLICATED = {'replication_status': (answers.TEXT, lambda cluster: _REPLICATION_STATUS)}
_DETAIL = {
    **_SUMMARY,
    'num_hosts': answers.INTEGER,
    'num_down_hosts': answers.INTEGER,
    'last_heartbeat': answers.TIME,
    'created_at': answers.TIME,
    'updated_at': (answers.TIME_OR_EMPTY, lambda cluster: cluster.updated_at or ''),
    'disabled_reason': (answers.NULLABLE_TEXT,
                        lambda cluster: cluster.reason if cluster.num_disabled else (
                            'frozen' if cluster.frozen else None)),
}
_SUMMARIES = {_SINCE: schema.View(_SUMMARY),
              _REPLICATION: schema.View({**_SUMMARY, **_REPLICATED})}
_DETAILS = {_SINCE: schema.View(_DETAIL), _REPLICATION: schema.View({
    **_DETAIL, **_REPLICATED, 'frozen': answers.BOOLEAN, 'active_backend_id': answers.NULL})}


_LISTED, _LISTED_DETAILS = (
    {since: schema.wrapped('clusters', schema.array(view.whole)) for since, view in views.items()}
    for views in (_SUMMARIES, _DETAILS))
_REASON: schema.Schema = {'disabled_reason': answers.NULLABLE_TEXT}
_CHANGED = {since: schema.wrapped('cluster', answers.whole({**view.keys, **_REASON}))
            for since, view in _SUMMARIES.items()}
_NAME: schema.Schema = {'type': 'string', 'minLength': 1, 'maxLength': 255}
_ENABLE = schema.obj({'name': _NAME, 'binary': {'type': ['string', 'null'], 'maxLength': 255}},
                     required=['name'])
_DISABLE = schema.extend(_ENABLE, {
    'disabled_reason': {'type': ['string', 'null'], 'maxLength': 255}})

OPERATIONS = (
    operation.Operation(
        'GET', '/clusters', index, since=_SINCE, policy=policies.GET_ALL,
        answer=_LISTED, summary='List clusters of volume services.'),
    operation.Operation(
        'GET', '/clusters/detail', detail, since=_SINCE, policy=policies.GET_ALL,
        answer=_LISTED_DETAILS,
        summary='List clusters with details, including the number of hosts.'),
    operation.Operation(
        'GET', '/clusters/{id}', show, since=_SINCE, policy=policies.GET,
        answer={since: schema.wrapped('cluster', view.whole) for since, view in _DETAILS.items()},
        faults=(errors.ClusterNotFound,), summary='Show cluster details.'),
    operation.Operation(
        'PUT', '/clusters/enable', enable, since=_SINCE, policy=policies.UPDATE,
        body={_SINCE: _ENABLE}, answer=_CHANGED, faults=(errors.ClusterNotFound,),
        summary='Enable a cluster.'),
    operation.Operation(
        'PUT', '/clusters/disable', disable, since=_SINCE, policy=policies.UPDATE,
        body={_SINCE: _DISABLE}, answer=_CHANGED, faults=(errors.ClusterNotFound,),
        summary='Disable a cluster.'),
)
