"""Nova 34, with the requests of each of its flows in their order.

The flows are in compute/api.py, compute/manager.py, conductor/manager.py and virt/block_device.py.
``functional/test_nova_contract.py`` plays a recording of Nova in full, and also checks the target.
"""
from blockattach.tests.contracts import nova_calls as nova
from blockattach.tests.contracts.calls import CLOUD_ADMIN
from blockattach.tests.contracts.calls import SERVICE
from blockattach.tests.contracts.calls import Call
from blockattach.tests.contracts.calls import Consumer
from blockattach.tests.contracts.calls import Each
from blockattach.tests.contracts.calls import Flow
from blockattach.tests.contracts.calls import Keep
from blockattach.tests.contracts.calls import beside
from blockattach.tests.contracts.calls import use

HOST, OTHER = 'cloudhost', 'cloudhost2'

_VOLUME = beside('POST /volumes', 202, {'volume': {'size': 1}},
                 {'volume': {'id': Keep('volume')}})
_BOOTABLE = beside('POST /volumes/{volume}/action', 200, {'os-set_bootable': {'bootable': True}})
_SHARED = (beside('POST /types', 200, {'volume_type': {
    'name': 'shared-{project}', 'extra_specs': {'multiattach': '<is> True'}}}),
    beside('POST /volumes', 202, {'volume': {'size': 1, 'volume_type': 'shared-{project}'}},
           {'volume': {'id': Keep('volume')}}))
_ERROR = beside('POST /volumes/{volume}/action', 202, {'os-reset_status': {'status': 'error'}})
_IN_USE = {'attachments': [nova.SERVER_OF]}


def _connect(host: str = HOST, name: str = 'attachment') -> tuple[Call, ...]:
    """Return the requests of a compute host for a reservation (block_device.py:_volume_attach)."""
    return (nova.versions(), nova.get('reserved', version=nova.LOCK),
            nova.attachment_update(host, name=name), nova.encryption(),
            nova.attachment_complete(name))


_ATTACH = (nova.get('available', attachments=[]), nova.versions(), nova.attachment_create(),
           *_connect())
_ATTACHED = (_VOLUME, *_ATTACH)
_SECOND = nova.attachment_create(name='second')
_CONNECTOR = nova.connector(HOST, None)
_LEGACY = {'connection_info': {'driver_volume_type': 'iscsi', 'data': {
    'target_iqn': str, 'target_portal': str, 'target_lun': int, 'volume_id': '{volume}',
    'auth_method': 'CHAP', 'auth_username': str, 'auth_password': str, 'access_mode': 'rw'}}}
_MISSING = {'volume': 'missing', 'attachment': 'missing', 'snapshot': 'missing'}


def _missing(call: Call) -> Call:
    """Return the row with the ids of resources that do not exist."""
    def replaced(value: object) -> object:
        for name, other in _MISSING.items():
            if isinstance(value, str):
                value = value.replace(f'{{{name}}}', f'{{{other}}}')
        return value
    assert call.uses is not None
    return call._replace(
        asks=str(replaced(call.asks)),
        body={'attachment': {**call.body['attachment'], 'volume_uuid': '{missing}'}}
        if call.by == 'attachment_create' else call.body,
        uses=call.uses._replace(arguments=tuple(map(replaced, call.uses.arguments))))


_NOT_FOUND = 'VolumeNotFound'
_FLOWS = (
    Flow('attach_and_detach', (
        *_ATTACHED, nova.get('in-use', **_IN_USE), nova.begin_detaching(), nova.versions(),
        nova.get('detaching', version=nova.LOCK, **_IN_USE), nova.attachment_delete(),
        nova.get('available', attachments=[]))),
    Flow('attach_by_a_nova_that_knows_no_newer_version', (
        _VOLUME, nova.versions(), nova.get('available', version='3.48'))),
    Flow('detach_that_fails', (
        *_ATTACHED, nova.begin_detaching(), nova.roll_detaching(), nova.get('in-use', **_IN_USE))),
    Flow('attach_that_fails', (
        _VOLUME, nova.versions(), nova.attachment_create(), nova.attachment_update(HOST),
        nova.attachment_delete(), nova.fails(
            nova.attachment_delete(), 404, 'ignored', 'attachment_id = {attachment}.'),
        nova.get('available', attachments=[]))),
    Flow('two_servers_of_a_shared_volume', (
        *_SHARED, *_ATTACH, nova.versions(),
        nova.attachment_create(name='second', server='{second_server}'),
        nova.attachment_update(OTHER, name='second'), nova.encryption(),
        nova.attachment_complete('second'),
        # A swap counts the writers in compute/api.py:_count_attachments_for_swap.
        nova.attachment_get('attached'), nova.attachment_get('attached', 'second'),
        nova.begin_detaching(), nova.attachment_delete(),
        nova.get('in-use', attachments=[{'server_id': '{second_server}'}]),
        nova.attachment_delete('second'))),
    Flow('boot_from_a_volume_of_an_image', (
        nova.create({'imageRef': '{image}'}), nova.get('available', bootable='true',
                                                       volume_image_metadata=dict),
        nova.versions(), nova.attachment_create(), *_connect(), nova.attachment_delete(),
        nova.delete())),
    Flow('boot_from_a_volume_that_is_there', (
        _VOLUME, _BOOTABLE, nova.get('available', bootable='true'), nova.versions(),
        nova.attachment_create(), *_connect(), nova.attachment_delete(),
        nova.get('available', attachments=[]))),
    Flow('boot_from_a_snapshot_and_with_a_blank_volume', (
        _VOLUME, nova.create_snapshot(), nova.get_snapshot(),
        nova.create({'snapshot_id': '{snapshot}'}, snapshot_id='{snapshot}'),
        nova.get('available'), nova.delete(), nova.create({}), nova.get('available'))),
    Flow('image_of_a_server', (
        *_ATTACHED, nova.limits(), nova.get('in-use', **_IN_USE), nova.create_snapshot(True),
        nova.get_snapshot())),
    Flow('hard_reboot_with_a_record_that_nova_lost', (
        *_SHARED, *_ATTACH, nova.versions(), _SECOND,
        nova.attachment_get_all('attachment', 'second'), nova.attachment_get('attached'),
        nova.attachment_delete('second'), nova.attachment_get_all('attachment'),
        nova.attachment_get_all('attachment', of='volume'))),
    Flow('resize_and_cold_migration_and_evacuation', (
        *_ATTACHED, nova.versions(), _SECOND, nova.attachment_delete(),
        nova.get('reserved', attachments=[]), nova.attachment_update(OTHER, name='second'),
        nova.attachment_get('attaching', 'second'), nova.attachment_complete('second'),
        nova.get('in-use', attachments=[{**nova.SERVER_OF, 'attachment_id': '{second}'}]))),
    Flow('live_migration', (
        *_ATTACHED, nova.versions(), nova.attachment_create(
            {**nova.CONNECTION, 'attachment_id': '{second}'}, OTHER, 'second', who=CLOUD_ADMIN),
        nova.attachment_get('attaching', 'second', CLOUD_ADMIN),
        nova.attachment_complete('second', CLOUD_ADMIN),
        nova.attachment_delete(who=CLOUD_ADMIN),
        nova.get('in-use', attachments=[{'attachment_id': '{second}'}]))),
    Flow('live_migration_that_is_rolled_back', (
        *_ATTACHED, nova.versions(), nova.attachment_create(
            {**nova.CONNECTION, 'attachment_id': '{second}'}, OTHER, 'second', who=CLOUD_ADMIN),
        nova.attachment_delete('second', CLOUD_ADMIN), nova.get('in-use', **_IN_USE))),
    Flow('shelve_and_unshelve', (
        *_ATTACHED, nova.versions(), _SECOND, nova.attachment_delete(),
        *_connect(OTHER, 'second'), nova.attachment_delete('second'))),
    Flow('attach_and_detach_while_shelved', (
        _VOLUME, nova.get('available'), nova.versions(), nova.attachment_create(),
        nova.attachment_complete(), nova.get('in-use', attachments=[
            {'server_id': '{server}', 'attachment_id': '{attachment}', 'device': None}]),
        nova.attachment_delete(), nova.get('available'))),
    Flow('rebuild_of_a_server_on_its_volume', (
        *_ATTACHED, nova.versions(), _SECOND, nova.attachment_delete(), nova.versions(),
        Call('reimage_volume', 'POST /volumes/{volume}/action', 202, '3.68',
             {'os-reimage': {'image_id': '{image}', 'reimage_reserved': True}},
             uses=use('volumes.reimage', '{volume}', '{image}', True)),
        nova.get('reserved'), nova.attachment_update(OTHER, name='second'),
        nova.attachment_complete('second'))),
    Flow('swap_for_which_there_is_no_migration', (
        *_ATTACHED, nova.begin_detaching(who=SERVICE), nova.action(
            'migrate_volume_completion', 'os-migrate_volume_completion',
            {'new_volume': '{volume}', 'error': False}, '{volume}', False, answered=400,
            reads='Invalid volume: Source volume not mid-migration.', raises='InvalidInput',
            who=SERVICE), nova.roll_detaching(),
        nova.get('in-use', SERVICE, migration_status=None, **_IN_USE))),
    Flow('legacy_records', (
        _VOLUME, nova.action('reserve_volume', 'os-reserve'), nova.get('attaching'),
        nova.action('initialize_connection', 'os-initialize_connection',
                    {'connector': _CONNECTOR}, _CONNECTOR, answered=200, reads=_LEGACY),
        nova.action('attach', 'os-attach', {'instance_uuid': '{server}', 'mountpoint': '/dev/vdb',
                                            'mode': 'rw'}, '{server}', '/dev/vdb', 'rw'),
        nova.get('in-use', attachments=[{
            'server_id': '{server}', 'attachment_id': Keep('attachment'), 'device': '/dev/vdb'}]),
        nova.begin_detaching(),
        nova.action('terminate_connection', 'os-terminate_connection',
                    {'connector': _CONNECTOR}, _CONNECTOR),
        nova.action('detach', 'os-detach', {'attachment_id': '{attachment}'}, '{attachment}'),
        nova.get('available', attachments=[]))),
    Flow('legacy_reservation_that_is_given_up', (
        _VOLUME, nova.action('reserve_volume', 'os-reserve'),
        nova.action('unreserve_volume', 'os-unreserve'), nova.get('available'),
        nova.action('detach', 'os-detach', {'attachment_id': None}),
        nova.get('available'))),
    Flow('volumes_and_snapshots_of_novas_own_api', (
        nova.create({'metadata': {'a': 'b'}}, metadata={'a': 'b'}),
        Call('get_all', 'GET /volumes/detail', 200, reads={'volumes': [nova.VOLUME]},
             uses=use('volumes.list', detailed=True, search_opts={})),
        nova.create_snapshot(),
        Call('get_all_snapshots', 'GET /snapshots/detail', 200,
             reads={'snapshots': [{**nova.SNAPSHOT, **nova.PROGRESS}]},
             uses=use('volume_snapshots.list', detailed=True)),
        Call('delete_snapshot', 'DELETE /snapshots/{snapshot}', 202,
             uses=use('volume_snapshots.delete', '{snapshot}')),
        nova.delete(),
        Call('get_all_volume_types', 'GET /types?is_public=None', 200,
             reads={'volume_types': Each({'id': nova.ID, 'name': str})},
             uses=use('volume_types.list')))),
    Flow('assisted_snapshot', (
        _VOLUME, nova.create_snapshot(), beside(
            'POST /snapshots/{snapshot}/action', 202, {'os-reset_status': {'status': 'creating'}}),
        nova.update_snapshot_status('available'), nova.get_snapshot(),
        nova.update_snapshot_status('error', 400, 'InvalidInput'))),
    Flow('what_is_not_there', (
        nova.fails(_missing(nova.get('')), 404, _NOT_FOUND, 'Volume {missing} could not'),
        nova.fails(_missing(nova.encryption()), 404, _NOT_FOUND, 'Volume {missing} could not'),
        nova.fails(_missing(nova.attachment_create()), 404, _NOT_FOUND, 'Volume {missing} could'),
        nova.fails(_missing(nova.begin_detaching()), 404, _NOT_FOUND, 'Volume {missing} could'),
        nova.fails(_missing(nova.roll_detaching()), 404, _NOT_FOUND, 'Volume {missing} could'),
        nova.fails(_missing(nova.delete()), 404, _NOT_FOUND, 'Volume {missing} could not'),
        *(nova.fails(_missing(call), 404, 'VolumeAttachmentNotFound', '{missing}') for call in (
            nova.attachment_get(''), nova.attachment_update(HOST), nova.attachment_complete())),
        nova.fails(_missing(nova.get_snapshot()), 404, 'SnapshotNotFound',
                   'Snapshot {missing} could'))),
    Flow('what_cannot_be_attached_or_detached', (
        _VOLUME, nova.fails(nova.begin_detaching(), 400, 'InvalidInput', 'Unable to detach'),
        *_ATTACH, nova.fails(nova.attachment_create(server='{second_server}'), 400,
                             'InvalidInput', 'status must be available'),
        nova.begin_detaching(), nova.fails(nova.begin_detaching(), 400, 'InvalidInput'),
        _VOLUME, _ERROR, nova.get('error'),
        nova.fails(nova.attachment_create(), 400, 'InvalidInput', 'in an error state'))),
    Flow('quota', (
        beside('PUT /os-quota-sets/{project}', 200, {'quota_set': {'volumes': 1,
                                                                   'snapshots': 0}}),
        nova.create({}), nova.fails(nova.create({}), 413, 'OverQuota'),
        nova.fails(nova.create_snapshot(), 413, 'OverQuota'))),
    Flow('what_only_an_administrator_may', (
        _VOLUME, nova.action(
            'migrate_volume_completion', 'os-migrate_volume_completion',
            {'new_volume': '{volume}', 'error': False}, '{volume}', False, answered=403,
            raises='Forbidden'))),
)

CONSUMER = Consumer(
    'Nova', '34.0.0: ``nova/volume/cinder.py`` and its callers', _FLOWS, client='cinderclient',
    with_project=True, service_token=True,
    headers={'User-Agent': 'python-cinderclient',
             'X-OpenStack-Request-ID': 'req-6d1f2a3e-1111-4a6b-8c42-3e1f6b9c0a11'})
