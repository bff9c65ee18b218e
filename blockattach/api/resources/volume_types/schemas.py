"""Bodies of requests and answers on volume types."""
from blockattach.api import answers
from blockattach.domain import volume_type
from blockattach.http import schema

_KEY = '^[a-zA-Z0-9_:.-]{1,255}$'
_VALUE: schema.Schema = {'type': 'string', 'maxLength': 255}
_EXTRA_SPECS = schema.obj(patternProperties={_KEY: _VALUE})

_BOOLEAN: schema.Schema = {'enum': [True, False, 'True', 'TRUE', 'true', '1', 'ON', 'On', 'on',
                                    'YES', 'Yes', 'yes', 'y', 't', 'False', 'FALSE', 'false',
                                    '0', 'OFF', 'Off', 'off', 'NO', 'No', 'no', 'n', 'f']}
_DESCRIPTION: schema.Schema = {'type': ['string', 'null'], 'maxLength': 255}

CREATE = schema.wrapped('volume_type', schema.obj({
    'name': {'type': 'string', 'minLength': 1, 'maxLength': 255, 'pattern': r'\S'},
    'description': _DESCRIPTION,
    'extra_specs': schema.nullable(_EXTRA_SPECS),
    'os-volume-type-access:is_public': _BOOLEAN,
}, required=['name']))

UPDATE = schema.wrapped('volume_type', schema.obj({
    'name': {'type': ['string', 'null'], 'maxLength': 255},
    'description': _DESCRIPTION,
    'is_public': _BOOLEAN,
}))

SPECS = schema.wrapped('extra_specs', {**_EXTRA_SPECS, 'minProperties': 1})
SPEC = {**_EXTRA_SPECS, 'minProperties': 1, 'maxProperties': 1}

_CHANGED = schema.extend(answers.whole({
    'id': schema.UUID,
    'name': answers.TEXT,
    'description': answers.NULLABLE_TEXT,
    'is_public': answers.BOOLEAN,
}), {'extra_specs': answers.TEXTS_BY_KEY})
_ACCESS = {'os-volume-type-access:is_public': answers.BOOLEAN}
_TYPE = schema.extend(_CHANGED, {**_ACCESS, 'qos_specs_id': schema.NULLABLE_UUID})

TYPES = schema.obj({
    'volume_types': schema.array(_TYPE),
    'volume_type_links': answers.NEXT_LINK,
}, required=['volume_types'])
SHOWN = schema.wrapped('volume_type', _TYPE)
# Tempest's schemas of these two have fewer keys, and allow no others.
CREATED = schema.wrapped('volume_type', schema.extend(_CHANGED, _ACCESS, required=_ACCESS))
UPDATED = schema.wrapped('volume_type', _CHANGED)

_CONTROL_LOCATION: schema.Schema = {'enum': list(volume_type.CONTROL_LOCATIONS)}
_LARGEST_KEY_SIZE = 2 ** 31 - 1

_ENCRYPTION = schema.obj({
    'provider': {'type': 'string', 'maxLength': 255, 'pattern': r'\S'},
    'control_location': _CONTROL_LOCATION,
    'cipher': {'type': ['string', 'null'], 'maxLength': 255},
    'key_size': {'type': ['integer', 'string', 'null'], 'minimum': 0,
                 'maximum': _LARGEST_KEY_SIZE, 'pattern': '^[0-9]{1,9}$'},
})
ENCRYPTION_UPDATE = schema.wrapped('encryption', _ENCRYPTION)
ENCRYPTION_CREATE = schema.extend(ENCRYPTION_UPDATE, at='encryption',
                                  required=['provider', 'control_location'])

_ENCRYPTION_UPDATED = schema.obj({
    'provider': answers.TEXT,
    'control_location': _CONTROL_LOCATION,
    'cipher': answers.NULLABLE_TEXT,
    'key_size': {'type': ['integer', 'null']},
})
ENCRYPTION_UPDATED = schema.wrapped('encryption', _ENCRYPTION_UPDATED)
_ENCRYPTION_CREATED = answers.whole({
    **_ENCRYPTION_UPDATED['properties'],
    'encryption_id': schema.UUID,
    'volume_type_id': schema.UUID,
})
ENCRYPTION_CREATED = schema.wrapped('encryption', _ENCRYPTION_CREATED)
_ENCRYPTION_SHOWN = answers.whole({
    **_ENCRYPTION_CREATED['properties'],
    'created_at': answers.TIME,
    'updated_at': answers.NULLABLE_TIME,
    'deleted': {'enum': [False]},
    'deleted_at': answers.NULL,
})
# Not wrapped, and empty where volumes of the type are plain.
ENCRYPTION_SHOWN = {'anyOf': [schema.obj(), _ENCRYPTION_SHOWN]}
ENCRYPTION_FACT = schema.obj(_ENCRYPTION_SHOWN['properties'], minProperties=1, maxProperties=1)

NOTHING = answers.EMPTY
SPECS_SHOWN = schema.wrapped('extra_specs', answers.TEXTS_BY_KEY)
SPEC_SHOWN = {**answers.TEXTS_BY_KEY, 'minProperties': 1, 'maxProperties': 1}
