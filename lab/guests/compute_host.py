"""What a compute host does: it asks the API, and os-brick connects. Tests call this in a guest."""
import os_brick.privileged
from os_brick.initiator import connector
from oslo_concurrency import lockutils

from lab.guests import block_storage

_LOCKS = '/run/lock/os-brick'


def attach(service, volume_id, mode, own_address):
    """Attach a volume and connect; what `grow` and `detach` are given.

    :param service: address and password
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
    """Look how large a volume is now, in bytes."""
    return _brick().extend_volume(held['connection'])


def detach(service, held):
    """Disconnect and detach."""
    _brick().disconnect_volume(held['connection'], held['device'])
    block_storage.BlockStorage(*service).ask('DELETE', f'/attachments/{held["id"]}')


def _brick():
    # Root needs no helper: there is no sudo in here.
    for context in (os_brick.privileged.default, os_brick.privileged.brick_privsep_hide_output):
        context.set_client_mode(False)
    lockutils.set_defaults(_LOCKS)
    return connector.InitiatorConnector.factory('ISCSI', '')
