"""Cinder CSI plugin of Kubernetes, with gophercloud 2.12.

The rows are derived from pkg/csi/cinder/controllerserver.go and openstack/*.go of
cloud-provider-openstack. Types are those of Go, which fails on a number in place of a string and
on a time with a zone. Nova attaches and detaches. ControllerPublish and ControllerUnpublish only
read the volume before and after it, and the rows between them stand for Nova.
"""
from typing import Any

from blockattach.tests.contracts import nova_calls as nova
from blockattach.tests.contracts.calls import ABSENT
from blockattach.tests.contracts.calls import ID
from blockattach.tests.contracts.calls import TIME
from blockattach.tests.contracts.calls import Call
from blockattach.tests.contracts.calls import Consumer
from blockattach.tests.contracts.calls import Flow
from blockattach.tests.contracts.calls import Keep
from blockattach.tests.contracts.calls import OneOf
from blockattach.tests.contracts.calls import Text
from blockattach.tests.contracts.calls import Values
from blockattach.tests.contracts.calls import beside

BY_NAME = '3.34'
IN_USE = '3.42'
BACKUPS = '3.51'
_DESCRIPTION = 'Created by OpenStack Cinder CSI driver'
_CLUSTER = {'cinder.csi.openstack.org/cluster': 'kubernetes'}
_STAMP = OneOf((TIME, None))

_VOLUME = {'id': '{volume}', 'status': str, 'size': int, 'availability_zone': str,
           'created_at': TIME, 'updated_at': _STAMP, 'attachments': list, 'name': nova.TEXT,
           'description': nova.TEXT, 'volume_type': str, 'snapshot_id': nova.TEXT,
           'source_volid': nova.TEXT, 'metadata': Values(str), 'user_id': str, 'bootable': str,
           'encrypted': bool, 'multiattach': bool}
_NODE = {'server_id': '{server}', 'attachment_id': ID, 'device': '/dev/vdb',
         'host_name': nova.TEXT, 'id': '{volume}', 'volume_id': '{volume}', 'attached_at': TIME}
_SNAPSHOT = {'id': '{snapshot}', 'status': str, 'size': int, 'created_at': TIME,
             'updated_at': _STAMP, 'name': str, 'description': nova.TEXT, 'volume_id': '{volume}',
             'metadata': Values(str)}


def _get(by: str, status: str, **reads: Any) -> Call:
    """Return a volumes.Get, which the plugin polls for the status or the attachments."""
    return Call(by, 'GET /volumes/{volume}', 200,
                reads={'volume': {**_VOLUME, 'status': status, **reads}})


def _by_name(*found: dict[str, Any]) -> Call:
    """Return a GetVolumesByName, which finds the volume of an earlier attempt by its name."""
    return Call('CreateVolume', 'GET /volumes/detail?name=pvc-1', 200, BY_NAME,
                reads={'volumes': list(found), 'volumes_links': ABSENT})


def _create(answered: int = 202, hints: dict[str, Any] | None = None, **fields: Any) -> Call:
    """Return a volumes.Create, which omits empty fields."""
    body = {'volume': {'size': 1, 'name': 'pvc-1', 'description': _DESCRIPTION,
                       'metadata': _CLUSTER, **fields}}
    reads = {'volume': {**_VOLUME, 'id': Keep('volume'), 'status': 'creating', 'size': 1,
                        'metadata': _CLUSTER, **{key: value for key, value in fields.items()
                                                 if key in _VOLUME}}}
    return Call('CreateVolume', 'POST /volumes', answered, None, {**body, **(hints or {})},
                reads if answered < 400 else None)


def _snapshot(by: str, **reads: Any) -> Call:
    return Call(by, 'GET /snapshots/{snapshot}', 200,
                reads={'snapshot': {**_SNAPSHOT, 'status': 'available', **reads}})


_DELETE = (_get('DeleteVolume', 'available', attachments=[]),
           Call('DeleteVolume', 'DELETE /volumes/{volume}', 202))
_GONE = Call('DeleteVolume', 'GET /volumes/{volume}', 404, raises='already deleted')
_NOVA_ATTACHES = tuple(call.silent() for call in (
    nova.attachment_create(), nova.attachment_update('node'), nova.attachment_complete()))
_PUBLISHED = (
    _create(), _get('ControllerPublishVolume', 'available', attachments=[], multiattach=False),
    *_NOVA_ATTACHES, _get('ControllerPublishVolume', 'in-use', attachments=[_NODE]))
_CREATE_SNAPSHOT = (
    Call('CreateSnapshot', 'GET /snapshots?name=snap-1', 200, reads={
        'snapshots': [], 'snapshots_links': ABSENT}),
    Call('CreateSnapshot', 'POST /snapshots', 202, None, {'snapshot': {
        'volume_id': '{volume}', 'name': 'snap-1', 'description': _DESCRIPTION,
        'metadata': _CLUSTER}}, {'snapshot': {**_SNAPSHOT, 'id': Keep('snapshot'), 'size': 1,
                                              'metadata': _CLUSTER}}),
    _snapshot('CreateSnapshot'))
_OTHERS = tuple(beside('POST /volumes', 202, {'volume': {'size': 1, 'name': name}},
                       {'volume': {'id': Keep(name)}}) for name in ('first', 'second', 'third'))


def _page(query: str, *names: str, more: str = '') -> Call:
    """Return a ListVolumes.

    :param more: kept name of the marker in the link to the next page, or empty for the last page
    """
    return Call('ListVolumes', f'GET /volumes/detail{query}', 200, reads={
        'volumes': [{**_VOLUME, 'id': f'{{{name}}}'} for name in names],
        'volumes_links': [{'rel': 'next', 'href': Text((f'marker={{{more}}}', 'limit=2'))}]
        if more else ABSENT})


_FLOWS = (
    Flow('create_twice_and_delete', (
        beside('POST /volumes', 202, {'volume': {'size': 1, 'name': 'pvc-1-of-another'}}),
        _by_name(), _create(), _get('CreateVolume', 'available'),
        _by_name({**_VOLUME, 'size': 1, 'name': 'pvc-1'}), *_DELETE, _GONE)),
    Flow('create_of_a_type_in_a_zone_near_others', (
        beside('POST /types', 200, {'volume_type': {
            'name': 'shared-{project}', 'extra_specs': {'multiattach': '<is> True'}}}),
        *_OTHERS[:1], _create(volume_type='shared-{project}', availability_zone='nova', hints={
            'OS-SCH-HNT:scheduler_hints': {'same_host': ['{first}']}}),
        _get('ControllerPublishVolume', 'available', multiattach=True))),
    Flow('create_from_a_volume', (
        *_OTHERS[:1], Call('CreateVolume', 'GET /volumes/{first}', 200, reads={
            'volume': {**_VOLUME, 'id': '{first}', 'status': 'available'}}),
        _create(source_volid='{first}'), _get('CreateVolume', 'available'))),
    Flow('quota', (
        beside('PUT /os-quota-sets/{project}', 200, {'quota_set': {'volumes': 0}}),
        _create(413)._replace(raises='ResourceExhausted'))),
    Flow('publish_and_unpublish', (
        *_PUBLISHED, _get('DeleteVolume', 'in-use', attachments=[_NODE])._replace(
            raises='still attached to a node'),
        _get('ControllerUnpublishVolume', 'in-use', attachments=[_NODE]),
        nova.begin_detaching().silent(),
        _get('ControllerUnpublishVolume', 'detaching', attachments=[_NODE]),
        nova.attachment_delete().silent(),
        _get('ControllerUnpublishVolume', 'available', attachments=[]), *_DELETE)),
    Flow('unpublish_while_nova_resizes_the_server', (
        *_PUBLISHED, nova.attachment_create(name='moved').silent(),
        nova.attachment_delete().silent(),
        _get('ControllerUnpublishVolume', 'reserved', attachments=[])._replace(
            raises='its status is reserved'))),
    Flow('list_in_pages', (
        *_OTHERS, _page('?limit=2', 'third', 'second', more='second'),
        _page('?limit=2&marker={second}', 'first'), _page('', 'third', 'second', 'first'))),
    Flow('expand', (
        _create(), _get('ControllerExpandVolume', 'available', size=1),
        Call('ControllerExpandVolume', 'POST /volumes/{volume}/action', 202, None,
             {'os-extend': {'new_size': 2}}),
        _get('ControllerExpandVolume', 'available', size=2))),
    Flow('expand_in_use', (
        *_PUBLISHED, Call('ControllerExpandVolume', 'POST /volumes/{volume}/action', 202, IN_USE,
                          {'os-extend': {'new_size': 2}}),
        _get('ControllerExpandVolume', 'in-use', size=2))),
    Flow('snapshots', (
        _create(), _get('CreateVolume', 'available'), *_CREATE_SNAPSHOT,
        Call('CreateSnapshot', 'GET /snapshots?name=snap-1', 200, reads={
            'snapshots': [_SNAPSHOT]}),
        Call('ListSnapshots', 'GET /snapshots?status=available', 200, reads={
            'snapshots': [{**_SNAPSHOT, 'status': 'available'}], 'snapshots_links': ABSENT}),
        Call('ListSnapshots', 'GET /snapshots?status=available&volume_id={volume}', 200, reads={
            'snapshots': [_SNAPSHOT]}),
        Call('ListSnapshots', 'GET /snapshots?limit=1&status=available', 200, reads={
            'snapshots': [_SNAPSHOT], 'snapshots_links': [
                {'rel': 'next', 'href': Text(('marker={snapshot}',))}]}),
        Call('ListSnapshots', 'GET /snapshots?limit=1&marker={snapshot}&status=available', 200,
             reads={'snapshots': [], 'snapshots_links': ABSENT}),
        _snapshot('ListSnapshots'),
        # The plugin looks for a backup of the same id before it deletes a snapshot.
        Call('DeleteSnapshot', 'GET /backups/{snapshot}', 404, raises='no backup'),
        Call('DeleteSnapshot', 'DELETE /snapshots/{snapshot}', 202),
        Call('DeleteSnapshot', 'DELETE /snapshots/{snapshot}', 404, raises='already deleted'))),
    Flow('create_from_a_snapshot', (
        _create(), *_CREATE_SNAPSHOT, _snapshot('CreateVolume'),
        _create(snapshot_id='{snapshot}'), _get('CreateVolume', 'available'))),
    Flow('snapshot_that_is_no_backup', (
        Call('CreateVolume', 'GET /snapshots/{missing}', 404, raises='NotFound'),
        Call('CreateVolume', 'GET /backups/{missing}', 404, raises='NotFound'))),
    Flow('backups_are_not_offered', (
        _create(), Call('CreateSnapshot', 'GET /backups?name=snap-1', 200, reads={'backups': []}),
        *_CREATE_SNAPSHOT, Call(
            'CreateSnapshot', 'POST /backups', 400, BACKUPS, {'backup': {
                'volume_id': '{volume}', 'snapshot_id': '{snapshot}', 'name': 'snap-1',
                'description': _DESCRIPTION, 'metadata': _CLUSTER}}, raises='Internal'))),
    Flow('volume_that_is_gone', tuple(
        Call(by, 'GET /volumes/{missing}', 404, raises='NotFound') for by in (
            'ControllerPublishVolume', 'ControllerUnpublishVolume', 'ControllerGetVolume',
            'ControllerExpandVolume', 'ValidateVolumeCapabilities'))),
)

CONSUMER = Consumer(
    'Kubernetes Cinder CSI', 'of July 2026: ``pkg/csi/cinder``, gophercloud 2.12.0', _FLOWS,
    with_project=True,
    headers={'User-Agent': 'cinder-csi-plugin gophercloud/v2.12.0'},
    version_headers=('X-OpenStack-Volume-API-Version: {version}',
                     'OpenStack-API-Version: volume {version}'))
