"""Bodies of the actions on a volume, and what is answered."""
from blockattach.api import answers
from blockattach.api.resources.volumes import schemas
from blockattach.http import schema
from blockattach.http.operation import BASE

_LONGEST_TEXT = 255
_NULLABLE_UUID: schema.Schema = {**schema.NULLABLE_UUID, 'maxLength': 36}
# Old clients send a text here, which identifies no host.
_CONNECTOR: schema.Schema = {**answers.CONNECTOR, 'type': ['object', 'string']}
_NO_CONNECTOR = schema.nullable(_CONNECTOR)

RESERVE = {BASE: schema.wrapped('os-reserve', {})}
UNRESERVE = {BASE: schema.wrapped('os-unreserve', {})}
BEGIN_DETACHING = {BASE: schema.wrapped('os-begin_detaching', {})}
ROLL_DETACHING = {BASE: schema.wrapped('os-roll_detaching', {})}

INITIALIZE_CONNECTION = {BASE: schema.wrapped('os-initialize_connection', schema.obj(
    {'connector': _CONNECTOR}, required=['connector']))}
TERMINATE_CONNECTION = {BASE: schema.wrapped('os-terminate_connection', schema.obj(
    {'connector': _NO_CONNECTOR}, required=['connector']))}

ATTACH = {BASE: schema.wrapped('os-attach', schema.obj({
    'instance_uuid': {**schema.UUID, 'maxLength': 36},
    'host_name': {'type': 'string', 'minLength': 1, 'maxLength': _LONGEST_TEXT},
    'mountpoint': {'type': 'string', 'minLength': 1, 'maxLength': _LONGEST_TEXT},
    'mode': {'enum': ['rw', 'ro']},
}, required=['mountpoint'], anyOf=[{'required': ['instance_uuid']}, {'required': ['host_name']}]))}

DETACH = {BASE: schema.wrapped('os-detach', schema.nullable(schema.obj(
    {'attachment_id': _NULLABLE_UUID})))}
FORCE_DETACH = {BASE: schema.wrapped('os-force_detach', schema.obj({
    'connector': _NO_CONNECTOR,
    'attachment_id': {'type': ['string', 'null'], 'maxLength': _LONGEST_TEXT},
}))}

_WORD: schema.Schema = {'type': ['string', 'null'], 'maxLength': _LONGEST_TEXT}
RESET_STATUS = {BASE: schema.wrapped('os-reset_status', schema.obj(
    {'status': _WORD, 'attach_status': _WORD, 'migration_status': _WORD}))}

UPDATE_READONLY_FLAG = {BASE: schema.wrapped('os-update_readonly_flag', schema.obj(
    {'readonly': schemas.BOOLEAN}, required=['readonly']))}

CONNECTION = {BASE: schema.wrapped('connection_info', answers.NESTED_CONNECTION)}
NOTHING = {BASE: answers.EMPTY}
