"""Volume attachments of a server: ``/servers/{id}/os-volume_attachments``."""
from collections.abc import Mapping
from typing import Any

from blockattach.compute import errors
from blockattach.compute import lifecycle
from blockattach.compute import placement
from blockattach.compute import policy as policies
from blockattach.compute import records
from blockattach.compute import storage
from blockattach.compute.api import devices
from blockattach.compute.api import services as compute_services
from blockattach.compute.api import versions
from blockattach.compute.api import views
from blockattach.platform.http import operation
from blockattach.storage.domain import connection

_RO = connection.AccessMode.RO


def index(services: compute_services.ComputeServices, call: operation.Call) -> dict[str, Any]:
    """List the volume attachments of a server."""
    return {'volumeAttachments': [views.volume(call, one) for one in _of(services, call)]}


def show(services: compute_services.ComputeServices, call: operation.Call) -> dict[str, Any]:
    """Show a volume attachment of a server.

    :raises ServerVolumeNotFound: the server does not have the volume
    """
    found = services.database.device(call.target.id, call.path['volume_id'])
    return {'volumeAttachment': views.volume(call, found)}


def create(services: compute_services.ComputeServices, call: operation.Call) -> operation.Answer:
    """Reserve a volume for a server, and begin to attach the volume.

    The volume is connected after the response.

    :raises ServerRequestInvalid: the volume cannot be attached
    :raises AgentTooOld: the mode is ``ro``, and the agent of the host is too old to prevent writes
    """
    asked: Mapping[str, Any] = call.body['volumeAttachment']
    server: records.Server = call.target
    try:
        volume = services.volumes.get(call.context, asked['volumeId'])
    except errors.ServerRequestInvalid:
        raise errors.NotFound(
            f"Volume {errors.shortened(asked['volumeId'])} could not be found.") from None
    device = devices.attached(asked, call, volume, server.id, _of(services, call))
    _check_server(services, call, volume, device)
    services.conductor.attach(call.context, server.id, device)
    if call.version >= versions.LATER:
        return operation.Answer(None, 202)
    found = services.database.device(server.id, volume.id)
    return operation.Answer({'volumeAttachment': views.volume(call, found)}, 200)


def update(services: compute_services.ComputeServices, call: operation.Call) -> None:
    """Replace the volume of an attachment, or update ``delete_on_termination``.

    :raises ServerRequestInvalid: the request is invalid
    """
    asked: Mapping[str, Any] = call.body['volumeAttachment']
    server: records.Server = call.target
    old = services.database.device(server.id, call.path['volume_id'])
    if 'attach_mode' in asked and devices.mode(asked, call) is not old.mode:
        raise errors.ServerRequestInvalid(
            reason='Cannot change attach_mode of an attached volume. Detach the volume, and '
                   'attach the volume with the new mode.')
    if asked['volumeId'] != old.volume_id:
        services.policy.authorize(call.context, policies.VOLUMES_SWAP, server.project_id)
        _swap(services, call, server, old, asked)
        return
    if call.version < versions.KEEP_CHANGED or 'delete_on_termination' not in asked:
        raise errors.ServerRequestInvalid(reason=(
            f'Volume {old.volume_id} is already attached. Specify another volume, or '
            f'delete_on_termination with microversion {versions.KEEP_CHANGED} or later.'))
    services.database.change_device(
        old.id, delete_on_termination=bool(asked['delete_on_termination']))


def delete(services: compute_services.ComputeServices, call: operation.Call) -> None:
    """Begin to detach a volume from a server.

    :raises ServerRequestInvalid: the volume is the root disk of a server that is not offloaded
    :raises ServerStateConflict: the volume is not in state ``attached``
    """
    server: records.Server = call.target
    found = services.database.device(server.id, call.path['volume_id'])
    if found.boot_index == 0 and server.vm_state is not lifecycle.VmState.OFFLOADED:
        raise errors.ServerRequestInvalid(reason='Cannot detach a root device volume')
    if found.state != 'attached':
        raise errors.ServerStateConflict(action='detach_volume', server_id=server.id,
                                         attribute='volume', state=found.state)
    services.conductor.detach(call.context, server.id, found)


def _swap(services: compute_services.ComputeServices, call: operation.Call,
          server: records.Server, old: records.BlockDevice, requested: Mapping[str, Any]) -> None:
    """Begin to replace a volume of a server with another volume, and keep the access mode.

    :raises ServerRequestInvalid: the new volume is in use, attached to the server or too small,
        or several servers may write to the old volume
    """
    volume = services.volumes.get(call.context, requested['volumeId'])
    if any(one.volume_id == volume.id for one in _of(services, call)):
        raise errors.ServerRequestInvalid(
            reason=f'Invalid volume: volume {volume.id} already attached')
    devices.check_volume(volume, call, 1)
    if volume.attached:
        raise errors.ServerRequestInvalid(reason=(
            f'Invalid volume: volume {volume.id} is attached. A swap overwrites the new volume, '
            'which must not be in use.'))
    # The old volume must not change during the copy.
    if services.database.writers(old.volume_id) > 1:
        raise errors.ServerRequestInvalid(reason=(
            f'Invalid volume: volume {old.volume_id} is attached to more than one server with '
            'mode rw.'))
    if volume.size_gb < services.volumes.get(call.context, old.volume_id).size_gb:
        raise errors.ServerRequestInvalid(
            reason=f'Invalid volume: volume {volume.id} is smaller than volume {old.volume_id}.')
    services.conductor.begin(call.context, server.id, 'swap', {
        'volume_id': old.volume_id, 'new_volume_id': volume.id})


def _check_server(services: compute_services.ComputeServices, call: operation.Call,
                  volume: storage.Volume, device: records.BlockDevice) -> None:
    server: records.Server = call.target
    if volume.multiattach and server.vm_state is lifecycle.VmState.OFFLOADED:
        raise errors.ServerRequestInvalid(reason=(
            'Attaching multiattach volumes is not supported for shelved-offloaded instances.'))
    if device.mode is not _RO:
        return
    for agent in services.database.agents():
        if agent.host == server.host and not placement.heeds_modes(agent):
            raise compute_services.too_old(services, call, agent)


def _of(services: compute_services.ComputeServices,
        call: operation.Call) -> list[records.BlockDevice]:
    return services.database.devices([call.target.id])[call.target.id]
