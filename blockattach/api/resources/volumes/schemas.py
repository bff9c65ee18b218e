"""Bodies of requests and answers on volumes, and of the actions on them."""
from collections.abc import Callable
from typing import Any
from typing import NamedTuple

from blockattach.api import answers
from blockattach.domain import volume_type
from blockattach.http import schema
from blockattach.http.operation import BASE
from blockattach.http.operation import V

BOOLEAN: schema.Schema = {'enum': [
    True, False, 'True', 'TRUE', 'true', '1', 'on', 'On', 'ON', 'yes', 'Yes', 'YES', 'y', 't',
    'False', 'FALSE', 'false', '0', 'off', 'Off', 'OFF', 'no', 'No', 'NO', 'n', 'f']}
"""The words for yes and no that clients use."""

METADATA_KEY = '^[a-zA-Z0-9_:. /-]{1,255}$'

_TEXT: schema.Schema = {'type': ['string', 'null']}
_ID_OR_NAME: schema.Schema = {'type': ['string', 'null'], 'maxLength': 255}
_METADATA = schema.obj(patternProperties={METADATA_KEY: {'type': 'string', 'maxLength': 255}})

# Lengths of names and descriptions are checked once they are trimmed.
_WISH = schema.obj({
    'name': _TEXT, 'display_name': _TEXT,
    'description': _TEXT, 'display_description': _TEXT,
    'size': {'type': ['integer', 'string', 'null'], 'minimum': 1, 'maximum': 2 ** 31 - 1,
             'pattern': '^[0-9]{1,9}$'},
    'volume_type': _ID_OR_NAME,
    'availability_zone': {**_ID_OR_NAME, 'minLength': 1},
    'metadata': schema.nullable(_METADATA),
    'multiattach': {'enum': [None, *BOOLEAN['enum']]},
    'snapshot_id': schema.NULLABLE_UUID,
    'source_volid': schema.NULLABLE_UUID,
    'consistencygroup_id': schema.NULLABLE_UUID,
    'image_id': _ID_OR_NAME,
    'imageRef': _ID_OR_NAME,
}, additional=True)
_BASE = schema.obj({
    'volume': _WISH,
    'OS-SCH-HNT:scheduler_hints': {'type': ['object', 'null']},
}, required=['volume'])
_IN_GROUPS = schema.extend(_BASE, {'group_id': schema.NULLABLE_UUID}, at='volume')
_FROM_BACKUPS = schema.extend(_IN_GROUPS, {'backup_id': schema.NULLABLE_UUID}, at='volume')
_STRICT = schema.extend(_FROM_BACKUPS, at='volume', additionalProperties=False)

CREATE = {BASE: _BASE, V(3, 13): _IN_GROUPS, V(3, 47): _FROM_BACKUPS, V(3, 53): _STRICT}

_NAME = answers.whole({
    'id': schema.UUID, 'name': answers.NULLABLE_TEXT, 'links': answers.LINKS})

_SERVER = answers.whole({
    'id': schema.UUID,
    'attachment_id': schema.UUID,
    'volume_id': schema.UUID,
    'server_id': schema.NULLABLE_UUID,
    'host_name': answers.NULLABLE_TEXT,
    'device': answers.NULLABLE_TEXT,
    'attached_at': answers.NULLABLE_TIME,
})

_MADE = answers.whole({
    'id': schema.UUID,
    'name': answers.NULLABLE_TEXT,
    'description': answers.NULLABLE_TEXT,
    'status': answers.TEXT,
    'size': answers.INTEGER,
    'availability_zone': answers.TEXT,
    'created_at': answers.TIME,
    'updated_at': answers.NULLABLE_TIME,
    'user_id': answers.TEXT,
    'volume_type': answers.TEXT,
    'snapshot_id': answers.NULL,
    'source_volid': answers.NULL,
    'consistencygroup_id': answers.NULL,
    'metadata': answers.TEXTS_BY_KEY,
    'links': answers.LINKS,
    'bootable': {'enum': ['true', 'false']},
    'encrypted': answers.BOOLEAN,
    'replication_status': answers.NULL,
    'multiattach': answers.BOOLEAN,
    'attachments': schema.array(_SERVER),
})

_ATTRIBUTES = {
    'migration_status': answers.NULL,
    'os-vol-tenant-attr:tenant_id': answers.TEXT,
    'os-vol-host-attr:host': {'type': ['string', 'null'], 'pattern': '^.+@.+#.+$'},
    'os-vol-mig-status-attr:migstat': answers.NULL,
    'os-vol-mig-status-attr:name_id': answers.NULL,
}


class Added(NamedTuple):
    """A key that came with a version.

    :ivar held: a volume has it, under the same name; else every volume has this ``value``, by
        default that of a feature which no volume has, where clients expect the key
    :ivar admin: only administrators see it
    """

    since: V
    key: str
    promise: schema.Schema = answers.NULL
    held: bool = False
    value: Any = None
    admin: bool = False


ADDED = (
    Added(BASE, 'migration_status', admin=True),
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
    """The schema of an answer at each version that changed what a volume shows."""
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


NAMES = {BASE: _list(_NAME)}
DETAILS = _by_version(schema.extend(_MADE, _ATTRIBUTES), _list)
SHOWN = _by_version(schema.extend(_MADE, _ATTRIBUTES), _one)
CREATED = _by_version(_MADE, _one)

_KEY = {'encryption_key_id': answers.NULL}
_ENCRYPTION = {
    **_KEY,
    'provider': answers.TEXT,
    'control_location': {'enum': list(volume_type.CONTROL_LOCATIONS)},
    'cipher': answers.NULLABLE_TEXT,
    'key_size': {'type': ['integer', 'null']},
}
ENCRYPTION = {BASE: {'anyOf': [answers.whole(_KEY), answers.whole(_ENCRYPTION)]}}
ENCRYPTION_FACT = {BASE: schema.obj(_ENCRYPTION, minProperties=1, maxProperties=1)}

_TOTALS = answers.whole({'total_count': answers.INTEGER, 'total_size': answers.INTEGER})
_VALUES: schema.Schema = {'type': 'object', 'additionalProperties': schema.array(answers.TEXT)}
SUMMARY = {
    V(3, 12): schema.wrapped('volume-summary', _TOTALS),
    V(3, 36): schema.wrapped('volume-summary', schema.extend(
        _TOTALS, {'metadata': _VALUES}, required=['metadata'])),
}

_MORE = {'attachment_count': answers.INTEGER}


def _with_more(answer: schema.Schema) -> schema.Schema:
    return schema.extend(answer, _MORE, _MORE, at='volume')


def _each_with_more(answer: schema.Schema) -> schema.Schema:
    return schema.extend_items(answer, 'volumes', _MORE)


EXTENDED = {V(1, 0): _with_more}
EXTENDED_LIST = {V(1, 0): _each_with_more}
"""What ``blockattach`` makes of the answers."""

_LONGEST_TEXT = 255
# Old clients send a text here, which identifies no host.
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
