"""Representations of servers, their volumes, flavors and agents in responses, and pages of lists.
"""
import datetime
import hashlib
import uuid
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

from blockattach.compute import errors
from blockattach.compute import lifecycle
from blockattach.compute import policy as policies
from blockattach.compute import records
from blockattach.compute.api import services as compute_services
from blockattach.compute.api import versions
from blockattach.platform.http import operation

_V = lifecycle.VmState
_POWER = {_V.ACTIVE: 1, _V.RESIZED: 1, _V.STOPPED: 4, _V.SHELVED: 4}
"""Power state that Nova's API shows for each VM state: 1 for running, 4 for shut down.

The power state of other VM states is shown as 0, unknown.
"""
_AT_SERVER = 'OS-EXT-SRV-ATTR'
_DISK_CONFIG = 'OS-DCF:diskConfig'
_NOT_CHANGED = frozenset(('config_drive', 'key_name'))
"""Fields that responses to updates of a server omit before microversion 2.75.

Such responses also omit the fields of extensions, such as ``OS-EXT-STS:vm_state``, but not
``OS-DCF:diskConfig``.
"""
_CONSTANT: tuple[tuple[operation.V, str, Any], ...] = (
    (operation.V(2, 9), 'locked', False),
    (operation.V(2, 26), 'tags', []),
    (operation.V(2, 63), 'trusted_image_certificates', None),
    (operation.V(2, 71), 'server_groups', []),
    (operation.V(2, 73), 'locked_reason', None),
    (operation.V(2, 96), 'pinned_availability_zone', None),
    (operation.V(2, 100), 'scheduler_hints', {}),
)
"""Server fields with a constant value: microversion that added the field, name and value."""
BINARY = 'nova-compute'
"""Name by which the API reports the binary of every agent."""
_MOST = 1000


def time(value: datetime.datetime | None) -> str | None:
    """Return a time in Nova's format, or None for None."""
    return None if value is None else f'{value.replace(microsecond=0).isoformat()}Z'


def summary(call: operation.Call, server: records.Server) -> dict[str, Any]:
    """Return the representation of a server in a list without details."""
    return {'id': server.id, 'name': server.name, 'links': links(call, server.id)}


def links(call: operation.Call, server_id: str) -> list[dict[str, str]]:
    """Return the ``self`` and ``bookmark`` links of a server."""
    return call.links(f'/servers/{server_id}')


def detail(services: compute_services.ComputeServices, call: operation.Call,
           server: records.Server, devices: Iterable[records.BlockDevice]) -> dict[str, Any]:
    """Return the detailed representation of a server."""
    shown: dict[str, Any] = {
        **summary(call, server),
        'status': server.status,
        'tenant_id': server.project_id,
        'user_id': server.user_id,
        'hostId': _host_id(server, server.host),
        'created': time(server.created_at),
        'updated': time(server.updated_at),
        'image': {'id': server.image_ref} if server.image_ref else '',
        'flavor': _flavor(call, server.flavor),
        'addresses': {}, 'metadata': server.metadata, 'accessIPv4': '', 'accessIPv6': '',
        'config_drive': '', 'key_name': None, _DISK_CONFIG: 'MANUAL',
        'OS-EXT-AZ:availability_zone': 'nova' if server.host else '',
        'OS-EXT-STS:vm_state': server.vm_state.value,
        'OS-EXT-STS:task_state': server.task_state,
        'OS-EXT-STS:power_state': _POWER.get(server.vm_state, 0),
        'OS-SRV-USG:launched_at': server.launched_at and time(server.launched_at),
        'OS-SRV-USG:terminated_at': None,
        'os-extended-volumes:volumes_attached': [
            {'id': one.volume_id, **({'delete_on_termination': one.delete_on_termination}
                                     if call.version >= versions.ROOT_DEVICE else {})}
            for one in devices],
    }
    if server.vm_state is _V.ACTIVE:
        shown['progress'] = 100
    if server.fault is not None and server.vm_state is _V.ERROR:
        shown['fault'] = {'code': 500, 'created': time(server.updated_at),
                          'message': compute_services.reason(
                              services, call, server, server.fault)}
    shown |= {key: value for since, key, value in _CONSTANT if call.version >= since}
    if call.version >= versions.DESCRIPTION:
        shown['description'] = server.description
    if services.policy.allowed(call.context, policies.SEE_HOST, server.project_id):
        shown |= _of_host(call, server, devices)
    return shown


def changed(shown: dict[str, Any], call: operation.Call) -> dict[str, Any]:
    """Return the representation of a server in the response to an update.

    :param shown: detailed representation of the server
    """
    if call.version >= versions.CHANGED_SHOWN:
        return shown
    return {key: value for key, value in shown.items()
            if key not in _NOT_CHANGED and (':' not in key or key == _DISK_CONFIG)}


def _of_host(call: operation.Call, server: records.Server,
             devices: Iterable[records.BlockDevice]) -> dict[str, Any]:
    shown: dict[str, Any] = {
        f'{_AT_SERVER}:host': server.host, f'{_AT_SERVER}:hypervisor_hostname': server.host,
        f'{_AT_SERVER}:instance_name': f'server-{server.id}'}
    if call.version >= versions.ROOT_DEVICE:
        root = next((one.device for one in devices if one.boot_index == 0), None)
        shown |= {f'{_AT_SERVER}:root_device_name': root, f'{_AT_SERVER}:hostname': server.name,
                  f'{_AT_SERVER}:reservation_id': server.reservation_id,
                  f'{_AT_SERVER}:launch_index': 0, f'{_AT_SERVER}:kernel_id': '',
                  f'{_AT_SERVER}:ramdisk_id': '', f'{_AT_SERVER}:user_data': None}
    return shown


def _host_id(server: records.Server, host: str | None) -> str:
    """Return a digest of the project id and the host name, as in Nova, or '' without a host."""
    if host is None:
        return ''
    return hashlib.sha224(f'{server.project_id}{host}'.encode()).hexdigest()


def _flavor(call: operation.Call, flavor: records.Flavor) -> dict[str, Any]:
    if call.version >= versions.FLAVOR_SHOWN:
        return {'original_name': flavor.name, 'vcpus': flavor.vcpus, 'ram': flavor.memory_mb,
                'disk': flavor.disk_gb, 'ephemeral': 0, 'swap': 0, 'extra_specs': {}}
    return {'id': flavor.id, 'links': [{
        'rel': 'bookmark', 'href': call.links(f'/flavors/{flavor.id}')[1]['href']}]}


def flavor(call: operation.Call, item: records.Flavor) -> dict[str, Any]:
    """Return the detailed representation of a flavor."""
    return {'id': item.id, 'name': item.name, 'vcpus': item.vcpus, 'ram': item.memory_mb,
            'disk': item.disk_gb, 'swap': 0 if call.version >= (2, 75) else '',
            'OS-FLV-EXT-DATA:ephemeral': 0, 'OS-FLV-DISABLED:disabled': False,
            'os-flavor-access:is_public': True, 'rxtx_factor': 1.0,
            'links': call.links(f'/flavors/{item.id}'),
            **({'description': None} if call.version >= (2, 55) else {}),
            **({'extra_specs': {}} if call.version >= (2, 61) else {})}


def agent(call: operation.Call, number: int, item: records.Agent) -> dict[str, Any]:
    """Return the representation of an agent as a compute service of Nova.

    :param number: service id in microversions before UUIDs
    """
    shown: dict[str, Any] = {
        'id': (number if call.version < versions.SERVICE_IDS
               else str(uuid.uuid5(uuid.NAMESPACE_DNS, item.host))),
        'binary': BINARY, 'host': item.host, 'zone': 'nova', 'status': 'enabled',
        'state': 'up' if item.up else 'down', 'disabled_reason': None,
        'updated_at': item.reported_at.isoformat()}
    if call.version >= versions.FORCED_DOWN:
        shown['forced_down'] = False
    return shown


def volume(call: operation.Call, device: records.BlockDevice) -> dict[str, Any]:
    """Return the representation of a volume attachment of a server."""
    shown: dict[str, Any] = {'serverId': device.server_id, 'volumeId': device.volume_id,
                             'device': device.device}
    if call.version < versions.IDS:
        shown['id'] = device.volume_id
    else:
        shown |= {'attachment_id': device.attachment_id, 'bdm_uuid': device.id}
    if call.version >= versions.TAG_SHOWN:
        shown['tag'] = device.tag
    if call.version >= versions.KEEP:
        shown['delete_on_termination'] = device.delete_on_termination
    if call.extension is not None:
        shown['attach_mode'] = device.mode.value
    return shown


def action(call: operation.Call, entry: records.Action) -> dict[str, Any]:
    """Return the representation of an instance action."""
    shown: dict[str, Any] = {
        'action': entry.action, 'instance_uuid': entry.server_id, 'request_id': entry.request_id,
        'user_id': entry.user_id, 'project_id': entry.project_id, 'start_time': entry.started_at,
        'message': None if entry.fault is None else 'Error'}
    if call.version >= versions.ACTION_PAGES:
        shown['updated_at'] = entry.updated_at
    return shown


def event(services: compute_services.ComputeServices, call: operation.Call,
          server: records.Server, entry: records.Action) -> dict[str, Any]:
    """Return the event of an instance action, without the fields that the caller may not see.

    Every instance action has exactly one event.
    """
    everything, details = (
        services.policy.allowed(call.context, rule, server.project_id)
        for rule in (policies.ACTIONS_EVENTS, policies.ACTIONS_DETAILS))
    result = None
    if entry.finished_at is not None:
        result = 'Success' if entry.fault is None else 'Error'
    shown: dict[str, Any] = {
        'event': f'compute_{entry.action}', 'start_time': entry.started_at,
        'finish_time': entry.finished_at, 'result': result}
    if everything:
        shown['traceback'] = None
    if call.version >= versions.EVENT_HOST:
        shown |= {'hostId': _host_id(server, entry.host),
                  **({'host': entry.host} if everything else {})}
    if call.version >= versions.EVENT_DETAILS and details:
        shown['details'] = entry.fault and compute_services.reason(
            services, call, server, entry.fault)
    return shown


def page_size(call: operation.Call) -> int:
    """Return the requested page size, at most 1000. Without a limit, or with 0, return 1000.

    :raises ServerRequestInvalid: the query parameter ``limit`` is not a number of up to 9 digits
    """
    text = call.query.get('limit', str(_MOST))
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise errors.ServerRequestInvalid(reason='limit param must be an integer')
    return min(int(text) or _MOST, _MOST)


def page(call: operation.Call, key: str, shown: Sequence[dict[str, Any]], marker: str,
         links: str) -> dict[str, Any]:
    """Return the response body of a page, with a link to the next page if there is one.

    :param key: key of the list of items in the body
    :param shown: items of the page, and one more item if there is a next page
    :param marker: key in an item; its value in the last item is the marker of the next page
    :param links: key of the link in the body
    """
    most = page_size(call)
    found: dict[str, Any] = {key: shown[:most]}
    if len(shown) > most:
        found[links] = [{'rel': 'next', 'href': call.next_link(shown[most - 1][marker])}]
    return found
