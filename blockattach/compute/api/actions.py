"""Handlers of server actions, which the conductor executes after the response."""
import dataclasses
from collections.abc import Mapping
from typing import Any

from blockattach.compute import errors
from blockattach.compute import policy as policies
from blockattach.compute import records
from blockattach.compute.api import services as compute_services
from blockattach.platform.http import operation


def begin(verb: str, services: compute_services.ComputeServices, call: operation.Call) -> None:
    """Begin a server action that has no parameters."""
    services.conductor.begin(call.context, call.target.id, verb)


def reboot(services: compute_services.ComputeServices, call: operation.Call) -> None:
    """Begin to reboot a server. A hard reboot does not wait for the guest to shut down."""
    services.conductor.begin(call.context, call.target.id, 'reboot',
                             {'type': call.body['reboot']['type'].upper()})


def unshelve(services: compute_services.ComputeServices, call: operation.Call) -> None:
    """Begin to unshelve a server. An offloaded server is started on the requested host, if any."""
    asked = call.body['unshelve'] or {}
    if asked.get('host') is not None:
        services.policy.authorize(call.context, policies.UNSHELVE_TO)
    _begin_on(services, call, 'unshelve', asked.get('host'))


def resize(services: compute_services.ComputeServices, call: operation.Call) -> None:
    """Begin to move a server to another host with another flavor.

    :raises ServerRequestInvalid: the flavor does not exist or is the current one
    """
    flavor_id = str(call.body['resize']['flavorRef'])
    if flavor_id not in services.flavors:
        raise errors.ServerRequestInvalid(
            reason=f'Flavor {errors.shortened(flavor_id)} could not be found.')
    if flavor_id == call.target.flavor.id:
        raise errors.ServerRequestInvalid(
            reason='When resizing, instances must change flavor!')
    services.conductor.begin(call.context, call.target.id, 'resize', {
        'flavor': dataclasses.asdict(services.flavors[flavor_id])})


def migrate(services: compute_services.ComputeServices, call: operation.Call) -> None:
    """Begin to cold-migrate a server to another host."""
    asked = call.body['migrate'] or {}
    _begin_on(services, call, 'resize', asked.get('host'))


def live_migrate(services: compute_services.ComputeServices, call: operation.Call) -> None:
    """Begin to live-migrate a server.

    :raises ServerRequestInvalid: block migration was requested, or the requested host is invalid
    """
    asked: Mapping[str, Any] = call.body['os-migrateLive']
    if asked.get('block_migration') is True:
        raise errors.ServerRequestInvalid(
            reason='Servers only have volumes. block_migration must be false or auto.')
    _begin_on(services, call, 'live_migrate', asked.get('host'))


def evacuate(services: compute_services.ComputeServices, call: operation.Call) -> dict[str, Any]:
    """Begin to evacuate a server from a failed host.

    :raises ServerRequestInvalid: the server has no host, the agent of its host is up, or the
        requested destination host is invalid
    """
    server: records.Server = call.target
    if server.host is None:
        raise errors.ServerRequestInvalid(
            reason=f'Cannot evacuate instance {server.id}. The instance has no host.')
    up = {agent.host for agent in services.database.agents() if agent.up}
    if server.host in up:
        raise errors.ServerRequestInvalid(reason=(
            f'Compute service of {server.host} is still in use.'))
    _begin_on(services, call, 'evacuate', call.body['evacuate'].get('host'))
    return {'adminPass': None}


def rebuild(services: compute_services.ComputeServices, call: operation.Call) -> None:
    """Begin to rebuild the guest of a server, which keeps its volumes and their data.

    :raises ServerRequestInvalid: another image was requested
    """
    if call.body['rebuild'].get('imageRef') not in (None, '', call.target.image_ref):
        raise errors.ServerRequestInvalid(
            reason='Unable to rebuild with a different image. A rebuild keeps the data of the '
                   'volumes. Omit imageRef, or use the current image of the server.')
    services.conductor.begin(call.context, call.target.id, 'rebuild')


def _begin_on(services: compute_services.ComputeServices, call: operation.Call, verb: str,
              host: str | None) -> None:
    """Begin a server action with an optional destination host.

    :raises ServerRequestInvalid: the host has no agent, or is the current host of the server. Only
        an unshelve may name the current host
    """
    if host is not None and host not in {one.host for one in services.database.agents()}:
        raise errors.ServerRequestInvalid(
            reason=f'Compute host {errors.shortened(host)} could not be found.')
    # A shelved server that was not offloaded still has a host.
    if host is not None and host == call.target.host and verb != 'unshelve':
        raise errors.ServerRequestInvalid(
            reason=f"The target host {host} can't be the same one.")
    services.conductor.begin(call.context, call.target.id, verb,
                             {'host': host} if host else {})

