"""Ironic, which calls openstacksdk in ironic/common/cinder.py.

The calls are in the order of ironic/drivers/modules/storage/cinder.py. Ironic uses the legacy
actions and leaves the microversion to openstacksdk. Its endpoint has no project id. A service
token is sent only with the token of a user.
"""
from blockattach.tests.contracts import nova_calls as nova
from blockattach.tests.contracts import openstacksdk as sdk
from blockattach.tests.contracts.calls import ABSENT
from blockattach.tests.contracts.calls import Call
from blockattach.tests.contracts.calls import Consumer
from blockattach.tests.contracts.calls import Flow
from blockattach.tests.contracts.calls import Keep
from blockattach.tests.contracts.calls import beside

# See _generate_connector. The host is the node's id. A node with several connectors uses
# multipath.
_CONNECTOR = {'initiator': 'iqn.2026-01.org.example:{server}', 'ip': '127.0.0.1',
              'host': '{server}', 'multipath': True}
_SINGLE = {key: value for key, value in _CONNECTOR.items() if key != 'multipath'}
# Keys with which pxe_utils.py boots a node. The driver stores the whole connection info.
_BOOT = {'target_iqn': str, 'target_lun': int, 'target_portal': str, 'auth_username': str,
         'auth_password': str, 'volume_id': '{volume}'}
_PATHS = {**_BOOT, 'target_portals': [str], 'target_iqns': [str], 'target_luns': [int]}
_NODE = {'ironic_node_{server}': '{{"instance_uuid": "{server}", "last_action": "attached"}}'}
_ATTACHED = {'server_id': '{server}', 'attachment_id': Keep('attachment'),
             'device': 'ironic_mountpoint'}
_VOLUME = beside('POST /volumes', 202, {'volume': {'size': 1}},
                 {'volume': {'id': Keep('volume')}})
_SHARED = (beside('POST /types', 200, {'volume_type': {
    'name': 'shared-{project}', 'extra_specs': {'multiattach': '<is> True'}}}),
    beside('POST /volumes', 202, {'volume': {'size': 1, 'volume_type': 'shared-{project}'}},
           {'volume': {'id': Keep('volume')}}))


def _by(function: str, call: Call) -> Call:
    """Return a call of openstacksdk with the name of the Ironic function that makes it."""
    return call._replace(by=f'{function}: {call.by}')


def _attach(connector: dict[str, object], boot: dict[str, object],
            status: str = 'available') -> tuple[Call, ...]:
    """Return the calls of attach_volumes, for a volume that passes is_volume_available."""
    return tuple(_by('attach_volumes', call) for call in (
        sdk.get_volume(status, attachments=list, multiattach=bool),
        sdk.action('reserve_volume', {'os-reserve': None}),
        sdk.action('init_volume_attachment', {'os-initialize_connection': {
            'connector': connector}}, connector, answered=200,
            reads={'connection_info': {'driver_volume_type': 'iscsi', 'data': boot}}),
        Call('attach_volume', 'POST /volumes/{volume}/action', 202, sdk.NEWEST,
             {'os-attach': {'mountpoint': 'ironic_mountpoint', 'instance_uuid': '{server}'}},
             uses=sdk.use('attach_volume', '{volume}', 'ironic_mountpoint',
                          instance='{server}')),
        sdk.set_volume_metadata(**_NODE)))


def _detach(connector: dict[str, object]) -> tuple[Call, ...]:
    """Return the calls of detach_volumes, for a volume that passes is_volume_attached.

    os-detach is the last action, with the attachment id that was read first.
    """
    return tuple(_by('detach_volumes', call) for call in (
        sdk.get_volume('in-use', attachments=[_ATTACHED]),
        sdk.action('begin_volume_detaching', {'os-begin_detaching': None}),
        sdk.action('terminate_volume_attachment', {'os-terminate_connection': {
            'connector': connector}}, connector),
        sdk.action('detach_volume', {'os-detach': {'attachment_id': '{attachment}'}},
                   '{attachment}'),
        sdk.set_volume_metadata(**_NODE)))


_FLOWS = (
    Flow('deploy_and_tear_down', (
        sdk.DISCOVER, _VOLUME, *_attach(_SINGLE, {**_BOOT, 'target_portals': ABSENT}),
        *_detach(_SINGLE), _by('detach_volumes', sdk.get_volume('available', attachments=[])))),
    Flow('deploy_with_several_paths', (
        sdk.DISCOVER, _VOLUME, *_attach(_CONNECTOR, _PATHS), *_detach(_CONNECTOR))),
    Flow('shared_volume_in_use', (
        sdk.DISCOVER, *_SHARED,
        nova.attachment_create(name='second', server='{second_server}').silent(),
        nova.attachment_complete('second').silent(), *_attach(_SINGLE, _BOOT, 'in-use'))),
    Flow('volume_that_another_has', (
        sdk.DISCOVER, _VOLUME,
        nova.attachment_create(name='second', server='{second_server}').silent(),
        _by('attach_volumes', sdk.action('reserve_volume', {'os-reserve': None}, answered=400)
            ._replace(raises='StorageError')))),
    Flow('volume_that_is_gone', (
        sdk.DISCOVER, _by('attach_volumes', Call(
            'get_volume', 'GET /volumes/{missing}', 404, sdk.NEWEST,
            uses=sdk.use('get_volume', '{missing}'), raises='StorageError')))),
)

CONSUMER = Consumer('Ironic', 'of August 2026: ``ironic/common/cinder.py``', _FLOWS,
                    client='openstacksdk')
