"""Requests of each method of nova/volume/cinder.py:API, which uses python-cinderclient.

``_untranslate_volume_summary_view`` and similar functions read the responses.
"""
import itertools
from typing import Any

from blockattach.tests.contracts import calls
from blockattach.tests.contracts.calls import ABSENT
from blockattach.tests.contracts.calls import ID
from blockattach.tests.contracts.calls import MEMBER
from blockattach.tests.contracts.calls import TIME
from blockattach.tests.contracts.calls import Call
from blockattach.tests.contracts.calls import Keep
from blockattach.tests.contracts.calls import OneOf
from blockattach.tests.contracts.calls import Persona
from blockattach.tests.contracts.calls import use

ATTACHMENTS = '3.44'
LOCK = '3.69'
TEXT = OneOf((str, None))

VOLUME = {'id': '{volume}', 'status': str, 'size': int, 'availability_zone': str,
          'created_at': TIME, 'multiattach': bool, 'attachments': list, 'name': TEXT,
          'description': TEXT, 'volume_type': TEXT, 'snapshot_id': TEXT,
          'bootable': OneOf(('true', 'false')), 'metadata': dict}
SERVER_OF = {'server_id': '{server}', 'attachment_id': '{attachment}', 'device': '/dev/vdb'}
CONNECTION = {'driver_volume_type': 'iscsi', 'attachment_id': '{attachment}',
              'target_iqn': str, 'target_portal': str, 'target_lun': int, 'volume_id': '{volume}',
              'auth_method': 'CHAP', 'auth_username': str, 'auth_password': str,
              'access_mode': 'rw', 'encrypted': False, 'qos_specs': TEXT, 'cacheable': False,
              'enforce_multipath': True}
"""Flat connection info as attachments have it, for os-brick and for libvirt."""
SNAPSHOT = {'id': '{snapshot}', 'status': str, 'size': 1, 'created_at': TIME, 'name': TEXT,
            'description': TEXT, 'volume_id': '{volume}'}
PROGRESS = {'os-extended-snapshot-attributes:progress': str,
            'os-extended-snapshot-attributes:project_id': '{project}'}


def connector(host: str, device: str | None = '/dev/vdb') -> dict[str, Any]:
    """Return the properties from os-brick's get_connector_properties, with the device of Nova."""
    words = {'platform': 'x86_64', 'os_type': 'linux', 'ip': '127.0.0.1', 'host': host,
             'multipath': False, 'enforce_multipath': True,
             'initiator': f'iqn.2016-04.com.example:{host}', 'do_local_attach': False,
             'nvme_hostid': '1f0a5b4c-86b9-4f43-9a0f-6a1f2f1f1a01', 'system uuid': None}
    return words | ({'mountpoint': device} if device else {})


def versions() -> Call:
    """Return the request of the API versions, which precedes a call with a microversion."""
    return Call('_get_server_version', 'GET /', 300, reads={'versions': [
        {'version': '3.71', 'min_version': '3.0'}]})


def get(status: str, who: Persona = MEMBER, version: str | None = None, **reads: Any) -> Call:
    """Return a volume show, which from 3.69 on has both fields of os-brick's lock."""
    lock = ({'shared_targets': ABSENT, 'service_uuid': ABSENT} if version is None else
            {'shared_targets': False, 'service_uuid': ID})
    return Call('get', 'GET /volumes/{volume}', 200, version,
                reads={'volume': {**VOLUME, **lock, 'status': status, **reads}},
                uses=use('volumes.get', '{volume}'), who=who)


def create(body: dict[str, Any], **reads: Any) -> Call:
    """Return a create of a volume, which sends all fields also as null.

    The null ``backup_id`` is sent with a microversion that does not have it.
    """
    named = {'imageRef': 'imageRef', 'snapshot_id': 'snapshot_id'}
    fields = {'size': 1, 'consistencygroup_id': None, 'snapshot_id': None, 'name': '',
              'description': '', 'volume_type': None, 'availability_zone': None, 'metadata': {},
              'imageRef': None, 'source_volid': None, 'backup_id': None, **body}
    return Call('create', 'POST /volumes', 202, None, {'volume': fields},
                {'volume': {**VOLUME, 'id': Keep('volume'), 'status': 'creating', **reads}},
                use('volumes.create', 1, name='', description='', **{
                    named.get(key, key): value for key, value in body.items()
                    if key not in ('name', 'description')}))


def attachment_create(info: Any = None, host: str = '', name: str = 'attachment',
                      server: str = '{server}', who: Persona = MEMBER) -> Call:
    """Return an attachment create, which a live migration sends with a connector."""
    words = connector(host) if host else None
    return Call('attachment_create', 'POST /attachments', 200, ATTACHMENTS,
                {'attachment': {'volume_uuid': '{volume}', 'connector': words,
                                'instance_uuid': server}},
                {'attachment': {'id': Keep(name), 'volume_id': '{volume}', 'instance': server,
                                'connection_info': info or {}}},
                use('attachments.create', '{volume}', words, server), who=who)


def attachment_update(host: str, device: str = '/dev/vdb', name: str = 'attachment',
                      who: Persona = MEMBER) -> Call:
    """Return an attachment update with the connector of a host."""
    words = connector(host, device)
    return Call('attachment_update', f'PUT /attachments/{{{name}}}', 200, ATTACHMENTS,
                {'attachment': {'connector': words}},
                {'attachment': {'id': f'{{{name}}}', 'instance': OneOf((ID, None)),
                                'connection_info': {**CONNECTION, 'attachment_id': f'{{{name}}}'},
                                'status': str, 'attached_at': str, 'detached_at': str}},
                use('attachments.update', f'{{{name}}}', words), who=who)


def attachment_complete(name: str = 'attachment', who: Persona = MEMBER) -> Call:
    return Call('attachment_complete', f'POST /attachments/{{{name}}}/action', 204, ATTACHMENTS,
                {'os-complete': None}, uses=use('attachments.complete', f'{{{name}}}'), who=who)


def attachment_delete(name: str = 'attachment', who: Persona = MEMBER) -> Call:
    """Return an attachment delete, of whose response Nova reads only the status."""
    return Call('attachment_delete', f'DELETE /attachments/{{{name}}}', 200, ATTACHMENTS,
                reads={'attachments': list}, uses=use('attachments.delete', f'{{{name}}}'),
                who=who)


def attachment_get(status: str, name: str = 'attachment', who: Persona = MEMBER) -> Call:
    """Return an attachment show, from which a swap counts the writers by ``attach_mode``."""
    return Call('attachment_get', f'GET /attachments/{{{name}}}', 200, ATTACHMENTS,
                reads={'attachment': {'id': f'{{{name}}}', 'status': status, 'attach_mode': 'rw',
                                      'connection_info': {**CONNECTION,
                                                          'attachment_id': f'{{{name}}}'}}},
                uses=use('attachments.show', f'{{{name}}}'), who=who)


def attachment_get_all(*found: str, of: str = 'server') -> Call:
    """Return an attachment list of a server or of a volume, in any order."""
    parameter = {'server': 'instance_id', 'volume': 'volume_id'}[of]
    orders = itertools.permutations(
        {'id': f'{{{name}}}', 'volume_id': '{volume}'} for name in found)
    return Call('attachment_get_all', f'GET /attachments?{parameter}={{{of}}}', 200, ATTACHMENTS,
                reads={'attachments': OneOf(tuple(map(list, orders)))},
                uses=use('attachments.list', search_opts={parameter: f'{{{of}}}'}))


def encryption() -> Call:
    """Return an encryption show of a plain volume, which precedes each connection."""
    return Call('get_volume_encryption_metadata', 'GET /volumes/{volume}/encryption', 200,
                reads={'encryption_key_id': None},
                uses=use('volumes.get_encryption_metadata', '{volume}'))


def action(by: str, named: str, body: Any = None, *arguments: Any, answered: int = 202,
           reads: Any = None, raises: str = '', who: Persona = MEMBER) -> Call:
    """Return a volume action."""
    return Call(by, 'POST /volumes/{volume}/action', answered, None, {named: body}, reads,
                use(f'volumes.{named.removeprefix("os-")}', '{volume}', *arguments),
                raises, who)


def begin_detaching(**more: Any) -> Call:
    """Return an os-begin_detaching, which Nova still sends on each detach."""
    return action('begin_detaching', 'os-begin_detaching', **more)


def roll_detaching() -> Call:
    """Return an os-roll_detaching, which Nova sends after a failed detach."""
    return action('roll_detaching', 'os-roll_detaching')


def delete() -> Call:
    return Call('delete', 'DELETE /volumes/{volume}', 202,
                uses=use('volumes.delete', '{volume}'))


def limits() -> Call:
    """Return a limits show, which precedes the snapshots of a server's volumes."""
    return Call('get_absolute_limits', 'GET /limits', 200, reads={'limits': {'absolute': {
        'maxTotalSnapshots': int, 'totalSnapshotsUsed': int, 'maxTotalVolumes': int,
        'maxTotalVolumeGigabytes': int, 'totalVolumesUsed': int, 'totalGigabytesUsed': int}}},
        uses=use('limits.get'))


def create_snapshot(force: bool = False) -> Call:
    """Return a snapshot create. Nova forces it for a volume in use."""
    return Call('create_snapshot_force' if force else 'create_snapshot', 'POST /snapshots', 202,
                None, {'snapshot': {'volume_id': '{volume}', 'force': force, 'name': 's',
                                    'description': None, 'metadata': {}}},
                {'snapshot': {**SNAPSHOT, 'id': Keep('snapshot'), 'status': 'creating'}},
                use('volume_snapshots.create', '{volume}', force, 's', None))


def get_snapshot() -> Call:
    """Return a snapshot show, which Nova polls until the status is available."""
    return Call('get_snapshot', 'GET /snapshots/{snapshot}', 200,
                reads={'snapshot': {**SNAPSHOT, **PROGRESS, 'status': 'available'}},
                uses=use('volume_snapshots.get', '{snapshot}'))


def update_snapshot_status(status: str, answered: int = 202, raises: str = '') -> Call:
    """Return an os-update_snapshot_status, with which Nova ends an assisted snapshot."""
    body = {'status': status, 'progress': '90%'}
    return Call('update_snapshot_status', 'POST /snapshots/{snapshot}/action', answered, None,
                {'os-update_snapshot_status': body}, raises=raises,
                uses=use('volume_snapshots.update_snapshot_status', '{snapshot}', body))


def fails(call: Call, answered: int, raises: str, said: str = '') -> Call:
    """Return the row with an error response.

    :param raises: error that Nova makes of it
    :param said: part of the message
    """
    return call._replace(answered=answered, raises=raises,
                         reads=calls.Text((said,)) if said else None)
