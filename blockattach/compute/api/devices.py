"""Validation of the volumes in requests for servers, and their conversion to block devices."""
import dataclasses
import uuid
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from oslo_utils import strutils

from blockattach.compute import device_names
from blockattach.compute import errors
from blockattach.compute import records
from blockattach.compute import storage
from blockattach.compute.api import versions
from blockattach.platform.http import operation
from blockattach.storage.domain import connection

Find = Callable[[str], storage.Volume]
"""Function that takes a volume id, and returns the volume if the caller may see it."""


def mode(requested: Mapping[str, Any], call: operation.Call) -> connection.AccessMode:
    """Return the access mode in a requested attachment, ``rw`` by default.

    :raises ServerRequestInvalid: the mode was given without the extension header
    """
    if 'attach_mode' not in requested:
        return connection.AccessMode.RW
    _check_extension(call, 'attach_mode')
    return connection.AccessMode(requested['attach_mode'])


def modes(requested: Mapping[str, Any], call: operation.Call,
          servers: int) -> list[connection.AccessMode]:
    """Return the access mode of each server, from ``attach_modes`` or ``attach_mode``.

    :raises ServerRequestInvalid: the number of modes differs from the number of servers, both
        fields are given, or the extension header is missing
    """
    if 'attach_modes' not in requested:
        return [mode(requested, call)] * servers
    _check_extension(call, 'attach_modes')
    if 'attach_mode' in requested:
        raise _invalid('attach_mode and attach_modes are mutually exclusive. Use attach_mode to '
                       'set one mode for all servers, or attach_modes to set one for each server')
    if len(requested['attach_modes']) != servers:
        raise _invalid(f'attach_modes has {len(requested["attach_modes"])} items for {servers} '
                       'servers. Specify one mode for each server')
    return [connection.AccessMode(one) for one in requested['attach_modes']]


def of_mapping(mapping: Sequence[Mapping[str, Any]], call: operation.Call, find: Find,
               servers: int) -> list[list[records.BlockDevice]]:
    """Return the block devices of each new server from ``block_device_mapping_v2``.

    The root disk comes first.

    :param servers: number of servers to create
    :raises ServerRequestInvalid: the mapping is invalid
    """
    found: list[records.BlockDevice] = []
    wanted: list[list[connection.AccessMode]] = []
    # The root disk first, so that the first free device name is given to the root disk.
    ordered = sorted(mapping, key=lambda one: _index(one) != 0)
    for one in ordered:
        kind = one.get('destination_type') or 'volume'
        for name in ('attach_mode', 'attach_modes'):
            if kind == 'local' and name in one:
                raise _invalid(f'{name} is only supported with the destination_type volume')
        if kind == 'local' or one.get('source_type') not in ('volume', None):
            raise _invalid('only existing volumes are supported. source_type and '
                           'destination_type must be volume')
        if not one.get('uuid'):
            raise _invalid('uuid is required')
        if one.get('tag') is not None and call.version < versions.TAG_AT_BOOT:
            raise _invalid(f'tag requires microversion {versions.TAG_AT_BOOT} or later')
        try:
            volume = find(one['uuid'])
        except errors.NotFound:
            raise _invalid(f'failed to get volume {errors.shortened(one["uuid"])}') from None
        check_volume(volume, call, servers)
        wanted.append(modes(one, call, servers))
        # Already ``attached``, so that building the server does not write the row again.
        found.append(records.BlockDevice(
            id='', server_id='', volume_id=volume.id, mode=wanted[-1][0],
            state='attached', device=device_names.chosen(
                one.get('device_name'), [other.device for other in found]),
            boot_index=_index(one), shared=volume.multiattach, tag=one.get('tag'),
            delete_on_termination=_goes(one)))
    _check_together(found)
    return [[dataclasses.replace(device, mode=its[number])
             for device, its in zip(found, wanted, strict=True)] for number in range(servers)]


def of_server(devices: Iterable[records.BlockDevice],
              server_id: str) -> list[records.BlockDevice]:
    """Return copies of block devices that have new ids and belong to a server."""
    return [dataclasses.replace(one, id=str(uuid.uuid4()), server_id=server_id)
            for one in devices]


def attached(requested: Mapping[str, Any], call: operation.Call, volume: storage.Volume,
             server_id: str, there: Sequence[records.BlockDevice]) -> records.BlockDevice:
    """Return the block device that describes the requested attachment of a volume to a server.

    If the request has no device name, `store.Store.begin` chooses one.

    :param there: existing block devices of the server
    :raises ServerRequestInvalid: the volume cannot be attached, or a field of the request needs a
        newer microversion or the extension header
    """
    if any(one.volume_id == volume.id for one in there):
        raise errors.ServerRequestInvalid(
            reason=f'Invalid volume: volume {volume.id} already attached')
    check_volume(volume, call, 1)
    if requested.get('tag') is not None and call.version < versions.TAG:
        raise _invalid(f'tag requires microversion {versions.TAG} or later')
    if 'delete_on_termination' in requested and call.version < versions.KEEP:
        raise _invalid(
            f'delete_on_termination requires microversion {versions.KEEP} or later')
    return records.BlockDevice(
        id=str(uuid.uuid4()), server_id=server_id, volume_id=volume.id, mode=mode(requested, call),
        device=requested.get('device') or '', state='attaching', shared=volume.multiattach,
        tag=requested.get('tag'),
        delete_on_termination=bool(requested.get('delete_on_termination', False)))


def _check_extension(call: operation.Call, name: str) -> None:
    if call.extension is None:
        raise errors.ServerRequestInvalid(reason=(
            f"Invalid input for field/attribute {name}. The field requires the header "
            f"'OpenStack-API-Version: compute {call.version}, {operation.EXTENSION} "
            f"{versions.ATTACH_MODE}'."))


def check_volume(volume: storage.Volume, call: operation.Call, servers: int) -> None:
    """Check that a volume can be attached to the requested number of servers.

    :param servers: number of servers that get the volume
    :raises ServerRequestInvalid: the volume cannot be attached to that number of servers
    """
    if volume.multiattach and call.version < versions.MULTIATTACH:
        raise errors.ServerRequestInvalid(reason=(
            'Multiattach volumes are only supported starting with compute API version '
            f'{versions.MULTIATTACH}.'))
    storage.check_usable(volume)
    if servers > 1 and call.extension is None:
        # As in Nova, which never creates several servers with one volume.
        raise errors.ServerRequestInvalid(reason=(
            'Cannot attach one or more volumes to multiple instances without the header '
            f"'OpenStack-API-Version: compute {call.version}, {operation.EXTENSION} "
            f"{versions.ATTACH_MODE}'."))
    if servers > 1 and not volume.multiattach:
        raise errors.ServerRequestInvalid(reason=(
            f'Cannot attach one or more volumes to multiple instances. Volume {volume.id} is not '
            'multiattach.'))


def _check_together(devices: Sequence[records.BlockDevice]) -> None:
    volumes = [one.volume_id for one in devices]
    if len(set(volumes)) < len(volumes):
        raise _invalid('a volume is specified more than once')
    roots = [one for one in devices if one.boot_index == 0]
    if len(roots) > 1:
        raise _invalid('only one volume can have boot_index 0')


def _goes(entry: Mapping[str, Any]) -> bool:
    """Return the value of ``delete_on_termination``, which is a boolean or a string."""
    try:
        return strutils.bool_from_string(entry.get('delete_on_termination') or False, strict=True)
    except ValueError:
        raise _invalid('delete_on_termination must be true or false') from None


def _index(entry: Mapping[str, Any]) -> int | None:
    index = entry.get('boot_index')
    return None if index in (None, '') or int(index) < 0 else int(index)


def _invalid(reason: str) -> errors.ServerRequestInvalid:
    return errors.ServerRequestInvalid(reason=f'Block Device Mapping is Invalid: {reason}.')
