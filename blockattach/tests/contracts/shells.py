"""Commands `cinder` (python-cinderclient 9) and `openstack` (python-openstackclient 10).

They use microversion 3.71. Each command first asks for the API versions.
"""
from typing import Any

from blockattach.tests.contracts import nova_calls as nova
from blockattach.tests.contracts import openstacksdk as sdk
from blockattach.tests.contracts.calls import ADMIN
from blockattach.tests.contracts.calls import Call
from blockattach.tests.contracts.calls import Consumer
from blockattach.tests.contracts.calls import Flow
from blockattach.tests.contracts.calls import Keep
from blockattach.tests.contracts.calls import Use

_NEWEST = '3.71'
_INITIATOR = 'iqn.2026-01.org.example:shell'
_HOST = f'--initiator {_INITIATOR} --ip 127.0.0.1 --host shell --mountpoint /dev/vdb'
_ATTACHMENT = {'id': '{attachment}', 'volume_id': '{volume}', 'instance': '{server}',
               'status': str, 'attach_mode': str, 'attached_at': str, 'detached_at': str,
               'connection_info': dict}
_OPENSTACK_ATTACHMENT = {**sdk.ATTACHMENT, 'connection_info': dict}
_CONNECTION = {**nova.CONNECTION, 'enforce_multipath': bool}
_SUMMARY = {key: _ATTACHMENT[key] for key in ('id', 'volume_id', 'status', 'instance')}
# The shells turn the same options into different connectors.
_CINDER_CONNECTOR = {
    'initiator': _INITIATOR, 'ip': '127.0.0.1', 'platform': 'x86_64', 'host': 'shell',
    'os_type': 'linux', 'multipath': 'False', 'mountpoint': '/dev/vdb'}
_OPENSTACK_CONNECTOR = {
    'initiator': _INITIATOR, 'ip': '127.0.0.1', 'platform': None, 'host': 'shell',
    'os_type': None, 'multipath': False, 'mountpoint': '/dev/vdb'}
_FIELDS = {'size': 1, 'consistencygroup_id': None, 'snapshot_id': None, 'name': 'vol-{project}',
           'description': None, 'volume_type': None, 'availability_zone': None,
           'metadata': {'a': 'b'}, 'imageRef': None, 'source_volid': None, 'backup_id': None}


def _command(first: Call, name: str, arguments: str, calls: tuple[Call, ...]) -> tuple[Call, ...]:
    """Return the requests of a command in their order."""
    uses = Use(f'{name} {arguments}', sends=1 + len(calls))
    return tuple(row._replace(by=name, who=ADMIN, uses=uses if row is first else None)
                 for row in (first, *calls))


def _cinder(name: str, arguments: str, *calls: Call) -> tuple[Call, ...]:
    return _command(nova.versions(), name, arguments, calls)


def _openstack(name: str, arguments: str, *calls: Call) -> tuple[Call, ...]:
    return _command(Call('', 'GET /v3', 200, reads=sdk.VERSIONS), f'volume {name}', arguments,
                    calls)


def _call(asks: str, answered: int, body: Any = None, reads: Any = None) -> Call:
    return Call('', asks, answered, _NEWEST, body, reads)


def _volume(**reads: Any) -> dict[str, Any]:
    return {'volume': {**sdk.VOLUME, **reads}}


def _attachment(**reads: Any) -> dict[str, Any]:
    return {'attachment': {**_ATTACHMENT, **reads}}


_CREATED = _call('POST /volumes', 202, {'volume': _FIELDS},
                 _volume(id=Keep('volume'), status='creating'))
_SHOWN = _call('GET /volumes/{volume}', 200, reads=_volume())
_NAMED = _call('GET /volumes/detail?all_tenants=1&name=vol-{project}', 200,
               reads={'volumes': [sdk.VOLUME]})
# The shell looks for the id first, and for the name then.
_FOUND = (_call('GET /volumes/vol-{project}', 404),
          _call('GET /volumes/detail?name=vol-{project}', 200, reads={'volumes': [sdk.VOLUME]}))
_DELETED = _call('DELETE /attachments/{attachment}', 200)

_CINDER = (
    Flow('cinder', (
        *_cinder('create', '1 --name vol-{project} --metadata a=b', _CREATED, _SHOWN),
        *_cinder('list', '--name vol-{project} --limit 1 --sort created_at:desc', _call(
            'GET /volumes/detail?limit=1&name=vol-{project}&sort=created_at%3Adesc', 200,
            reads={'volumes': [sdk.VOLUME]})),
        *_cinder('show', 'vol-{project}', _NAMED),
        *_cinder('attachment-create', f'vol-{{project}} {{server}} --connect True {_HOST} '
                 '--platform x86_64 --ostype linux --multipath False --mode rw', _NAMED, _call(
                     'POST /attachments', 200, {'attachment': {
                         'volume_uuid': '{volume}', 'connector': _CINDER_CONNECTOR,
                         'instance_uuid': '{server}', 'mode': 'rw'}},
                     _attachment(id=Keep('attachment'), attach_mode='rw',
                                 connection_info=_CONNECTION))),
        *_cinder('attachment-complete', '{attachment}', _call(
            'POST /attachments/{attachment}/action', 204, {'os-complete': None})),
        *_cinder('attachment-show', '{attachment}', _call(
            'GET /attachments/{attachment}', 200,
            reads=_attachment(status='attached', connection_info=_CONNECTION))),
        *_cinder('attachment-list', '--volume-id {volume} --status attached --limit 1 '
                 '--sort created_at', _call(
                     'GET /attachments?limit=1&sort=created_at&status=attached'
                     '&volume_id={volume}', 200, reads={'attachments': [_SUMMARY]})),
        *_cinder('attachment-delete', '{attachment}', _DELETED))),
)
_OPENSTACK = (
    Flow('openstack', (
        *_openstack('create', '--size 1 --property a=b vol-{project}', _CREATED),
        *_openstack('list', '--name vol-{project}', _call(
            'GET /volumes/detail?name=vol-{project}', 200, reads={'volumes': [sdk.VOLUME]})),
        *_openstack('show', 'vol-{project}', *_FOUND),
        *_openstack('attachment create',
                    f'vol-{{project}} server-{{project}} --connect {_HOST} --mode rw', *_FOUND,
                    _call('POST /attachments', 200, {'attachment': {
                        'volume_uuid': '{volume}', 'connector': _OPENSTACK_CONNECTOR,
                        'instance_uuid': '{server}', 'mode': 'rw'}}, {'attachment': {
                            **_OPENSTACK_ATTACHMENT, 'id': Keep('attachment'),
                            'connection_info': _CONNECTION}})),
        *_openstack('attachment set', f'{{attachment}} {_HOST}', _call(
            'PUT /attachments/{attachment}', 200,
            {'attachment': {'connector': _OPENSTACK_CONNECTOR}},
            {'attachment': {**_OPENSTACK_ATTACHMENT, 'connection_info': _CONNECTION}})),
        *_openstack('attachment complete', '{attachment}', _call(
            'POST /attachments/{attachment}/action', 204, {'os-complete': '{attachment}'})),
        *_openstack('attachment show', '{attachment}', _call(
            'GET /attachments/{attachment}', 200,
            reads={'attachment': {**_OPENSTACK_ATTACHMENT, 'status': 'attached'}})),
        *_openstack('attachment list', '--volume-id {volume}', _call(
            'GET /attachments/detail?all_tenants=False&volume_id={volume}', 200,
            reads={'attachments': [_OPENSTACK_ATTACHMENT]})),
        *_openstack('attachment delete', '{attachment}', _DELETED),
        *_openstack('attachment create', '{volume} --server server-{project}', _SHOWN, _call(
            'POST /attachments', 200, {'attachment': {
                'volume_uuid': '{volume}', 'connector': {}, 'instance_uuid': '{server}'}},
            {'attachment': {**_OPENSTACK_ATTACHMENT, 'id': Keep('attachment'),
                            'status': 'reserved', 'connection_info': {}}})),
        *_openstack('set', '--property c=d --bootable --name two vol-{project}', *_FOUND,
                    _call('POST /volumes/{volume}/metadata', 200, {'metadata': {'c': 'd'}},
                          {'metadata': {'a': 'b', 'c': 'd'}}),
                    _call('POST /volumes/{volume}/action', 200,
                          {'os-set_bootable': {'bootable': True}}),
                    _call('PUT /volumes/{volume}', 200, {'volume': {'name': 'two'}},
                          _volume(name='two'))))),
)

CINDER = Consumer('python-cinderclient', '9.10.0: ``cinderclient/v3/shell.py``', _CINDER,
                  client='cinder')
OPENSTACK = Consumer('python-openstackclient',
                     '10.5.0: ``openstackclient/volume/v3``', _OPENSTACK, client='openstack')
