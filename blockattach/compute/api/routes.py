"""List of all operations of the compute API, with the schemas of their bodies."""
import functools
from typing import Any

from blockattach.compute import errors
from blockattach.compute import policy as policies
from blockattach.compute.api import actions
from blockattach.compute.api import instance_actions
from blockattach.compute.api import metadata
from blockattach.compute.api import servers
from blockattach.compute.api import services
from blockattach.compute.api import small
from blockattach.compute.api import versions
from blockattach.compute.api import volumes
from blockattach.platform.http import operation
from blockattach.platform.http import schema
from blockattach.platform.http.operation import Operation

_BASE = versions.BASE
_NAME: schema.Schema = {'type': 'string', 'minLength': 1, 'maxLength': servers.LONGEST_NAME,
                        'pattern': r'^(?!\s)[^\x00-\x1f\x7f]+(?<!\s)\Z'}
_COUNT: schema.Schema = {'type': ['integer', 'string'], 'pattern': '^[1-9][0-9]{0,5}$',
                         'minimum': 1, 'maximum': 999999}
_INDEX: schema.Schema = {'type': ['integer', 'string', 'null'], 'pattern': '^(-?[0-9]{1,6})?$',
                         'minimum': -999999, 'maximum': 999999}
_TAG: schema.Schema = {'type': ['string', 'null'], 'maxLength': 60}
_TEXT: schema.Schema = {'type': ['string', 'null'], 'maxLength': 255}
_BOOLEAN: schema.Schema = {'type': ['boolean', 'string', 'null']}
_MODE: schema.Schema = {'enum': ['ro', 'rw']}
_HOST: schema.Schema = {'type': ['string', 'null'], 'minLength': 1, 'maxLength': 255}
_DEVICE = schema.obj({
    'source_type': {'enum': ['volume', 'image', 'snapshot', 'blank']},
    'destination_type': {'enum': ['volume', 'local']},
    'uuid': schema.UUID, 'boot_index': _INDEX,
    'device_name': _TEXT, 'delete_on_termination': _BOOLEAN, 'volume_size': {},
    'tag': _TAG, 'volume_type': _TEXT, 'disk_bus': _TEXT, 'device_type': _TEXT,
    'guest_format': _TEXT, 'no_device': {}, 'attach_mode': _MODE,
    'attach_modes': schema.array(_MODE, minItems=1, maxItems=servers.MOST)}, additional=False)
_ITEMS = schema.obj(patternProperties={
    r'^[a-zA-Z0-9\-_:. ]{1,255}\Z': {'type': 'string', 'maxLength': 255}})
_META = schema.wrapped('meta', {**_ITEMS, 'minProperties': 1, 'maxProperties': 1})
_METADATA = schema.wrapped('metadata', _ITEMS)
# Many fields of Nova have no meaning here and are accepted without effect.
_SERVER = schema.obj({
    'name': _NAME, 'imageRef': {'type': 'string', 'maxLength': 255},
    'flavorRef': {'type': ['string', 'integer']}, 'min_count': _COUNT, 'max_count': _COUNT,
    'block_device_mapping_v2': schema.array(_DEVICE, maxItems=26),
    'networks': {}, 'host': _HOST, 'hypervisor_hostname': _HOST,
    'return_reservation_id': _BOOLEAN, 'description': _TEXT,
    'metadata': _ITEMS}, required=['name', 'flavorRef'], additional=True)
_CREATE = schema.obj({'server': _SERVER, 'os:scheduler_hints': {},
                      'OS-SCH-HNT:scheduler_hints': {}}, required=['server'])
_UPDATE = schema.wrapped('server', schema.obj({'name': _NAME}))
_ATTACH = schema.wrapped('volumeAttachment', schema.obj({
    'volumeId': schema.UUID, 'device': _TEXT, 'tag': _TAG, 'delete_on_termination': {
        'type': 'boolean'}, 'attach_mode': _MODE}, required=['volumeId']))
_SWAP = schema.wrapped('volumeAttachment', schema.obj({
    'volumeId': schema.UUID, 'delete_on_termination': {'type': 'boolean'}, 'attach_mode': _MODE,
    'serverId': {}, 'device': {}, 'tag': {}, 'id': {}}, required=['volumeId']))
_EVENTS = schema.wrapped('events', schema.array(schema.obj({
    'name': {'type': 'string'}, 'server_uuid': schema.UUID, 'tag': {'type': 'string'},
    'status': {'type': 'string'}}, required=['name', 'server_uuid']), minItems=1, maxItems=100))
_MAYBE_HOST: schema.Schema = {'anyOf': [{'type': 'null'}, schema.obj({'host': _HOST},
                                                                     additional=True)]}
_DONE_QUERY = schema.obj(dict.fromkeys(('limit', 'marker', 'changes-since'), {}))
_NOTHING: schema.Schema = {}
_TARGET: dict[str, Any] = {'target': services.server}
_OF_VOLUME = (errors.ServerVolumeNotFound,)
_CONFLICT = (errors.ServerStateConflict,)
_OF_METADATA = (*_CONFLICT, errors.MetadataLimitExceeded)
_action = functools.partial(
    operation.action, '/servers/{id}/action', since=_BASE, policy=policies.ACT, faults=_CONFLICT,
    target=services.server)
_ACTIONS = (
    _action('os-start', functools.partial(actions.begin, 'start'), _NOTHING,
            summary='Start a server.'),
    _action('os-stop', functools.partial(actions.begin, 'stop'), _NOTHING,
            summary='Stop a server.'),
    _action('reboot', actions.reboot, schema.obj(
        {'type': {'enum': ['SOFT', 'HARD', 'soft', 'hard']}}, required=['type']),
        summary='Reboot a server.'),
    _action('shelve', functools.partial(actions.begin, 'shelve'), _NOTHING,
            summary='Shelve a server.'),
    _action('shelveOffload', functools.partial(actions.begin, 'shelve_offload'), _NOTHING,
            summary='Shelve-offload a server. The server is removed from the host.'),
    _action('unshelve', actions.unshelve, _MAYBE_HOST, summary='Unshelve a server.'),
    _action('rebuild', actions.rebuild, schema.obj({}, additional=True),
            summary='Rebuild a server. The server keeps the volumes.'),
    _action('resize', actions.resize, schema.obj(
        {'flavorRef': {'type': ['string', 'integer']}}, required=['flavorRef'], additional=True),
        summary='Resize a server to another flavor.'),
    _action('confirmResize', functools.partial(actions.begin, 'confirm_resize'), _NOTHING,
            status=204, summary='Confirm a resized or migrated server.'),
    _action('revertResize', functools.partial(actions.begin, 'revert_resize'), _NOTHING,
            summary='Revert a resized or migrated server.'),
    _action('migrate', actions.migrate, _MAYBE_HOST, policy=policies.MIGRATE,
            summary='Migrate a server to another host.'),
    _action('os-migrateLive', actions.live_migrate, schema.obj({
        'host': _HOST, 'block_migration': {}, 'disk_over_commit': {}, 'force': {}}),
        policy=policies.MIGRATE, summary='Live-migrate a server.'),
    _action('evacuate', actions.evacuate, schema.obj({'host': _HOST}, additional=True),
            policy=policies.EVACUATE, status=200, answer={_BASE: _NOTHING},
            summary='Evacuate a server from a failed host.'),
)
_VOLUMES = '/servers/{id}/os-volume_attachments'
_NOTED = '/servers/{id}/metadata'
_DONE = '/servers/{id}/os-instance-actions'

OPERATIONS = (
    Operation('GET', '/', small.discover, since=_BASE, public=True, root=True,
              summary='List all API versions.'),
    Operation('GET', '/v2.1/', small.discover_one, since=_BASE, public=True, root=True,
              summary='Show API v2.1 details.'),
    Operation('GET', '/v2.1', small.discover_one, since=_BASE, public=True, root=True,
              summary='Show API v2.1 details.'),
    Operation('GET', '/servers', servers.index, since=_BASE, policy=policies.LIST,
              summary='List servers.'),
    Operation('GET', '/servers/detail', servers.detail, since=_BASE, policy=policies.LIST,
              summary='List servers with details.'),
    Operation('GET', '/servers/{id}', servers.show, since=_BASE, policy=policies.SHOW, **_TARGET,
              summary='Show server details.'),
    Operation('POST', '/servers', servers.create, since=_BASE, policy=policies.CREATE,
              body={_BASE: _CREATE}, status=202,
              faults=(errors.ServerRequestInvalid, errors.AgentTooOld,
                      errors.MetadataLimitExceeded), summary='Create one or more servers.'),
    Operation('PUT', '/servers/{id}', servers.update, since=_BASE, policy=policies.UPDATE,
              body={_BASE: _UPDATE, versions.DESCRIPTION: schema.extend(
                  _UPDATE, {'description': _TEXT}, at='server')}, **_TARGET,
              summary='Update the name or description of a server.'),
    Operation('DELETE', '/servers/{id}', servers.delete, since=_BASE, policy=policies.DELETE,
              status=204, faults=_CONFLICT, **_TARGET, summary='Delete a server.'),
    *_ACTIONS,
    Operation('GET', _NOTED, metadata.index, since=_BASE, policy=policies.METADATA_LIST, **_TARGET,
              summary='List all metadata of a server.'),
    Operation('POST', _NOTED, metadata.create, since=_BASE, policy=policies.METADATA_CREATE,
              body={_BASE: _METADATA}, faults=_OF_METADATA, **_TARGET,
              summary='Create or update metadata items of a server.'),
    Operation('PUT', _NOTED, metadata.replace, since=_BASE, policy=policies.METADATA_REPLACE,
              body={_BASE: _METADATA}, faults=_OF_METADATA, **_TARGET,
              summary='Replace all metadata items of a server.'),
    Operation('GET', f'{_NOTED}/{{key}}', metadata.show, since=_BASE,
              policy=policies.METADATA_SHOW, **_TARGET,
              summary='Show a metadata item of a server.'),
    Operation('PUT', f'{_NOTED}/{{key}}', metadata.update, since=_BASE,
              policy=policies.METADATA_UPDATE, body={_BASE: _META},
              faults=(*_OF_METADATA, errors.ServerRequestInvalid), **_TARGET,
              summary='Create or update a metadata item of a server.'),
    Operation('DELETE', f'{_NOTED}/{{key}}', metadata.delete, since=_BASE,
              policy=policies.METADATA_DELETE, status=204, faults=_CONFLICT, **_TARGET,
              summary='Delete a metadata item of a server.'),
    Operation('GET', _DONE, instance_actions.index, since=_BASE, policy=policies.ACTIONS_LIST,
              query={versions.ACTION_PAGES: _DONE_QUERY, versions.CHANGES_BEFORE: schema.extend(
                  _DONE_QUERY, {'changes-before': {}})},
              faults=(errors.ServerRequestInvalid,), **_TARGET,
              summary='List the actions on a server.'),
    Operation('GET', f'{_DONE}/{{request_id}}', instance_actions.show, since=_BASE,
              policy=policies.ACTIONS_SHOW, **_TARGET,
              summary='Show the details of a server action.'),
    Operation('GET', _VOLUMES, volumes.index, since=_BASE, policy=policies.VOLUMES_SHOW, **_TARGET,
              summary='List the volume attachments of a server.'),
    Operation('GET', f'{_VOLUMES}/{{volume_id}}', volumes.show, since=_BASE,
              policy=policies.VOLUMES_SHOW, faults=_OF_VOLUME, **_TARGET,
              summary='Show the details of a volume attachment.'),
    Operation('POST', _VOLUMES, volumes.create, since=_BASE, policy=policies.VOLUMES_CREATE,
              body={_BASE: _ATTACH}, **_TARGET,
              faults=(*_CONFLICT, errors.ServerRequestInvalid, errors.AgentTooOld),
              summary='Attach a volume to a server.'),
    Operation('PUT', f'{_VOLUMES}/{{volume_id}}', volumes.update, since=_BASE,
              policy=policies.VOLUMES_UPDATE, body={_BASE: _SWAP}, status=202, **_TARGET,
              faults=(*_OF_VOLUME, *_CONFLICT, errors.ServerRequestInvalid),
              summary='Update a volume attachment. The request replaces the volume with another '
                      'volume, or changes delete_on_termination.'),
    Operation('DELETE', f'{_VOLUMES}/{{volume_id}}', volumes.delete, since=_BASE,
              policy=policies.VOLUMES_DELETE, status=202, faults=(*_OF_VOLUME, *_CONFLICT),
              **_TARGET, summary='Detach a volume from a server.'),
    Operation('GET', '/flavors', small.flavors, since=_BASE, policy=policies.FLAVORS,
              summary='List flavors.'),
    Operation('GET', '/flavors/detail', small.flavors_detail, since=_BASE,
              policy=policies.FLAVORS, summary='List flavors with details.'),
    Operation('GET', '/flavors/{id}', small.flavor, since=_BASE, policy=policies.FLAVORS,
              faults=(errors.FlavorNotFound,), summary='Show flavor details.'),
    Operation('GET', '/flavors/{id}/os-extra_specs', small.extra_specs, since=_BASE,
              policy=policies.FLAVORS, faults=(errors.FlavorNotFound,),
              summary='List the extra specs of a flavor.'),
    Operation('GET', '/os-services', small.agents, since=_BASE, policy=policies.SERVICES,
              summary='List compute services.'),
    Operation('POST', '/os-server-external-events', small.external_events, since=_BASE,
              policy=policies.EXTERNAL_EVENTS, body={_BASE: _EVENTS},
              summary='Run external events. The event volume-extended is supported.'),
)
