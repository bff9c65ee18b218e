"""Handlers to create, list, show, update and delete servers."""
import uuid
from collections.abc import Mapping
from typing import Any

from oslo_utils import strutils

from blockattach.compute import errors
from blockattach.compute import lifecycle
from blockattach.compute import placement
from blockattach.compute import policy as policies
from blockattach.compute import records
from blockattach.compute.api import devices
from blockattach.compute.api import metadata
from blockattach.compute.api import services as compute_services
from blockattach.compute.api import versions
from blockattach.compute.api import views
from blockattach.platform.http import operation

MOST = 100
"""Maximum number of servers that one request can create."""
LONGEST_NAME = 255


def create(services: compute_services.ComputeServices, call: operation.Call) -> operation.Answer:
    """Create servers, which are built after the response.

    :raises ServerRequestInvalid: a value in the request is invalid; no server is created
    """
    asked: Mapping[str, Any] = call.body['server']
    least, most = int(asked.get('min_count', 1)), int(asked.get('max_count', 1))
    # As in Nova, max_count defaults to min_count.
    most = max(most, least) if 'max_count' not in asked else most
    if most < least:
        raise errors.ServerRequestInvalid(reason='min_count must be <= max_count')
    if most > MOST:
        raise errors.ServerRequestInvalid(
            reason=f'A request can create at most {MOST} servers.')
    _check_networks(asked, call)
    flavor = _flavor(services, asked['flavorRef'])
    host = asked.get('host') or asked.get('hypervisor_hostname')
    if host is not None:
        services.policy.authorize(call.context, policies.CREATE_ON)
    image = asked.get('imageRef') or ''
    mapped = devices.of_mapping(
        asked.get('block_device_mapping_v2') or (), call,
        lambda volume_id: services.volumes.get(call.context, volume_id), most)
    if not image and not any(one.boot_index == 0 for one in mapped[0]):
        raise errors.ServerRequestInvalid(
            reason='Invalid imageRef provided. Specify an image, or a volume with boot_index 0.')
    _check_agents(services, call, [one for its in mapped for one in its], host)
    if len(_name(asked['name'], most - 1, most)) > LONGEST_NAME:
        raise errors.ServerRequestInvalid(reason=(
            f'The name is too long. Including the number that is appended if a request creates '
            f'several servers, a name has at most {LONGEST_NAME} characters.'))
    reservation_id = str(uuid.uuid4())
    drafts = []
    for number in range(most):
        server = _draft(services, call, _name(asked['name'], number, most), flavor, image,
                        reservation_id)
        drafts.append((server, devices.of_server(mapped[number], server.id)))
    services.conductor.create(call.context, drafts, {'host': host} if host else {})
    if strutils.bool_from_string(asked.get('return_reservation_id') or False):
        return operation.Answer({'reservation_id': reservation_id})
    first = drafts[0][0]
    return operation.Answer({'server': {
        'id': first.id, 'links': views.links(call, first.id), 'OS-DCF:diskConfig': 'MANUAL',
        'security_groups': [], 'adminPass': uuid.uuid4().hex[:12]}})


def index(services: compute_services.ComputeServices, call: operation.Call) -> dict[str, Any]:
    """List the servers that match the query."""
    return _page(call, [views.summary(call, one) for one in _found(services, call)])


def detail(services: compute_services.ComputeServices, call: operation.Call) -> dict[str, Any]:
    """List the servers that match the query, with details."""
    found = _found(services, call)
    volumes = services.database.devices([one.id for one in found])
    return _page(call, [
        views.detail(services, call, one, volumes[one.id]) for one in found])


def show(services: compute_services.ComputeServices, call: operation.Call) -> dict[str, Any]:
    """Show the details of a server."""
    return {'server': _detail(services, call, call.target)}


def update(services: compute_services.ComputeServices, call: operation.Call) -> dict[str, Any]:
    """Update the name or description of a server."""
    asked: Mapping[str, Any] = call.body['server']
    # The schema of the body allows only ``name`` and ``description``.
    services.database.change(call.target.id, **asked)
    server = services.database.server(call.target.id)
    return {'server': views.changed(_detail(services, call, server), call)}


def delete(services: compute_services.ComputeServices, call: operation.Call) -> None:
    """Begin to delete a server, even if another server action is in progress."""
    # A repeated request must not begin a second action, whose notifications would be duplicates.
    if call.target.task_state == lifecycle.VERBS['delete'].task_state:
        return
    services.conductor.begin(call.context, call.target.id, 'delete')


def _detail(services: compute_services.ComputeServices, call: operation.Call,
            server: records.Server) -> dict[str, Any]:
    volumes = services.database.devices([server.id])[server.id]
    return views.detail(services, call, server, volumes)


def _found(services: compute_services.ComputeServices,
           call: operation.Call) -> list[records.Server]:
    """Return the servers on the requested page, newest first.

    If there is a next page, its first server is returned too.

    :raises ServerRequestInvalid: the marker does not exist
    """
    query = call.query
    everyone = call.context.is_admin and query.get('all_tenants', '0') in ('1', 'True', 'true')
    found = services.database.servers(
        # Not None for a caller without a project, because None means all projects.
        query.get('project_id') if everyone else call.context.project_id or '',
        host=query.get('host') if call.context.is_admin else None,
        reservation_id=query.get('reservation_id'))
    name, status = query.get('name'), query.get('status')
    # The status is derived from two columns, so the database cannot filter by it.
    kept = [one for one in found
            if (not name or name in one.name) and (not status or one.status == status.upper())]
    marker = query.get('marker')
    if marker:
        ids = [one.id for one in kept]
        if marker not in ids:
            raise errors.ServerRequestInvalid(reason=f'marker [{marker}] not found')
        kept = kept[ids.index(marker) + 1:]
    return kept[:views.page_size(call) + 1]


def _page(call: operation.Call, shown: list[dict[str, Any]]) -> dict[str, Any]:
    return views.page(call, 'servers', shown, 'id', 'servers_links')


def _flavor(services: compute_services.ComputeServices, ref: Any) -> records.Flavor:
    flavor_id = str(ref).rstrip('/').rpartition('/')[2]
    if flavor_id not in services.flavors:
        raise errors.ServerRequestInvalid(reason=(
            f'Invalid flavorRef provided: flavor {errors.shortened(flavor_id)} could not be '
            'found'))
    return services.flavors[flavor_id]


def _check_networks(requested: Mapping[str, Any], call: operation.Call) -> None:
    """Check that no network is requested, because networks are not supported.

    :raises ServerRequestInvalid: a network is requested, or the field is missing although the
        microversion requires the field
    """
    networks = requested.get('networks')
    if networks is None and call.version >= versions.NETWORKS:
        raise errors.ServerRequestInvalid(reason=(
            "Invalid input for field/attribute server. 'networks' is a required property"))
    if networks not in (None, 'none', 'auto', []):
        raise errors.ServerRequestInvalid(
            reason='Networks are not supported. networks must be none or auto.')


def _check_agents(services: compute_services.ComputeServices, call: operation.Call,
                  mapped: list[records.BlockDevice], host: str | None) -> None:
    """Check that an agent can enforce the access mode of read-only volumes.

    An older agent would permit the server to write to these volumes.

    :param mapped: block devices of all requested servers
    :param host: requested host, or None for any host
    :raises AgentTooOld: agents are up, but all of them are too old
    """
    if all(one.mode == 'rw' for one in mapped):
        return
    fit = [agent for agent in services.database.agents() if agent.up and host in (
        None, agent.host)]
    if fit and not any(placement.heeds_modes(agent) for agent in fit):
        raise compute_services.too_old(services, call, fit[0])


def _draft(services: compute_services.ComputeServices, call: operation.Call, name: str,
           flavor: records.Flavor, image: str, reservation_id: str) -> records.Server:
    asked, now = call.body['server'], services.clock.utcnow()
    return records.Server(
        id=str(uuid.uuid4()), project_id=call.context.project_id or '',
        user_id=call.context.user_id or '', name=name, flavor=flavor, image_ref=image,
        host=None, vm_state=lifecycle.VmState.BUILDING,
        task_state=lifecycle.VERBS['build'].task_state, created_at=now, updated_at=now,
        reservation_id=reservation_id, description=(
            asked.get('description') if call.version >= versions.DESCRIPTION else asked['name']),
        metadata=metadata.check(asked.get('metadata', {})))


def _name(name: str, number: int, count: int) -> str:
    return name if count == 1 else f'{name}-{number + 1}'
