"""Block-storage proxy of openstacksdk 4.

Each request names the highest microversion that the SDK and the service have for the resource.
"""
from typing import Any

from blockattach.tests.contracts import nova_calls as nova
from blockattach.tests.contracts.calls import ABSENT
from blockattach.tests.contracts.calls import ID
from blockattach.tests.contracts.calls import TIME
from blockattach.tests.contracts.calls import Call
from blockattach.tests.contracts.calls import Consumer
from blockattach.tests.contracts.calls import Each
from blockattach.tests.contracts.calls import Flow
from blockattach.tests.contracts.calls import Keep
from blockattach.tests.contracts.calls import OneOf
from blockattach.tests.contracts.calls import Use
from blockattach.tests.contracts.calls import Values
from blockattach.tests.contracts.calls import beside
from blockattach.tests.contracts.calls import use

NEWEST = '3.71'
SNAPSHOTS = '3.65'
LIMITS = '3.39'
HOST = 'sdk'

VERSIONS = {'versions': [{'id': 'v3.0', 'status': 'CURRENT', 'version': NEWEST,
                          'min_version': '3.0', 'links': Each({'rel': str, 'href': str})}]}
VOLUME: dict[str, Any] = {**nova.VOLUME, 'metadata': Values(str),
                          'updated_at': OneOf((TIME, None)), 'encrypted': bool,
                          'source_volid': nova.TEXT, 'user_id': str}
ATTACHMENT = {'id': '{attachment}', 'volume_id': '{volume}', 'instance': '{server}',
              'status': str, 'connection_info': {},
              # The client reads fields that no Block Storage service sends, and sets them to None.
              'attach_time': ABSENT, 'detach_time': ABSENT, 'mode': ABSENT}
SNAPSHOT = {**nova.SNAPSHOT, 'metadata': Values(str)}
_CONNECTED = {**ATTACHMENT, 'connection_info': nova.CONNECTION}
DISCOVER = Call('get_endpoint_data', 'GET /v3/', 200, reads=VERSIONS,
                uses=use('get_endpoint_data'))


def get_volume(status: str, **reads: Any) -> Call:
    """Return a volume show, as the waiters of the SDK poll it."""
    return Call('get_volume', 'GET /volumes/{volume}', 200, NEWEST,
                reads={'volume': {**VOLUME, 'status': status, **reads}},
                uses=use('get_volume', '{volume}'))


def action(by: str, body: dict[str, Any], *arguments: Any, answered: int = 202,
           reads: Any = None) -> Call:
    """Return a volume action."""
    return Call(by, 'POST /volumes/{volume}/action', answered, NEWEST, body, reads,
                use(by, '{volume}', *arguments))


def set_volume_metadata(**fields: str) -> Call:
    """Return a metadata update, which the SDK sends without a microversion."""
    return Call('set_volume_metadata', 'POST /volumes/{volume}/metadata', 200, None,
                {'metadata': fields}, {'metadata': fields},
                use('set_volume_metadata', '{volume}', **fields))


def _of_attachment(by: str, method: str, answered: int, body: Any = None, reads: Any = None,
                   **keywords: Any) -> Call:
    path = '/action' if by == 'complete_attachment' else ''
    return Call(by, f'{method} /attachments/{{attachment}}{path}', answered, NEWEST, body, reads,
                use(by, '{attachment}', **keywords))


_CREATE = Call('create_volume', 'POST /volumes', 202, NEWEST,
               {'volume': {'size': 1, 'name': 'one'}},
               {'volume': {**VOLUME, 'id': Keep('volume'), 'status': 'creating', 'name': 'one'}},
               use('create_volume', name='one', size=1))
_DELETE = Call('delete_volume', 'DELETE /volumes/{volume}?cascade=False&force=False', 202, NEWEST,
               uses=use('delete_volume', '{volume}'))
_FIND = Use('find_volume', ('one',), {'ignore_missing': False}, 2)
_ATTACHMENTS = [Call(
    'attachments', 'GET /attachments/detail?volume_id={volume}', 200, NEWEST,
    reads={'attachments': [_CONNECTED]}, uses=use('attachments', volume_id='{volume}'))]

_FLOWS = (
    Flow('volumes', (
        DISCOVER, _CREATE, get_volume('available'),
        Call('find_volume', 'GET /volumes/one', 404, NEWEST, uses=_FIND,
             raises='looked for by name'),
        Call('find_volume', 'GET /volumes/detail?name=one', 200, NEWEST,
             reads={'volumes': [VOLUME]}),
        Call('volumes', 'GET /volumes/detail?limit=1', 200, NEWEST,
             reads={'volumes': [VOLUME]}, uses=Use('volumes', keywords={'limit': 1}, sends=2)),
        # The SDK does not know that a full page is the last one until the next page is empty.
        Call('volumes', 'GET /volumes/detail?limit=1&marker={volume}', 200, NEWEST,
             reads={'volumes': []}),
        action('extend_volume', {'os-extend': {'new_size': 2}}, 2),
        get_volume('available', size=2), set_volume_metadata(a='b'),
        get_volume('available', metadata={'a': 'b'}), _DELETE,
        Call('get_volume', 'GET /volumes/{volume}', 404, NEWEST,
             uses=use('get_volume', '{volume}'), raises='NotFoundException'))),
    Flow('attachments', (
        DISCOVER, _CREATE,
        Call('create_attachment', 'POST /attachments', 200, NEWEST,
             {'attachment': {'connector': None, 'volume_uuid': '{volume}',
                             'instance_uuid': '{server}'}},
             {'attachment': {**ATTACHMENT, 'id': Keep('attachment'), 'status': 'reserved'}},
             use('create_attachment', '{volume}', connector=None, instance='{server}')),
        _of_attachment('update_attachment', 'PUT', 200,
                       {'attachment': {'connector': nova.connector(HOST)}},
                       {'attachment': _CONNECTED}, connector=nova.connector(HOST)),
        _of_attachment('complete_attachment', 'POST', 204, {'os-complete': '{attachment}'}),
        _of_attachment('get_attachment', 'GET', 200, None,
                       {'attachment': {**_CONNECTED, 'status': 'attached'}}),
        *_ATTACHMENTS, get_volume('in-use', attachments=[nova.SERVER_OF]),
        _of_attachment('delete_attachment', 'DELETE', 200),
        _of_attachment('delete_attachment', 'DELETE', 404, ignore_missing=False)._replace(
            raises='NotFoundException'))),
    Flow('snapshots_types_and_limits', (
        DISCOVER, _CREATE,
        Call('create_snapshot', 'POST /snapshots', 202, SNAPSHOTS,
             {'snapshot': {'volume_id': '{volume}', 'name': 's'}},
             {'snapshot': {**SNAPSHOT, 'id': Keep('snapshot'), 'status': 'creating'}},
             use('create_snapshot', volume_id='{volume}', name='s')),
        Call('get_snapshot', 'GET /snapshots/{snapshot}', 200, SNAPSHOTS,
             reads={'snapshot': {**SNAPSHOT, 'status': 'available'}},
             uses=use('get_snapshot', '{snapshot}')),
        Call('snapshots', 'GET /snapshots/detail?name=s', 200, SNAPSHOTS,
             reads={'snapshots': [SNAPSHOT]}, uses=use('snapshots', name='s')),
        Call('delete_snapshot', 'DELETE /snapshots/{snapshot}', 202, SNAPSHOTS,
             uses=use('delete_snapshot', '{snapshot}')),
        Call('types', 'GET /types', 200, reads={'volume_types': Each({
            'id': ID, 'name': str, 'description': nova.TEXT, 'is_public': bool})},
            uses=use('types')),
        Call('get_limits', 'GET /limits', 200, LIMITS,
             reads={'limits': nova.limits().reads['limits']}, uses=use('get_limits')))),
    Flow('refused', (
        DISCOVER, beside('PUT /os-quota-sets/{project}', 200, {'quota_set': {'volumes': 0}}),
        _CREATE._replace(answered=413, reads=None, raises='HttpException'),
        Call('services', 'GET /os-services', 403, '3.32', uses=use('services'),
             raises='ForbiddenException'))),
)

CONSUMER = Consumer('openstacksdk', '4.22.0: ``openstack/block_storage/v3``', _FLOWS,
                    client='openstacksdk')
