"""Backends whose volumes stay as they are: frozen, and thawed. None of them is replicated."""
from typing import Any

from blockattach import errors
from blockattach.api import answers
from blockattach.api import services as api_services
from blockattach.db import services
from blockattach.domain import binaries
from blockattach.http import operation
from blockattach.http import schema
from blockattach.policy import services as policies

_CLUSTERS = operation.V(3, 26)


def freeze(handed: api_services.ApiServices, call: operation.Call) -> None:
    """Let no volume be made or deleted there; those that are there are used as ever."""
    services.set_frozen(handed.database, _backend(call), True)


def thaw(handed: api_services.ApiServices, call: operation.Call) -> None:
    """The end of that; whether the service is disabled stays as it was before."""
    services.set_frozen(handed.database, _backend(call), False)


def failover(handed: api_services.ApiServices, call: operation.Call) -> None:
    """Refuse: there is no other backend with the same volumes."""
    backend = _backend(call)
    if not services.keeping(handed.database, binaries.VOLUME, backend, handed.service_down_time):
        services.get_by_host(handed.database, binaries.VOLUME, backend, handed.service_down_time)
    raise errors.InvalidInput(
        reason=f'Invalid input received: {errors.shortened(backend)} is not replicated '
               '(its replication_status is disabled).')


def _backend(call: operation.Call) -> str:
    return str(call.body.get('host') or call.body['cluster'])


_NAME: schema.Schema = {'type': 'string', 'minLength': 1, 'maxLength': 255}
_BACKEND_ID: dict[str, Any] = {
    'backend_id': {'type': ['string', 'null'], 'minLength': 1, 'maxLength': 255}}
_HOST = schema.obj({'host': _NAME}, required=['host'])
_HOST_OR_CLUSTER = schema.obj({'host': _NAME, 'cluster': _NAME}, oneOf=[
    {'required': ['host']}, {'required': ['cluster']}])
_NAMED = {operation.BASE: _HOST, _CLUSTERS: _HOST_OR_CLUSTER}
_NOTHING = {operation.BASE: answers.EMPTY}

OPERATIONS = (
    operation.Operation(
        'PUT', '/os-services/freeze', freeze, policy=policies.FREEZE, body=_NAMED,
        answer=_NOTHING, faults=(errors.ServiceNotFound,),
        summary='Keep the volumes of a backend as they are: none is made or deleted.'),
    operation.Operation(
        'PUT', '/os-services/thaw', thaw, policy=policies.THAW, body=_NAMED,
        answer=_NOTHING, faults=(errors.ServiceNotFound,),
        summary='Let volumes be made and deleted on a backend again.'),
    operation.Operation(
        'PUT', '/os-services/failover_host', failover, policy=policies.FAILOVER, status=202,
        body={operation.BASE: schema.extend(_HOST, _BACKEND_ID)},
        answer=_NOTHING, faults=(errors.ServiceNotFound,),
        summary='Refused: no backend is replicated.'),
    operation.Operation(
        'PUT', '/os-services/failover', failover, since=_CLUSTERS, policy=policies.FAILOVER,
        status=202, body={_CLUSTERS: schema.extend(_HOST_OR_CLUSTER, _BACKEND_ID)},
        answer=_NOTHING, faults=(errors.ServiceNotFound,),
        summary='Refused: no backend is replicated.'),
)
