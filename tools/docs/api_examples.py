#!/usr/bin/env python3
"""Send one request of every operation of the Block Storage API, and print the examples as JSON.

The requests are sent over WSGI to the application that the tests of the API use, with a separate
database and a backend in memory. Values that differ between runs are replaced (api_player.py).
"""
import json
import logging
import sys
from typing import Any

import webob

import api_player
from blockattach.platform.http import operation
from blockattach.storage.api import routes
from blockattach.storage.api import versions
from blockattach.storage.api.resources import not_offered
from blockattach.storage.db import messages
from blockattach.storage.db.services import services
from blockattach.storage.domain import binaries
from blockattach.storage.domain import messages as domain_messages
from blockattach.tests.fixtures import clock
from blockattach.tests.fixtures import glance
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make

_VOLUME = f'{operation.VOLUME} {versions.MAXIMUM}'
_BOTH = f'{_VOLUME}, {operation.EXTENSION} {versions.EXTENSION_MAXIMUM}'
_SERVER = '11111111-1111-4111-8111-111111111111'
_CONNECTOR = {'initiator': 'iqn.2026-01.org.example:host-a', 'host': 'host-a', 'ip': '192.0.2.21',
              'multipath': False}
_OTHER_CONNECTOR = {**_CONNECTOR, 'initiator': 'iqn.2026-01.org.example:host-b', 'host': 'host-b'}
_ENCRYPTION = {'provider': 'luks', 'cipher': 'aes-xts-plain64', 'key_size': 256,
               'control_location': 'back-end'}
_SERVICE = {'binary': 'cinder-volume', 'host': http.HOST}
_CLUSTER = {'id': 'storage-1@disks'}
_BETWEEN_SECONDS = 60.0

REFUSED = {
    'PUT /os-services/failover_host': 'no backend is replicated',
    'PUT /os-services/failover': 'no backend is replicated',
    'POST /volumes/{id}/action (os-extend_volume_completion)':
        'no extend operation waits for completion',
    'POST /volumes/{id}/action (os-migrate_volume)': 'the example has only one backend',
    'POST /volumes/{id}/action (os-migrate_volume_completion)':
        'no migration waits for completion',
    **{row.name: '' for row in not_offered.OPERATIONS if row.answer is None},
}
"""Operations whose example is rejected, with the reason. Empty: the summary gives the reason."""


class Player(api_player.Player):
    """Sender of example requests to the application that the tests of the API use."""

    def __init__(self, api: http.ApiFixture, time: clock.ManualClock, image_id: str) -> None:
        self.api = api
        self.image_id = image_id
        self._time = time
        super().__init__(
            routes.operations(), f'{operation.PREFIX}/{make.PROJECT}', 'localhost:8776', _VOLUME,
            REFUSED, (api.as_member.token, api.as_admin.token), self._later)

    def _later(self, request: webob.Request) -> http.Reply:
        self._time.advance(_BETWEEN_SECONDS)
        return self.api.answer(request)


def _versions(player: Player) -> None:
    for name in ('GET /', 'GET /v3', 'GET /v3/'):
        player.ask(name, version=None)


def _types(player: Player) -> dict[str, str]:
    """Send the requests for types, and return the type of the volumes in later requests."""
    made = player.ask('POST /types', body={'volume_type': {
        'name': 'shared', 'description': 'For several hosts',
        'extra_specs': {'multiattach': '<is> True'}}})
    kind = {'id': made['volume_type']['id']}
    player.ask('PUT /types/{id}', kind, {'volume_type': {'description': 'For many hosts'}})
    player.ask('GET /types')
    player.ask('GET /types/{id}', kind)
    player.ask('GET /types/default')
    spec = {**kind, 'key': 'discard'}
    player.ask('POST /types/{id}/extra_specs', kind, {'extra_specs': {'discard': 'yes'}})
    player.ask('PUT /types/{id}/extra_specs/{key}', spec, {'discard': 'no'})
    player.ask('GET /types/{id}/extra_specs', kind)
    player.ask('GET /types/{id}/extra_specs/{key}', spec)
    player.ask('DELETE /types/{id}/extra_specs/{key}', spec)
    _encryption(player)
    return kind


def _encryption(player: Player) -> None:
    made = player.ask('POST /types', body={'volume_type': {'name': 'sealed'}}, keep=False)
    kind = {'id': made['volume_type']['id']}
    made = player.ask('POST /types/{id}/encryption', kind, {'encryption': _ENCRYPTION})
    encryption = {**kind, 'encryption_id': made['encryption'].get('encryption_id', 'luks')}
    player.ask('PUT /types/{id}/encryption/{encryption_id}', encryption,
               {'encryption': {'key_size': 512}})
    player.ask('GET /types/{id}/encryption', kind)
    player.ask('GET /types/{id}/encryption/{key}', {**kind, 'key': 'cipher'})
    player.ask('DELETE /types/{id}/encryption/{encryption_id}', encryption)
    player.ask('DELETE /types/{id}', kind)


def _private_type(player: Player) -> None:
    """Send the requests for the access to a private type, and for default types."""
    made = player.ask('POST /types', body={'volume_type': {
        'name': 'private', 'os-volume-type-access:is_public': False}}, keep=False)
    kind = {'id': made['volume_type']['id']}
    for action in ('addProjectAccess', 'removeProjectAccess'):
        player.ask(f'POST /types/{{id}}/action ({action})', kind,
                   {action: {'project': http.PROJECT}})
        if action == 'addProjectAccess':
            player.ask('GET /types/{id}/os-volume-type-access', kind)
    project = {'id': http.PROJECT}
    player.ask('PUT /default-types/{id}', project, {'default_type': {'volume_type': 'private'}})
    player.ask('GET /default-types')
    player.ask('GET /default-types/{id}', project)
    player.ask('DELETE /default-types/{id}', project)


def _qos(player: Player, kind: dict[str, str]) -> None:
    made = player.ask('POST /qos-specs', body={'qos_specs': {
        'name': 'fast', 'consumer': 'front-end', 'total_iops_sec': '500'}})
    specs = {'id': made['qos_specs']['id']}
    player.ask('PUT /qos-specs/{id}', specs, {'qos_specs': {'total_bytes_sec': '104857600'}})
    player.ask('GET /qos-specs')
    player.ask('GET /qos-specs/{id}', specs)
    of_type = f'?vol_type_id={kind["id"]}'
    player.ask('GET /qos-specs/{id}/associate', specs, query=of_type)
    player.ask('GET /qos-specs/{id}/associations', specs)
    player.ask('GET /qos-specs/{id}/disassociate', specs, query=of_type)
    player.ask('GET /qos-specs/{id}/disassociate_all', specs)
    player.ask('PUT /qos-specs/{id}/delete_keys', specs, {'keys': ['total_bytes_sec']})
    player.ask('DELETE /qos-specs/{id}', specs)


def _volumes(player: Player) -> dict[str, str]:
    """Send the requests for volumes, and return a volume for the requests for attachments."""
    made = player.ask('POST /volumes', body={'volume': {
        'size': 1, 'name': 'data', 'volume_type': 'shared'}}, member=True)
    volume = {'id': made['volume']['id']}
    player.ask('GET /volumes/{id}', volume, version=_BOTH, member=True)
    player.ask('GET /volumes', member=True)
    player.ask('GET /volumes/detail', query='?limit=1', member=True)
    player.ask('GET /volumes/summary', member=True)
    player.ask('GET /volumes/{id}/encryption', volume, member=True)
    player.ask('GET /volumes/{id}/encryption/{key}', {**volume, 'key': 'encryption_key_id'},
               member=True)
    player.ask('PUT /volumes/{id}', volume, {'volume': {'description': 'Of the laboratory'}},
               member=True)
    _metadata(player, volume)
    player.ask('GET /resource_filters', query='?resource=volume', member=True)
    return volume


def _metadata(player: Player, volume: dict[str, str]) -> None:
    item = {**volume, 'key': 'owner'}
    player.ask('POST /volumes/{id}/metadata', volume, {'metadata': {'owner': 'lab'}}, member=True)
    player.ask('GET /volumes/{id}/metadata', volume, member=True)
    player.ask('GET /volumes/{id}/metadata/{key}', item, member=True)
    player.ask('PUT /volumes/{id}/metadata/{key}', item, {'meta': {'owner': 'team'}}, member=True)
    player.ask('DELETE /volumes/{id}/metadata/{key}', item, member=True)
    player.ask('PUT /volumes/{id}/metadata', volume, {'metadata': {}}, member=True)


def _attachments(player: Player, volume: dict[str, str]) -> None:
    made = player.ask('POST /attachments', body={'attachment': {
        'volume_uuid': volume['id'], 'instance_uuid': _SERVER, 'mode': 'rw'}}, member=True)
    attachment = {'id': made['attachment']['id']}
    player.ask('PUT /attachments/{id}', attachment, {'attachment': {'connector': _CONNECTOR}},
               member=True)
    player.ask('POST /attachments/{id}/action (os-complete)', attachment, {'os-complete': None},
               member=True)
    player.ask('POST /attachments', body={'attachment': {
        'volume_uuid': volume['id'], 'instance_uuid': '22222222-2222-4222-8222-222222222222',
        'mode': 'ro', 'connector': _OTHER_CONNECTOR}}, member=True, keep=False)
    player.ask('GET /attachments', member=True)
    for path, query in (('detail', '?host=host-a'), ('history', f'?volume_id={volume["id"]}'),
                        ('{id}', ''), ('{id}/history', ''), ('{id}/explain', '')):
        player.ask(f'GET /attachments/{path}', attachment, query=query, version=_BOTH, member=True)
    player.ask('DELETE /attachments/{id}', attachment, version=_BOTH)


def _actions(player: Player) -> None:
    """Send the volume actions with which clients attach volumes before microversion 3.27."""
    made = player.ask('POST /volumes', body={'volume': {'size': 1, 'name': 'plain'}}, member=True,
                      keep=False)
    volume = {'id': made['volume']['id']}

    def act(action: str, value: Any = None, keep: bool = True) -> None:
        player.ask(f'POST /volumes/{{id}}/action ({action})', volume, {action: value}, keep=keep,
                   version=None)

    act('os-reserve')
    act('os-unreserve')
    act('os-reserve', keep=False)
    act('os-initialize_connection', {'connector': _CONNECTOR})
    act('os-attach', {'instance_uuid': _SERVER, 'mountpoint': '/dev/vdb', 'mode': 'rw'})
    act('os-begin_detaching')
    act('os-roll_detaching')
    act('os-begin_detaching', keep=False)
    act('os-terminate_connection', {'connector': _CONNECTOR})
    act('os-detach')
    act('os-reserve', keep=False)
    act('os-initialize_connection', {'connector': _CONNECTOR}, keep=False)
    act('os-attach', {'instance_uuid': _SERVER, 'mountpoint': '/dev/vdb'}, keep=False)
    act('os-force_detach', {'connector': _CONNECTOR})
    act('os-update_readonly_flag', {'readonly': True})
    act('os-extend', {'new_size': 2})
    player.ask('POST /volumes/{id}/action (os-extend_volume_completion)', volume,
               {'os-extend_volume_completion': {'error': False}})
    kind = player.ask('POST /types', body={'volume_type': {'name': 'other'}}, keep=False)
    act('os-retype', {'new_type': kind['volume_type']['id'], 'migration_policy': 'never'})
    act('os-migrate_volume', {'host': 'storage-2@disks', 'lock_volume': True})
    act('os-migrate_volume_completion', {'new_volume': volume['id'], 'error': False})
    act('os-set_image_metadata', {'metadata': {'os_type': 'linux'}})
    act('os-show_image_metadata')
    act('os-unset_image_metadata', {'key': 'os_type'})
    act('os-set_bootable', {'bootable': True})
    act('os-reset_status', {'status': 'error'})
    player.ask('DELETE /volumes/{id}', volume, member=True)
    made = player.ask('POST /volumes', body={'volume': {'size': 1}}, member=True, keep=False)
    player.ask('POST /volumes/{id}/action (os-force_delete)', {'id': made['volume']['id']},
               {'os-force_delete': None}, version=None)


def _images(player: Player) -> None:
    # The fake backend stores no data, so the operations fail after the response.
    for action, value in (
            ('os-volume_upload_image', {'image_name': 'my-root', 'disk_format': 'qcow2'}),
            ('os-reimage', {'image_id': player.image_id})):
        made = player.ask('POST /volumes', body={'volume': {'size': 1, 'name': 'root'}},
                          member=True, keep=False)
        player.ask(f'POST /volumes/{{id}}/action ({action})', {'id': made['volume']['id']},
                   {action: value}, member=True)


def _transfers(player: Player) -> None:
    for path in ('/os-volume-transfer', '/volume-transfers'):
        volume = player.ask('POST /volumes', body={'volume': {'size': 1}}, member=True,
                            keep=False)['volume']['id']
        offer = {'transfer': {'volume_id': volume, 'name': 'to the archive'}}
        made = player.ask(f'POST {path}', body=offer, member=True)['transfer']
        transfer = {'id': made['id']}
        for below in ('', '/detail'):
            player.ask(f'GET {path}{below}', member=True)
        player.ask(f'GET {path}/{{id}}', transfer, member=True)
        player.ask(f'DELETE {path}/{{id}}', transfer, member=True)
        made = player.ask(f'POST {path}', body=offer, member=True, keep=False)['transfer']
        player.ask(f'POST {path}/{{id}}/accept', {'id': made['id']},
                   {'accept': {'auth_key': made['auth_key']}}, member=True)


def _snapshots(player: Player) -> None:
    volume = player.ask('POST /volumes', body={'volume': {'size': 1}}, member=True,
                        keep=False)['volume']['id']
    wanted = {'snapshot': {'volume_id': volume, 'name': 'before the upgrade',
                           'metadata': {'release': '29'}}}
    made = player.ask('POST /snapshots', body=wanted, member=True)['snapshot']
    one = {'id': made['id']}
    for below in ('', '/detail'):
        player.ask(f'GET /snapshots{below}', member=True)
    path = '/snapshots/{id}'
    player.ask(f'GET {path}', one, member=True)
    player.ask(f'PUT {path}', one, {'snapshot': {'name': 'the last good one'}}, member=True)
    player.ask(f'GET {path}/metadata', one, member=True)
    player.ask(f'POST {path}/metadata', one, {'metadata': {'checked': 'yes'}}, member=True)
    player.ask(f'PUT {path}/metadata', one, {'metadata': {'release': '30'}}, member=True)
    item = {**one, 'key': 'release'}
    player.ask(f'GET {path}/metadata/{{key}}', item, member=True)
    player.ask(f'PUT {path}/metadata/{{key}}', item, {'meta': {'release': '31'}}, member=True)
    player.ask(f'DELETE {path}/metadata/{{key}}', item, member=True)
    player.ask('POST /volumes/{id}/action (revert)', {'id': volume},
               {'revert': {'snapshot_id': made['id']}}, member=True)
    player.ask(f'POST {path}/action (os-reset_status)', one,
               {'os-reset_status': {'status': 'creating'}})
    player.ask(f'POST {path}/action (os-update_snapshot_status)', one,
               {'os-update_snapshot_status': {'status': 'available', 'progress': '100%'}},
               member=True)
    player.ask(f'DELETE {path}', one, member=True)
    made = player.ask('POST /snapshots', body=wanted, member=True, keep=False)['snapshot']
    player.ask(f'POST {path}/action (os-force_delete)', {'id': made['id']},
               {'os-force_delete': {}})


def _managing(player: Player) -> None:
    made = player.ask('POST /volumes', body={'volume': {'size': 9}}, keep=False)
    volume = {'id': made['volume']['id']}
    made = player.ask('POST /snapshots', {}, {'snapshot': {'volume_id': volume['id']}}, keep=False)
    for path in ('manageable_snapshots', 'os-snapshot-manage'):
        snapshot = {'id': made['snapshot']['id']}
        player.ask('POST /snapshots/{id}/action (os-unmanage)', snapshot, {'os-unmanage': {}})
        for part in ('', '/detail'):
            player.ask(f'GET /{path}{part}', query=f'?host={http.HOST}')
        made = player.ask(f'POST /{path}', body={'snapshot': {
            'volume_id': volume['id'], 'ref': {'source-name': f'snapshot-{snapshot["id"]}'}}})
    player.ask('DELETE /snapshots/{id}', {'id': made['snapshot']['id']}, keep=False)
    for path in ('manageable_volumes', 'os-volume-manage'):
        player.ask('POST /volumes/{id}/action (os-unmanage)', volume, {'os-unmanage': {}})
        # Only the order by size is deterministic, and the volume is the largest.
        for part in ('', '/detail'):
            player.ask(f'GET /{path}{part}', query=f'?host={http.HOST}&sort=size:desc&limit=1')
        made = player.ask(f'POST /{path}', body={'volume': {
            'host': http.POOL, 'ref': {'source-name': f'volume-{volume["id"]}'}}})
        volume = {'id': made['volume']['id']}
    player.ask('DELETE /volumes/{id}', volume, keep=False)


def _messages(player: Player) -> None:
    messages.create(player.api.database, make.PROJECT, None, domain_messages.ATTACH_FAILED,
                    '33333333-3333-4333-8333-333333333333')
    found = player.ask('GET /messages', member=True)['messages'][0]
    message = {'id': found['id']}
    player.ask('GET /messages/{id}', message, member=True)
    player.ask('DELETE /messages/{id}', message, member=True)


def _quota_sets(player: Player) -> None:
    project = {'id': make.PROJECT}
    player.ask('PUT /os-quota-sets/{id}', project,
               {'quota_set': {'volumes': 20, 'gigabytes': 2000, 'attachments': 500}},
               version=_BOTH)
    player.ask('GET /os-quota-sets/{id}', project, query='?usage=true', version=_BOTH,
               member=True)
    player.ask('GET /os-quota-sets/{id}/defaults', project, version=_BOTH, member=True)
    player.ask('DELETE /os-quota-sets/{id}', project, version=_BOTH)
    default = {'id': 'default'}
    player.ask('PUT /os-quota-class-sets/{id}', default, {'quota_class_set': {'volumes': 20}})
    player.ask('GET /os-quota-class-sets/{id}', default)


def _operations(player: Player) -> None:
    player.ask('GET /limits', member=True)
    _quota_sets(player)
    player.ask('GET /os-services', query='?binary=cinder-volume', version=_BOTH)
    player.ask('PUT /os-services/disable', body=_SERVICE)
    player.ask('PUT /os-services/enable', body=_SERVICE)
    player.ask('PUT /os-services/disable-log-reason',
               body={**_SERVICE, 'disabled_reason': 'new disks'})
    player.ask('PUT /os-services/enable', body=_SERVICE, keep=False)
    for action in ('reconcile', 'freeze', 'thaw', 'failover_host', 'failover'):
        player.ask(f'PUT /os-services/{action}', body={'host': http.HOST}, version=_BOTH)
    which = {'binary': 'cinder-volume', 'prefix': 'blockattach.storage.volume.repair'}
    player.ask('PUT /os-services/set-log', body={**which, 'level': 'INFO'})
    player.ask('PUT /os-services/get-log', body=which)
    player.ask('GET /scheduler-stats/get_pools', query='?detail=true')
    player.ask('GET /scheduler-stats/explain_pools', query='?size=10', version=_BOTH)
    player.ask('GET /capabilities/{host}', {'host': http.HOST})
    player.ask('GET /os-hosts')
    player.ask('GET /os-hosts/{host}', {'host': http.HOST})
    player.ask('GET /os-availability-zone', member=True)
    player.ask('POST /workers/cleanup', body={'host': http.HOST})
    player.ask('GET /extensions', member=True)
    player.ask('GET /extensions/{id}', {'id': 'os-services'}, member=True)


def _clusters(player: Player) -> None:
    for host in ('node-1@disks', 'node-2@disks'):
        services.register(player.api.database, binaries.VOLUME, host, 'nova', 'x',
                          cluster=_CLUSTER['id'])
    named = {'name': _CLUSTER['id']}
    for below in ('', '/detail'):
        player.ask(f'GET /clusters{below}')
    player.ask('PUT /clusters/disable', body={**named, 'disabled_reason': 'new disks'})
    player.ask('GET /clusters/{id}', _CLUSTER)
    player.ask('PUT /clusters/enable', body=named)


def _not_offered(player: Player) -> None:
    for row in not_offered.OPERATIONS:
        player.ask(row.name, {'id': _SERVER}, {} if row.method == 'POST' else None)


def _play(player: Player) -> None:
    _versions(player)
    kind = _types(player)
    _private_type(player)
    _qos(player, kind)
    volume = _volumes(player)
    _attachments(player, volume)
    _actions(player)
    _transfers(player)
    _snapshots(player)
    _managing(player)
    _messages(player)
    _operations(player)
    _clusters(player)
    _not_offered(player)
    _images(player)


def recorded() -> dict[str, Any]:
    """Send all requests, and return the examples by operation, in the order of the routes."""
    silent = logging.NullHandler()
    logging.getLogger('blockattach').addHandler(silent)
    time = clock.ManualClock()
    try:
        with glance.GlanceStandIn() as images, http.ApiFixture(time, options={
                'glance': {'endpoint_override': images.url}}) as api:
            player = Player(api, time, images.add(b'an image', name='debian-13'))
            _play(player)
    finally:
        logging.getLogger('blockattach').removeHandler(silent)
    return player.recorded()


def document() -> str:
    """Return the examples as JSON."""
    return json.dumps(recorded(), indent=1, ensure_ascii=False) + '\n'


if __name__ == '__main__':
    sys.stdout.write(document())
