"""Schemas and lists of errors that the operations of several resources share.

Response schemas are strict: an object has only the keys in its schema.
"""
from collections.abc import Mapping

from blockattach.platform.http import schema
from blockattach.storage import errors

TEXT: schema.Schema = {'type': 'string'}
NULLABLE_TEXT: schema.Schema = {'type': ['string', 'null']}
BOOLEAN: schema.Schema = {'type': 'boolean'}
INTEGER: schema.Schema = {'type': 'integer'}
NULL: schema.Schema = {'type': 'null'}
# The type is required because fastjsonschema before 2.22 accepts 1 as True.
YES_OR_NO: schema.Schema = {'type': ['boolean', 'string'], 'enum': [
    True, False, 'True', 'TRUE', 'true', '1', 'on', 'On', 'ON', 'yes', 'Yes', 'YES', 'y', 't',
    'False', 'FALSE', 'false', '0', 'off', 'Off', 'OFF', 'no', 'No', 'NO', 'n', 'f']}
"""Schema of a boolean in a request. Clients may send a word instead of a JSON boolean."""
EMPTY: schema.Schema = {'type': 'null'}
"""Schema of a response without a body."""

# Cinder's times are in UTC, with microseconds and without a zone.
_TIME = r'^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$'
TIME: schema.Schema = {'type': 'string', 'pattern': _TIME}
NULLABLE_TIME: schema.Schema = {'type': ['string', 'null'], 'pattern': _TIME}
# Cinder shows an absent time of an attachment as an empty string instead of null.
TIME_OR_EMPTY: schema.Schema = {'anyOf': [TIME, {'enum': ['']}]}

LINKS: schema.Schema = schema.array(
    schema.obj({'rel': {'enum': ['self', 'bookmark']}, 'href': TEXT}, ['rel', 'href']),
    minItems=2, maxItems=2)
NEXT_LINK: schema.Schema = schema.array(
    schema.obj({'rel': {'enum': ['next']}, 'href': TEXT}, ['rel', 'href']),
    minItems=1, maxItems=1)
TEXTS_BY_KEY: schema.Schema = {'type': 'object', 'additionalProperties': TEXT}


def whole(properties: Mapping[str, schema.Schema]) -> schema.Schema:
    """Return the schema of an object that has exactly the given keys."""
    return schema.obj(properties, properties)


_LONGEST_NAME = 255
_NAME: schema.Schema = {'type': ['string', 'null'], 'maxLength': _LONGEST_NAME}

# Hosts may send other keys too. Only keys with their own database columns are checked.
CONNECTOR = schema.obj({'host': _NAME, 'initiator': _NAME, 'mountpoint': _NAME}, additional=True)

_ALWAYS = {
    'target_discovered': BOOLEAN,
    'target_portal': TEXT,
    'target_iqn': TEXT,
    'target_lun': INTEGER,
    'volume_id': schema.UUID,
    'encrypted': BOOLEAN,
    'qos_specs': {'type': ['object', 'null'], 'additionalProperties': {
        'type': ['string', 'integer', 'null']}},
    'access_mode': {'enum': ['rw', 'ro']},
    'cacheable': BOOLEAN,
    'enforce_multipath': BOOLEAN,
}
# The lists are present for several portals, or if the connector asks for multipath.
_SOMETIMES = {
    'target_portals': schema.array(TEXT),
    'target_iqns': schema.array(TEXT),
    'target_luns': schema.array(INTEGER),
    'auth_method': {'enum': ['CHAP']},
    'auth_username': TEXT,
    'auth_password': TEXT,
    'discard': {'enum': [True]},
    'logical_block_size': TEXT,
    'physical_block_size': TEXT,
}
CONNECTION_NAMES = {'driver_volume_type': TEXT, 'attachment_id': schema.UUID}

CONNECTION: schema.Schema = {'anyOf': [
    NULL,
    schema.obj(),
    schema.obj({**_ALWAYS, **_SOMETIMES, **CONNECTION_NAMES},
               required=[*_ALWAYS, *CONNECTION_NAMES]),
]}
"""Schema of the connection information of an attachment.

The value is an empty object before the host is connected. The value is null if os-attach has
created the attachment without a connector.
"""

_NESTED = {
    'driver_volume_type': TEXT,
    'data': schema.obj({**_ALWAYS, **_SOMETIMES}, required=_ALWAYS),
    'enforce_multipath': BOOLEAN,
}
NESTED_CONNECTION: schema.Schema = schema.obj(_NESTED, required=_NESTED)
"""Schema of the connection information in the response to os-initialize_connection."""


BACKEND = (errors.BackendRefused, errors.BackendUncertain, errors.ServiceUnreachable)
"""Errors of operations that call a backend."""
ATTACHING = (*BACKEND, errors.InvalidTransition, errors.AttachmentBusy)
DETACHING = (*ATTACHING, errors.AttachmentInUseByServer, errors.NovaUnavailable)
REPEATED = (errors.IdempotencyKeyReused, errors.IdempotencyKeyTaken)
"""Errors of operations that accept an Idempotency-Key header."""
