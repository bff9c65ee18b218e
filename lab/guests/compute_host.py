"""Work of a compute host: attachments over the API, and connections by os-brick. Runs in a guest.
"""
import os_brick.privileged
from os_brick.initiator import connector
from oslo_concurrency import lockutils

from lab.guests import block_storage

_LOCKS = '/run/lock/os-brick'


def attach(service, volume_id, mode, own_address):
    """Attach a volume, connect it, and return the arguments of `grow` and `detach`.

    :param service: address and password of the API
    """
    brick = _brick()
    api = block_storage.BlockStorage(*service)
    made = api.ask('POST', '/attachments', {'attachment': {
        'volume_uuid': volume_id, 'mode': mode,
        'connector': connector.get_connector_properties('', own_address, False, False)}})
    made = made['attachment']
    device = brick.connect_volume(made['connection_info'])
    api.ask('POST', f'/attachments/{made["id"]}/action', {'os-complete': None})
    return {'id': made['id'], 'connection': made['connection_info'], 'device': device}


def grow(held):
    """Rescan a connected volume and return its size in bytes."""
    return _brick().extend_volume(held['connection'])


def detach(service, held):
    """Disconnect and detach a volume."""
    _brick().disconnect_volume(held['connection'], held['device'])
    block_storage.BlockStorage(*service).ask('DELETE', f'/attachments/{held["id"]}')


def _brick():
    # os-brick runs as root here and needs no privsep daemon, as the guest has no sudo.
    for context in (os_brick.privileged.default, os_brick.privileged.brick_privsep_hide_output):
        context.set_client_mode(False)
    lockutils.set_defaults(_LOCKS)
    return connector.InitiatorConnector.factory('ISCSI', '')
