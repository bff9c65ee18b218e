"""Bounds of the fields of a JSON schema: types, lengths, values and accepted names."""
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

ANY = ['array', 'boolean', 'integer', 'null', 'number', 'object', 'string']
_LIMITS = ('minLength', 'maxLength', 'minimum', 'maximum', 'minItems', 'maxItems',
           'minProperties', 'maxProperties')
_LIMITED = {'minLength': 'string', 'maxLength': 'string', 'minimum': 'integer',
            'maximum': 'integer', 'minItems': 'array', 'maxItems': 'array'}
_NONE = (('minLength', 0), ('minProperties', 0), ('minItems', 0))
"""Limits without effect."""
_BY_VALUE = {bool: 'boolean', str: 'string', int: 'integer', type(None): 'null'}


def of(schema: Schema, name: str = '') -> dict[str, dict[str, Any]]:
    """Return the bounds of each field by name, such as ``volume.name`` or ``volume.metadata.*``.

    ``[]`` stands for the items of a list, ``*`` for properties with any name or a pattern.
    """
    return dict(_fields(schema, name))


def _fields(schema: Schema, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    schema = _merged(schema)
    found: dict[str, Any] = {'types': _types(schema)}
    found |= {key: schema[key] for key in _LIMITS if key in schema
              and _matters(key, found['types']) and (key, schema[key]) not in _NONE}
    if 'enum' in schema or schema.get('format') == 'uuid':
        # Lengths of enumerated values and ids are implied.
        found.pop('minLength', None)
        found.pop('maxLength', None)
    if 'object' in found['types']:
        found['required'] = sorted(schema.get('required', ()))
        found['others'] = _others(schema)
    yield name, found
    prefix = f'{name}.' if name else ''
    for key, inner in schema.get('properties', {}).items():
        # Some schemas contain a keyword among the properties by mistake.
        if isinstance(inner, Mapping):
            yield from _fields(inner, prefix + key)
    patterns = list(schema.get('patternProperties', {}).values())
    if isinstance(schema.get('additionalProperties'), Mapping):
        patterns.append(schema['additionalProperties'])
    if patterns:
        yield from _fields({'anyOf': patterns}, f'{prefix}*')
    if isinstance(schema.get('items'), Mapping):
        yield from _fields(schema['items'], f'{name}[]')


def _merged(schema: Schema) -> Schema:
    """Merge alternative schemas into one schema that accepts all they accept."""
    for word in ('oneOf', 'anyOf'):
        ways = [_merged(one) for one in schema.get(word, ()) if isinstance(one, Mapping)]
        # Alternatives that only differ in required properties do not affect fields.
        ways = [one for one in ways if set(one) - {'required'}]
        if not ways:
            continue
        widest: dict[str, Any] = {key: value for key, value in schema.items() if key != word}
        widest['type'] = sorted({kind for one in ways for kind in _types(one)})
        for key in {key for one in ways for key in one} - {'type'}:
            values = [one[key] for one in ways if key in one]
            widest.setdefault(key, min(values) if key.startswith('min')
                              else max(values) if key.startswith('max') else values[-1])
        schema = widest
    return schema


def _types(schema: Schema) -> list[str]:
    kind = schema.get('type')
    if isinstance(kind, str):
        return [kind]
    if kind is not None:
        return sorted(set(kind))
    if 'enum' in schema:
        return sorted({_BY_VALUE[type(value)] for value in schema['enum']})
    return ['object'] if 'properties' in schema else ANY


def _matters(limit: str, types: list[str]) -> bool:
    """Return True if a limit applies to values of these types."""
    kind = _LIMITED.get(limit, 'object')
    return kind in types or (kind == 'integer' and 'number' in types)


def _others(schema: Schema) -> str:
    """Return the handling of additional properties: accepted, rejected, or partly accepted."""
    more = schema.get('additionalProperties', True)
    return 'taken' if more is True else 'refused' if more is False and not schema.get(
        'patternProperties') else 'some'
