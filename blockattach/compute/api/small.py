"""Handlers of flavors, agents, external events and version documents."""
from collections.abc import Mapping
from typing import Any

from blockattach.compute import errors
from blockattach.compute.api import services as compute_services
from blockattach.compute.api import versions
from blockattach.compute.api import views
from blockattach.platform.http import operation

_OFFER = {operation.OFFER_HEADER:
          f'min={versions.EXTENSION_MINIMUM}, max={versions.EXTENSION_MAXIMUM}'}
_EXTENDED = 'volume-extended'


def flavors(services: compute_services.ComputeServices, call: operation.Call) -> dict[str, Any]:
    """List the names and links of the flavors."""
    return {'flavors': [{'id': one.id, 'name': one.name,
                         'links': call.links(f'/flavors/{one.id}')}
                        for one in services.flavors.values()]}


def flavors_detail(services: compute_services.ComputeServices,
                   call: operation.Call) -> dict[str, Any]:
    """List the flavors with details."""
    return {'flavors': [views.flavor(call, one) for one in services.flavors.values()]}


def flavor(services: compute_services.ComputeServices, call: operation.Call) -> dict[str, Any]:
    """Show the details of a flavor.

    :raises FlavorNotFound: the flavor does not exist
    """
    found = services.flavors.get(call.path['id'])
    if found is None:
        raise errors.FlavorNotFound(flavor_id=call.path['id'])
    return {'flavor': views.flavor(call, found)}


def extra_specs(services: compute_services.ComputeServices,
                call: operation.Call) -> dict[str, Any]:
    """List the extra specs of a flavor, which are always empty.

    :raises FlavorNotFound: the flavor does not exist
    """
    flavor(services, call)
    return {'extra_specs': {}}


def agents(services: compute_services.ComputeServices, call: operation.Call) -> dict[str, Any]:
    """List the agents in the format of Nova's compute services."""
    host, binary = call.query.get('host'), call.query.get('binary')
    return {'services': [views.agent(call, number, one)
                         for number, one in enumerate(services.database.agents(), 1)
                         if host in (None, one.host) and binary in (None, views.BINARY)]}


def _is_ours(event: Mapping[str, Any]) -> bool:
    # The tag of a volume-extended event is the id of the volume.
    return event['name'] == _EXTENDED and 'tag' in event


def external_events(services: compute_services.ComputeServices,
                    call: operation.Call) -> operation.Answer:
    """Accept ``volume-extended`` events, and report the result of each event as Nova does.

    The code of a ``volume-extended`` event is 200, or 404 if the server does not have the volume.
    An event without a volume id, or with another name, has the code 400.

    Guests are notified of the new sizes after the response.
    """
    events = call.body['events']
    ours = [(event['server_uuid'], event['tag']) for event in events if _is_ours(event)]
    taken = dict(zip(ours, services.conductor.extended(call.context, ours), strict=True))
    results, worst = [], 200
    for event in events:
        code = 400
        if _is_ours(event):
            code = 200 if taken[event['server_uuid'], event['tag']] else 404
        results.append({**event, 'code': code, 'status': 'completed' if code == 200 else 'failed'})
        worst = 207 if code != 200 else worst
    return operation.Answer({'events': results}, worst)


def _version(call: operation.Call) -> dict[str, Any]:
    return {'id': 'v2.1', 'status': 'CURRENT', 'version': str(versions.MAXIMUM),
            'min_version': str(versions.MINIMUM), 'updated': versions.UPDATED,
            'links': [{'rel': 'self', 'href': f'{call.base_url}{versions.PREFIX}/'}]}


def discover(services: Any, call: operation.Call) -> operation.Answer:
    """List the API versions."""
    return operation.Answer({'versions': [_version(call)]}, headers=_OFFER)


def discover_one(services: Any, call: operation.Call) -> operation.Answer:
    """Show the details of the API version."""
    return operation.Answer({'version': {
        **_version(call), 'media-types': [{
            'base': 'application/json',
            'type': 'application/vnd.openstack.compute+json;version=2.1'}]}}, headers=_OFFER)
