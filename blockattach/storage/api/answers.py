"""Pieces that requests and answers of several resources are made of: schemas, and what may go
wrong.

Answers are strict: no key that is not named.
"""
from collections.abc import Mapping

from blockattach.platform.http import schema
from blockattach.storage import errors

TEXT: schema.Schema = {'type': 'string'}
NULLABLE_TEXT: schema.Schema = {'type': ['string', 'null']}
BOOLEAN: schema.Schema = {'type': 'boolean'}
INTEGER: schema.Schema = {'type': 'integer'}
NULL: schema.Schema = {'type': 'null'}
# The type is named because fastjsonschema before 2.22 takes 1 for True.
YES_OR_NO: schema.Schema = {'type': ['boolean', 'string'], 'enum': [
    True, False, 'True', 'TRUE', 'true', '1', 'on', 'On', 'ON', 'yes', 'Yes', 'YES', 'y', 't',
    'False', 'FALSE', 'false', '0', 'off', 'Off', 'OFF', 'no', 'No', 'NO', 'n', 'f']}
"""The words for yes and no that clients use in requests."""
EMPTY: schema.Schema = {'type': 'null'}
"""The answer has no body."""

_TIME = r'^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$'
TIME: schema.Schema = {'type': 'string', 'pattern': _TIME}
NULLABLE_TIME: schema.Schema = {'type': ['string', 'null'], 'pattern': _TIME}
TIME_OR_EMPTY: schema.Schema = {'anyOf': [TIME, {'enum': ['']}]}

LINKS: schema.Schema = schema.array(
    schema.obj({'rel': {'enum': ['self', 'bookmark']}, 'href': TEXT}, ['rel', 'href']),
    minItems=2, maxItems=2)
NEXT_LINK: schema.Schema = schema.array(
    schema.obj({'rel': {'enum': ['next']}, 'href': TEXT}, ['rel', 'href']),
    minItems=1, maxItems=1)
TEXTS_BY_KEY: schema.Schema = {'type': 'object', 'additionalProperties': TEXT}


def whole(properties: Mapping[str, schema.Schema]) -> schema.Schema:
    """An object that has every one of these keys, and no other."""
    return schema.obj(properties, properties)


_LONGEST_NAME = 255
_NAME: schema.Schema = {'type': ['string', 'null'], 'maxLength': _LONGEST_NAME}

# What a host says of itself is its own business; only what we store by itself has a form.
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
"""Empty before there is a connector; null where os-attach named a consumer without one."""

_NESTED = {
    'driver_volume_type': TEXT,
    'data': schema.obj({**_ALWAYS, **_SOMETIMES}, required=_ALWAYS),
    'enforce_multipath': BOOLEAN,
}
NESTED_CONNECTION: schema.Schema = schema.obj(_NESTED, required=_NESTED)
"""The form that clients knew before there were attachments."""


BACKEND = (errors.BackendRefused, errors.BackendUncertain, errors.ServiceUnreachable)
"""What may go wrong where a backend is asked."""
ATTACHING = (*BACKEND, errors.InvalidTransition, errors.AttachmentBusy)
DETACHING = (*ATTACHING, errors.AttachmentInUseByServer, errors.NovaUnavailable)
REPEATED = (errors.IdempotencyKeyReused, errors.IdempotencyKeyTaken)
"""What may go wrong where a request has a name (Idempotency-Key)."""
