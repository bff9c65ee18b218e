"""Request and response schemas of volumes and of volume actions, and views of volumes.

The keys of a volume in a response depend on the microversion, the extension and the caller.
"""
import functools
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from blockattach.platform.http import operation
from blockattach.platform.http import schema
from blockattach.platform.http.operation import BASE
from blockattach.platform.http.operation import V
from blockattach.storage.api import answers
from blockattach.storage.api import metadata
from blockattach.storage.api import services as api_services
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.db.types import volume_types
from blockattach.storage.domain import records
from blockattach.storage.domain import volume_type
from blockattach.storage.policy import volumes as policies

BOOLEAN = answers.YES_OR_NO

HINTS = 'OS-SCH-HNT:scheduler_hints'

_TEXT: schema.Schema = {'type': ['string', 'null']}
_ID_OR_NAME: schema.Schema = {'type': ['string', 'null'], 'maxLength': 255}

# `settings.text` checks the lengths of names and descriptions after it has trimmed them.
_WISH = schema.obj({
    'name': _TEXT, 'display_name': _TEXT,
    'description': _TEXT, 'display_description': _TEXT,
    'size': {'type': ['integer', 'string', 'null'], 'minimum': 1, 'maximum': 2 ** 31 - 1,
             'pattern': '^[0-9]{1,9}$'},
    'volume_type': _ID_OR_NAME,
    'availability_zone': {**_ID_OR_NAME, 'minLength': 1},
    'metadata': schema.nullable(metadata.PAIRS),
    'multiattach': {'enum': [None, *BOOLEAN['enum']]},
    'snapshot_id': schema.NULLABLE_UUID,
    'source_volid': schema.NULLABLE_UUID,
    'consistencygroup_id': schema.NULLABLE_UUID,
    'image_id': _ID_OR_NAME,
    'imageRef': _ID_OR_NAME,
}, additional=True)
_BASE = schema.obj({
    'volume': _WISH,
    HINTS: {'type': ['object', 'null']},
}, required=['volume'])
_IN_GROUPS = schema.extend(_BASE, {'group_id': _ID_OR_NAME}, at='volume')
_FROM_BACKUPS = schema.extend(_IN_GROUPS, {'backup_id': schema.NULLABLE_UUID}, at='volume')
_STRICT = schema.extend(_FROM_BACKUPS, at='volume', additionalProperties=False)

CREATE = {BASE: _BASE, V(3, 13): _IN_GROUPS, V(3, 47): _FROM_BACKUPS, V(3, 53): _STRICT}

# Tempest's schema of the list without details allows no other keys.
_NAME = schema.View({
    'id': schema.UUID,
    'name': answers.NULLABLE_TEXT,
    'links': (answers.LINKS, schema.GIVEN),
})

# Clients expect the ID of the volume as ``id``; the attachment has its own key.
_SERVER = schema.View({
    'id': (schema.UUID, schema.GIVEN),
    'attachment_id': schema.UUID,
    'volume_id': (schema.UUID, schema.GIVEN),
    'server_id': (schema.NULLABLE_UUID, 'instance_uuid'),
    'host_name': (answers.NULLABLE_TEXT, schema.GIVEN),
    'device': (answers.NULLABLE_TEXT, 'mountpoint'),
    'attached_at': answers.NULLABLE_TIME,
})

# Statuses that clients do not know, and the statuses shown instead.
_SHOWN_AS = {'managing': 'creating', 'error_managing': 'error'}

_KEYS = {
    'id': schema.UUID,
    'name': answers.NULLABLE_TEXT,
    'description': answers.NULLABLE_TEXT,
    'status': (answers.TEXT, lambda volume: _SHOWN_AS.get(volume.status, volume.status)),
    'size': (answers.INTEGER, 'size_gb'),
    'availability_zone': answers.TEXT,
    'created_at': answers.TIME,
    'updated_at': answers.NULLABLE_TIME,
    'user_id': answers.TEXT,
    'volume_type': (answers.TEXT, 'volume_type_name'),
    'snapshot_id': schema.NULLABLE_UUID,
    'source_volid': schema.NULLABLE_UUID,
    'consistencygroup_id': answers.NULL,
    # A lambda, because `_metadata` is defined below.
    'metadata': (answers.TEXTS_BY_KEY, lambda volume: _metadata(volume)),
    'links': (answers.LINKS, schema.GIVEN),
    # As in Cinder, this flag is a string, unlike the other flags.
    'bootable': ({'enum': ['true', 'false']},
                 lambda volume: 'true' if volume.bootable else 'false'),
    'encrypted': answers.BOOLEAN,
    'replication_status': answers.NULL,
    'multiattach': answers.BOOLEAN,
    'attachments': (schema.array(_SERVER.whole), schema.GIVEN),
}
_MADE = schema.View(_KEYS)

_BY_RULE: Mapping[str, Mapping[str, Any]] = {
    policies.TENANT_ATTRIBUTE: {
        'os-vol-tenant-attr:tenant_id': (answers.TEXT, 'project_id')},
    policies.HOST_ATTRIBUTE: {
        'os-vol-host-attr:host': ({'type': ['string', 'null'], 'pattern': '^.+@.+#.+$'}, 'pool')},
    policies.MIG_STATUS_ATTRIBUTE: {
        'os-vol-mig-status-attr:migstat': (answers.NULLABLE_TEXT, 'migration_status'),
        'os-vol-mig-status-attr:name_id': answers.NULL},
}
"""Response keys of a volume by the policy rule that allows a caller to see them.

The rule is checked for the project of the volume.
"""

_ATTRIBUTES = {
    'migration_status': answers.NULLABLE_TEXT, 'volume_image_metadata': answers.TEXTS_BY_KEY,
    **schema.View({name: key for keys in _BY_RULE.values() for name, key in keys.items()}).keys}


class Added(NamedTuple):
    """Response key of a volume that a microversion added.

    :ivar promise: schema of the value
    :ivar held: True if the value is the attribute of the volume with the same name; False if the
        value is ``value`` for all volumes
    :ivar value: None for a feature that this service does not support
    :ivar admin: True if only administrators see the key
    """

    since: V
    key: str
    promise: schema.Schema = answers.NULL
    held: bool = False
    value: Any = None
    admin: bool = False


ADDED = (
    Added(BASE, 'migration_status', answers.NULLABLE_TEXT, held=True, admin=True),
    Added(V(3, 13), 'group_id'),
    Added(V(3, 21), 'provider_id', admin=True),
    Added(V(3, 48), 'shared_targets', answers.BOOLEAN, held=True),
    Added(V(3, 48), 'service_uuid', schema.NULLABLE_UUID, held=True),
    Added(V(3, 61), 'cluster_name', admin=True),
    Added(V(3, 63), 'volume_type_id', schema.UUID, held=True),
    Added(V(3, 65), 'consumes_quota', answers.BOOLEAN, value=True),
)


def _by_version(volume: schema.Schema,
                around: Callable[[schema.Schema], schema.Schema]) -> dict[V, schema.Schema]:
    """Return the response schemas by the microversions that added keys to a volume.

    :param volume: schema of a volume at the base version
    :param around: function that returns the schema of the response for the schema of a volume
    """
    found = {}
    for row in ADDED:
        volume = schema.extend(volume, {row.key: row.promise},
                               required=[] if row.admin else [row.key])
        found[row.since] = around(volume)
    return found


def _list(item: schema.Schema) -> schema.Schema:
    return schema.obj({
        'volumes': schema.array(item),
        'volumes_links': answers.NEXT_LINK,
        'count': answers.INTEGER,
    }, required=['volumes'])


def _one(item: schema.Schema) -> schema.Schema:
    return schema.wrapped('volume', item)


NAMES = {BASE: _list(_NAME.whole)}
DETAILS = _by_version(schema.extend(_MADE.whole, _ATTRIBUTES), _list)
SHOWN = _by_version(schema.extend(_MADE.whole, _ATTRIBUTES), _one)
CREATED = _by_version(_MADE.whole, _one)

# Only backends encrypt data, so consumers never need an encryption key.
_PLAIN = schema.View({'encryption_key_id': answers.NULL})
_ENCRYPTED = schema.View({
    'encryption_key_id': answers.NULL,
    'provider': answers.TEXT,
    'control_location': {'enum': list(volume_type.CONTROL_LOCATIONS)},
    'cipher': answers.NULLABLE_TEXT,
    'key_size': {'type': ['integer', 'null']},
})
ENCRYPTION = {BASE: {'anyOf': [_PLAIN.whole, _ENCRYPTED.whole]}}
ENCRYPTION_FACT = {BASE: schema.obj(_ENCRYPTED.keys, minProperties=1, maxProperties=1)}

_TOTALS = answers.whole({'total_count': answers.INTEGER, 'total_size': answers.INTEGER})
_VALUES: schema.Schema = {'type': 'object', 'additionalProperties': schema.array(answers.TEXT)}
SUMMARY = {
    V(3, 12): schema.wrapped('volume-summary', _TOTALS),
    V(3, 36): schema.wrapped('volume-summary', schema.extend(
        _TOTALS, {'metadata': _VALUES}, required=['metadata'])),
}

_MORE = {'attachment_count': answers.INTEGER}
EXTENDED = {V(1, 0): schema.extending(_MORE, 'volume')}
EXTENDED_LIST = {V(1, 0): schema.extending(_MORE, 'volumes')}
"""Functions that add the keys of the extension to a response schema, by extension version."""

_LONGEST_TEXT = 255
# Old clients send a string as the connector, which identifies no host.
_CONNECTOR: schema.Schema = {**answers.CONNECTOR, 'type': ['object', 'string']}
_NO_CONNECTOR = schema.nullable(_CONNECTOR)

INITIALIZE_CONNECTION = schema.obj({'connector': _CONNECTOR}, required=['connector'])
TERMINATE_CONNECTION = schema.obj({'connector': _NO_CONNECTOR}, required=['connector'])
CONNECTION = {BASE: schema.wrapped('connection_info', answers.NESTED_CONNECTION)}

ATTACH = schema.obj({
    'instance_uuid': {**schema.UUID, 'maxLength': 36},
    'host_name': {'type': 'string', 'minLength': 1, 'maxLength': _LONGEST_TEXT},
    'mountpoint': {'type': 'string', 'minLength': 1, 'maxLength': _LONGEST_TEXT},
    'mode': {'enum': ['rw', 'ro']},
}, required=['mountpoint'], anyOf=[{'required': ['instance_uuid']}, {'required': ['host_name']}])

DETACH = schema.nullable(schema.obj(
    {'attachment_id': {**schema.NULLABLE_UUID, 'maxLength': 36}}))
FORCE_DETACH = schema.obj({
    'connector': _NO_CONNECTOR,
    'attachment_id': {'type': ['string', 'null'], 'maxLength': _LONGEST_TEXT},
})

_WORD: schema.Schema = {'type': ['string', 'null'], 'maxLength': _LONGEST_TEXT}
RESET_STATUS = schema.obj(
    {'status': _WORD, 'attach_status': _WORD, 'migration_status': _WORD})

UPDATE_READONLY_FLAG = schema.obj({'readonly': BOOLEAN}, required=['readonly'])

_SERVICE_ROLE = 'service'


def names(services: api_services.ApiServices, call: operation.Call,
          volumes: Sequence[records.Volume]) -> list[dict[str, Any]]:
    """Return volumes as a list without details."""
    return [_NAME.show(volume, links=call.links(f'/volumes/{volume.id}')) for volume in volumes]


class Seen(NamedTuple):
    """Visibility of the volumes of a project for a caller.

    :ivar admin: True if the caller is an administrator
    :ivar hosts: True if the caller may see the hosts of attachments
    :ivar rules: rules of `_BY_RULE` whose keys the caller may see
    :ivar image_metadata: True if the caller may see the image metadata
    """

    admin: bool
    hosts: bool
    rules: tuple[str, ...] = ()
    image_metadata: bool = False


def seen(services: api_services.ApiServices, call: operation.Call, project_id: str) -> Seen:
    """Return the visibility of the volumes of a project for the caller."""
    allowed = services.policy.allowed
    return _seen_of_any(call)._replace(
        rules=tuple(rule for rule in _BY_RULE if allowed(call.context, rule, project_id)),
        image_metadata=allowed(call.context, policies.SHOW_IMAGE_METADATA, project_id))


def facts(services: api_services.ApiServices, call: operation.Call) -> tuple[Seen, int | None]:
    """Return the data for the response of `one` that is not part of the volume record.

    :returns: the visibility of the volume, and the number of its attachments. The number is None
        if the extension was not negotiated.
    """
    # The ETag is a digest of these values, so `one` must read nothing else.
    return (seen(services, call, call.target.project_id),
            _counts(services, call, [call.target]).get(call.target.id))


def one(_services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Return the requested volume with the details that the caller may see."""
    sees, count = call.facts
    return _shown(call, call.target, sees, count)


def details(services: api_services.ApiServices, call: operation.Call,
            volumes: Sequence[records.Volume]) -> list[dict[str, Any]]:
    """Return volumes with the details that the caller may see."""
    sees = {owner: seen(services, call, owner)
            for owner in {volume.project_id for volume in volumes}}
    counts = _counts(services, call, volumes)
    return [_shown(call, volume, sees[volume.project_id], counts.get(volume.id))
            for volume in volumes]


def made(services: api_services.ApiServices, call: operation.Call,
         volume: records.Volume) -> dict[str, Any]:
    """Return a volume in the form of a create or update response."""
    # The keys of `_BY_RULE` are left out, because Cinder's responses to these requests do not have
    # them and Tempest's schemas do not allow them.
    return _shown(call, volume, _seen_of_any(call),
                  _counts(services, call, [volume]).get(volume.id))


def encryption(services: api_services.ApiServices, volume: records.Volume) -> dict[str, Any]:
    """Return the encryption metadata of a volume for its consumer.

    The metadata are read from the volume type. The encryption of a type cannot change while the
    type has volumes.
    """
    found = volume_types.get(services.database, volume.volume_type_id).encryption \
        if volume.encrypted else None
    return (_PLAIN if found is None else _ENCRYPTED).show(found)


def _counts(services: api_services.ApiServices, call: operation.Call,
            volumes: Sequence[records.Volume]) -> dict[str, int]:
    """Return the number of attachments of each volume by volume ID.

    The result is empty if the extension was not negotiated.
    """
    if call.extension is None:
        return {}
    ids = [volume.id for volume in volumes]
    return dict.fromkeys(ids, 0) | attachment_queries.counts(services.database, ids)


def _seen_of_any(call: operation.Call) -> Seen:
    """Return the visibility of the volumes of any project, without the result of policy rules."""
    is_admin = bool(call.context.is_admin)
    return Seen(is_admin, is_admin or _SERVICE_ROLE in call.context.roles)


def _shown(call: operation.Call, volume: records.Volume, sees: Seen,
           count: int | None) -> dict[str, Any]:
    """Return a volume with the keys of the requested version that the caller may see.

    :param count: number of attachments of the volume; None to leave out the key
    """
    # Cinder shows the host of an attachment only to administrators and services.
    servers = [_SERVER.show(one, id=volume.id, volume_id=volume.id,
                            host_name=one.host if sees.hosts else None)
               for one in volume.attached]
    shown = _view(call.version, sees.admin, sees.rules).show(
        volume, links=call.links(f'/volumes/{volume.id}'), attachments=servers)
    # Cinder leaves the key out for volumes without image metadata.
    if sees.image_metadata and volume.image_metadata:
        shown['volume_image_metadata'] = volume.image_metadata
    if count is not None:
        shown['attachment_count'] = count
    return shown


@functools.cache
def _view(version: V, admin: bool, rules: tuple[str, ...]) -> schema.View:
    # The view is cached, because a list would otherwise build the view for each volume.
    rows = [row for row in ADDED if version >= row.since and (admin or not row.admin)]
    return schema.View({
        **{row.key: (row.promise, lambda _volume, value=row.value: value)
           for row in rows if not row.held},
        **_KEYS, **{row.key: row.promise for row in rows if row.held},
        **{name: key for rule in rules for name, key in _BY_RULE[rule].items()}})


def _metadata(volume: records.Volume) -> Mapping[str, str]:
    # Cinder shows these two keys to all users, although no request for metadata writes them.
    if volume.readonly is None and volume.attached_mode is None:
        return volume.metadata
    more = {'readonly': None if volume.readonly is None else str(bool(volume.readonly)),
            'attached_mode': volume.attached_mode}
    return {**volume.metadata, **{key: value for key, value in more.items() if value is not None}}
