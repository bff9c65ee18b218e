"""Unfinished work of services that are down.

Other processes find and finish such work without a request (`blockattach.storage.work`), so
``/workers/cleanup`` starts nothing. The response lists the services with unfinished work, grouped
by whether another service is available to finish the work.
"""
from collections.abc import Callable
from typing import Any

from blockattach.platform import errors
from blockattach.platform.http import operation
from blockattach.platform.http import schema
from blockattach.storage.api import answers
from blockattach.storage.api import listing
from blockattach.storage.api import services as api_services
from blockattach.storage.db import work
from blockattach.storage.db.services import services as db_services
from blockattach.storage.domain import binaries
from blockattach.storage.domain import records
from blockattach.storage.policy import services as policies

_SINCE = operation.V(3, 24)
_TYPES = ('Snapshot', 'Volume')
_LOCATIONS = ('service_id', 'cluster_name', 'host')


def cleanup(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """List the services with unfinished work. By default, only services that are down are listed.

    :raises InvalidInput: if the resource type is unknown, or if the request names a resource
        without unfinished work, and neither a service nor a cluster nor a host
    """
    asked = {key: value for key, value in call.body.items() if value not in (None, '')}
    kind = asked.get('resource_type', '').title()
    if kind and kind not in _TYPES:
        raise errors.InvalidInput(f'Invalid input received: Resource type {kind} not valid, must '
                                  f'be {" or ".join(_TYPES)}')
    left = [one for one in work.list_all(services.database)
            if kind.lower() in ('', one.noun)
            and asked.get('resource_id') in (None, one.resource_id)]
    if not left and 'resource_id' in asked and not any(key in asked for key in _LOCATIONS):
        raise errors.InvalidInput(f'Invalid input received: There is no resource with UUID '
                                  f'{asked["resource_id"]} pending cleanup.')
    known = db_services.list_all(services.database, services.service_down_time)
    living = {(one.binary, _keeps(one)) for one in known if one.up}
    answer: dict[str, list[Any]] = {'cleaning': [], 'unavailable': []}
    for one in known:
        if _is_meant(one, asked) and any(_has(one, act) for act in left):
            found = (one.binary, _keeps(one)) in living
            answer['cleaning' if found else 'unavailable'].append(_SERVICE.show(one))
    return answer


def _is_meant(service: records.Service, filters: dict[str, Any]) -> bool:
    wanted: dict[str, Callable[[Any], bool]] = {
        'service_id': lambda value: str(service.id) == str(value),
        'cluster_name': lambda value: service.cluster == value,
        'host': lambda value: value in (service.host, service.host.partition('@')[0]),
        'binary': lambda value: service.binary == value,
        'is_up': lambda value: service.up is listing.boolean(value),
        'disabled': lambda value: service.disabled is listing.boolean(value),
    }
    return all(wanted[key](value) for key, value in {'is_up': False, **filters}.items()
               if key in wanted)


def _has(service: records.Service, act: records.Work) -> bool:
    """Return True if a service is the owner of unfinished work, or may execute unowned work."""
    if act.owner is not None:
        # An owner is a process instance of a service.
        return act.owner.rpartition(db_services.INSTANCE)[0] == service.host
    return act.host == _keeps(service)


def _keeps(service: records.Service) -> str | None:
    """Return the backend for which a service executes work, or None for a scheduler."""
    return service.backend if service.binary == binaries.VOLUME else None


_HOST: schema.Schema = {'type': ['string', 'null'], 'minLength': 1, 'maxLength': 255}
_ASKED = schema.obj({
    'cluster_name': _HOST,
    'host': _HOST,
    'binary': {'enum': [binaries.VOLUME, binaries.SCHEDULER]},
    'is_up': answers.YES_OR_NO,
    'disabled': answers.YES_OR_NO,
    'resource_id': schema.NULLABLE_UUID,
    'resource_type': {'type': ['string', 'null'], 'maxLength': 40},
    'service_id': {'type': ['integer', 'string', 'null'], 'pattern': '^[0-9]*$', 'maxLength': 11},
})
_SERVICE = schema.View({
    'id': answers.INTEGER,
    'host': answers.TEXT,
    'binary': answers.TEXT,
    'cluster_name': (answers.NULLABLE_TEXT, 'cluster'),
})

OPERATIONS = (
    operation.Operation(
        'POST', '/workers/cleanup', cleanup, since=_SINCE, policy=policies.CLEANUP, status=202,
        body={_SINCE: _ASKED}, answer={_SINCE: answers.whole(dict.fromkeys(
            ('cleaning', 'unavailable'), schema.array(_SERVICE.whole)))},
        summary='Clean up services. The response lists services with unfinished work, and '
                'whether another service is available to finish the work.'),
)
