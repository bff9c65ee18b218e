"""Services, their log levels, and the freezing and reconciliation of backends.

Replication of backends is not supported.
"""
from typing import Any

from blockattach.platform import log
from blockattach.platform import metrics
from blockattach.platform.http import operation
from blockattach.platform.http import schema
from blockattach.storage import errors
from blockattach.storage.api import answers
from blockattach.storage.api import services as api_services
from blockattach.storage.control import log_levels
from blockattach.storage.db.services import pools
from blockattach.storage.db.services import services
from blockattach.storage.domain import binaries
from blockattach.storage.policy import services as policies

_FROZEN = 'frozen'
_ANY = (None, '', '*')
_STATUS = {True: 'disabled', False: 'enabled'}
_CLUSTERS = operation.V(3, 7)
_FREEZING = operation.V(3, 26)
"""First version in which a request can name a cluster instead of a host."""
_LOG_LEVELS = operation.V(3, 32)
_BACKENDS = operation.V(3, 49)
_RECONCILED = operation.V(1, 2)
_ON_REQUEST = operation.V(1, 6)


def index(handed: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """List services. The parameters ``host`` and ``binary`` filter the services."""
    down_after = handed.service_down_time
    found = services.list_all(handed.database, down_after, call.query.get('host') or None,
                              call.query.get('binary') or None)
    living: frozenset[str] = frozenset()
    if call.version >= _BACKENDS:
        living = pools.living(handed.database, down_after)
    shown = []
    for one in found:
        row = _VIEW.show(one)
        if call.version >= _CLUSTERS:
            row['cluster'] = one.cluster
        if one.binary == binaries.VOLUME:
            row |= _BACKEND_VIEW.show(one)
            if call.version >= _BACKENDS:
                row['backend_state'] = 'up' if one.backend in living else 'down'
            if call.extension is not None and call.extension >= _RECONCILED:
                row['reconciled'] = one.reconciled and _RECONCILED_VIEW.show(one.reconciled)
        shown.append(row)
    return {'services': shown}


def enable(handed: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Enable a service, and clear its disabled reason."""
    # Tempest's schema requires the reason in the response, although Cinder does not send it.
    return {**_set(handed, call, disabled=False), 'disabled_reason': None}


def disable(handed: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Disable a service, so that no new volumes are created on its backend.

    Existing volumes are not affected.
    """
    return _set(handed, call, disabled=True)


def disable_log_reason(handed: api_services.ApiServices,
                       call: operation.Call) -> dict[str, Any]:
    """Disable a service, and store the disabled reason that the request contains."""
    reason = call.body['disabled_reason']
    return {**_set(handed, call, disabled=True, reason=reason), 'disabled_reason': reason}


def freeze(handed: api_services.ApiServices, call: operation.Call) -> None:
    """Freeze a backend, so that volumes are neither created nor deleted there.

    Existing volumes remain usable.
    """
    _set_frozen(handed, call, True)


def thaw(handed: api_services.ApiServices, call: operation.Call) -> None:
    """Thaw a frozen backend. A service that is disabled remains disabled."""
    _set_frozen(handed, call, False)


def failover(handed: api_services.ApiServices, call: operation.Call) -> None:
    """Reject the failover of a backend, because no backend is replicated.

    :raises ServiceNotFound: if the backend does not exist
    :raises InvalidInput: if the backend exists
    """
    backend = _backend(call)
    if not services.keeping(handed.database, binaries.VOLUME, backend, handed.service_down_time):
        # Raises ServiceNotFound, because no service has this host name.
        services.get_by_host(handed.database, binaries.VOLUME, backend, handed.service_down_time)
    raise errors.InvalidInput(
        reason=f'Invalid input received: Cannot fail over {errors.shortened(backend)}. The '
               'backend is not replicated (replication_status is disabled).')


def reconcile(handed: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Reconcile a backend, and report the differences. With ``dry_run``, nothing is repaired."""
    dry_run = call.body.get('dry_run', False)
    found = handed.reconciling.reconcile(call.context, _backend(call), dry_run)
    return {'dry_run': dry_run, 'findings': [{key: one[key] for key in _FINDING} for one in found]}


def _set_frozen(handed: api_services.ApiServices, call: operation.Call, frozen: bool) -> None:
    """Freeze or thaw a backend.

    :raises InvalidInput: if the backend does not exist
    """
    try:
        services.set_frozen(handed.database, _backend(call), frozen)
    except errors.ServiceNotFound as error:
        # For these requests, Cinder responds with 400 instead of 404.
        raise errors.InvalidInput(reason=str(error)) from error


def _backend(call: operation.Call) -> str:
    return str(call.body.get('host') or call.body['cluster'])


def _set(handed: api_services.ApiServices, call: operation.Call, disabled: bool,
         reason: str | None = None) -> dict[str, Any]:
    asked = call.body
    service, binary = asked.get('service', ''), asked.get('binary', '')
    services.set_disabled(handed.database, binary or service, asked['host'], disabled, reason)
    return {'host': asked['host'], 'service': service, 'binary': binary, 'disabled': disabled,
            'status': _STATUS[disabled]}


def levels(handed: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Return the log levels of the selected processes. ``prefix`` selects their loggers."""
    found = handed.logs.get(call.context, _choice(call.body))
    return {'log_levels': [_LEVELS.show(one) for one in found]}


def set_levels(handed: api_services.ApiServices, call: operation.Call) -> None:
    """Set the log levels of the selected processes. The levels apply until the processes end.

    :raises InvalidInput: if the level is unknown
    """
    level = call.body['level']
    if level.upper() not in log.LEVELS:
        raise errors.InvalidInput(
            reason=f'Invalid input received: {errors.shortened(level)} is not a valid log level.')
    handed.logs.set(call.context, _choice(call.body), level.upper())


def _choice(body: dict[str, Any]) -> log_levels.Choice:
    asked = {name: '' if body.get(name) in _ANY else body[name]
             for name in ('binary', 'server', 'prefix')}
    return log_levels.Choice(**asked)


_WORD: schema.Schema = {'enum': ['up', 'down']}
_VIEW = schema.View({
    'binary': answers.TEXT,
    'host': answers.TEXT,
    'zone': (answers.TEXT, 'availability_zone'),
    'status': ({'enum': ['enabled', 'disabled']},
               lambda service: _STATUS[service.disabled or service.frozen]),
    'state': (_WORD, lambda service: 'up' if service.up else 'down'),
    'updated_at': answers.TIME,
    'disabled_reason': (answers.NULLABLE_TEXT, lambda service: service.disabled_reason or (
        _FROZEN if service.frozen else None)),
})
_BACKEND_VIEW = schema.View({
    'replication_status': (answers.TEXT, lambda service: 'disabled'),
    'active_backend_id': answers.NULL,
    'frozen': answers.BOOLEAN,
})
_SERVICE = schema.extend(_VIEW.whole, _BACKEND_VIEW.keys)
_CLUSTERED = schema.extend(_SERVICE, {'cluster': answers.NULLABLE_TEXT}, required=['cluster'])
_ANSWER = {
    since: schema.wrapped('services', schema.array(service)) for since, service in (
        (operation.BASE, _SERVICE), (_CLUSTERS, _CLUSTERED),
        (_BACKENDS, schema.extend(_CLUSTERED, {'backend_state': _WORD})))}


_NUMBER: schema.Schema = {'type': 'integer', 'minimum': 0}
# Repairs by a volume service since its start, from its last report.
_RECONCILED_VIEW = schema.View({
    'repaired': (answers.whole(dict.fromkeys(metrics.DRIFTS, _NUMBER)),
                 lambda last: {kind: last.repaired.get(kind, 0) for kind in metrics.DRIFTS}),
    'last': {'enum': [*metrics.DRIFTS, None]},
    'last_at': answers.NULLABLE_TIME,
})


def _with_reconciled(answer: schema.Schema) -> schema.Schema:
    return schema.extend(
        answer, {'reconciled': {'oneOf': [answers.NULL, _RECONCILED_VIEW.whole]}}, at='services')


_NAME: schema.Schema = {'type': 'string', 'minLength': 1, 'maxLength': 255}
_NAMED = schema.obj({'host': _NAME, 'binary': _NAME, 'service': _NAME}, required=['host'],
                    anyOf=[{'required': ['binary']}, {'required': ['service']}])
_WITH_REASON = schema.extend(_NAMED, {'disabled_reason': {**_NAME, 'pattern': r'\S'}},
                             required=['disabled_reason'])
_CHANGED = answers.whole({
    'host': answers.TEXT,
    'service': answers.TEXT,
    'binary': answers.TEXT,
    'disabled': answers.BOOLEAN,
    'status': {'enum': ['enabled', 'disabled']},
})
_CHANGED_WITH_REASON = schema.extend(_CHANGED, {'disabled_reason': answers.NULLABLE_TEXT},
                                     required=['disabled_reason'])

_BACKEND_ID: dict[str, Any] = {
    'backend_id': {'type': ['string', 'null'], 'minLength': 1, 'maxLength': 255}}
_HOST = schema.obj({'host': _NAME}, required=['host'])
_HOST_OR_CLUSTER = schema.obj({'host': _NAME, 'cluster': _NAME}, oneOf=[
    {'required': ['host']}, {'required': ['cluster']}])
_BACKEND = {operation.BASE: _HOST, _FREEZING: _HOST_OR_CLUSTER}
_NOTHING = {operation.BASE: answers.EMPTY}

_LOGGERS: schema.Schema = {'type': ['string', 'null'], 'maxLength': 255}
_ASKED = schema.obj({
    # This service has no cinder-backup process, but clients may name the binary.
    'binary': {'enum': [*_ANY, binaries.API, binaries.VOLUME, binaries.SCHEDULER,
                        'cinder-backup']},
    'server': _LOGGERS,
    'prefix': _LOGGERS,
})
_SET_LEVELS = schema.extend(_ASKED, {'level': {'type': 'string', 'maxLength': 255}},
                            required=['level'])
_LEVELS = schema.View({
    'binary': answers.TEXT,
    'host': answers.TEXT,
    'levels': {'type': 'object', 'additionalProperties': {'type': 'string'}},
})

_FINDING = {
    'host': answers.TEXT,
    'drift': {'enum': [*metrics.DRIFTS]},
    'volume_id': schema.UUID,
    'attachment_id': schema.NULLABLE_UUID,
    'initiator': answers.NULLABLE_TEXT,
    'said': answers.TEXT,
    'remedy': answers.TEXT,
    'outcome': answers.TEXT,
}

OPERATIONS = (
    operation.Operation(
        'GET', '/os-services', index, policy=policies.GET_ALL, answer=_ANSWER,
        extended={_RECONCILED: _with_reconciled},
        summary='List services.'),
    operation.Operation(
        'PUT', '/os-services/enable', enable, policy=policies.UPDATE,
        body={operation.BASE: _NAMED}, answer={operation.BASE: _CHANGED_WITH_REASON},
        faults=(errors.ServiceNotFound,), summary='Enable a service.'),
    operation.Operation(
        'PUT', '/os-services/disable', disable, policy=policies.UPDATE,
        body={operation.BASE: _NAMED}, answer={operation.BASE: _CHANGED},
        faults=(errors.ServiceNotFound,), summary='Disable a service.'),
    operation.Operation(
        'PUT', '/os-services/disable-log-reason', disable_log_reason, policy=policies.UPDATE,
        body={operation.BASE: _WITH_REASON}, answer={operation.BASE: _CHANGED_WITH_REASON},
        faults=(errors.ServiceNotFound,), summary='Disable a service with a reason.'),
    operation.Operation(
        'PUT', '/os-services/freeze', freeze, policy=policies.FREEZE, body=_BACKEND,
        answer=_NOTHING,
        summary='Freeze a backend. Volumes on a frozen backend are neither created nor deleted.'),
    operation.Operation(
        'PUT', '/os-services/thaw', thaw, policy=policies.THAW, body=_BACKEND,
        answer=_NOTHING,
        summary='Thaw a backend.'),
    operation.Operation(
        'PUT', '/os-services/reconcile', reconcile, extension=_ON_REQUEST,
        policy=policies.RECONCILE,
        body={operation.BASE: schema.extend(_HOST_OR_CLUSTER, {'dry_run': answers.BOOLEAN})},
        answer={operation.BASE: answers.whole({
            'dry_run': answers.BOOLEAN, 'findings': schema.array(answers.whole(_FINDING))})},
        faults=(errors.ServiceNotFound, errors.ServiceSilent, *answers.BACKEND),
        summary='Reconcile a backend. Interrupted operations are finished, and the target is '
                'updated to match the database.'),
    operation.Operation(
        'PUT', '/os-services/failover_host', failover, policy=policies.FAILOVER, status=202,
        body={operation.BASE: schema.extend(_HOST, _BACKEND_ID)},
        answer=_NOTHING, faults=(errors.ServiceNotFound,),
        summary='Fail over a backend host. Requests are always rejected, because no backend is '
                'replicated.'),
    operation.Operation(
        'PUT', '/os-services/failover', failover, since=_FREEZING, policy=policies.FAILOVER,
        status=202, body={_FREEZING: schema.extend(_HOST_OR_CLUSTER, _BACKEND_ID)},
        answer=_NOTHING, faults=(errors.ServiceNotFound,),
        summary='Fail over a backend host or cluster. Requests are always rejected, because no '
                'backend is replicated.'),
    operation.Operation(
        'PUT', '/os-services/get-log', levels, since=_LOG_LEVELS, policy=policies.UPDATE,
        body={_LOG_LEVELS: _ASKED},
        answer={_LOG_LEVELS: schema.wrapped('log_levels', schema.array(_LEVELS.whole))},
        summary='Get the current log levels of running services.'),
    operation.Operation(
        'PUT', '/os-services/set-log', set_levels, since=_LOG_LEVELS, policy=policies.UPDATE,
        status=202, body={_LOG_LEVELS: _SET_LEVELS},
        summary='Set log levels of running services. The levels apply until a service stops.'),
)
