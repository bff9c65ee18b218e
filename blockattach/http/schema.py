"""JSON schemas: small functions to write them. `blockattach.http.operation` checks values."""
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

UUID: Schema = {'type': 'string', 'format': 'uuid'}
NULLABLE_UUID: Schema = {'type': ['string', 'null'], 'format': 'uuid'}


def obj(properties: Schema | None = None, required: Iterable[str] = (), *,
        additional: bool = False, **more: Any) -> dict[str, Any]:
    """An object with these properties and, unless ``additional``, no others.

    :param more: further keywords: ``minProperties=1``, ``patternProperties={...}``
    """
    schema: dict[str, Any] = {'type': 'object', 'properties': dict(properties or {}),
                              'additionalProperties': additional, **more}
    if required:
        schema['required'] = list(required)
    return schema


def wrapped(name: str, inner: Schema) -> dict[str, Any]:
    """A body whose only key is ``name``."""
    return obj({name: inner}, required=[name])


def array(items: Schema, **more: Any) -> dict[str, Any]:
    """A list of such items."""
    return {'type': 'array', 'items': items, **more}


def nullable(schema: Schema) -> dict[str, Any]:
    """A schema that allows null as well."""
    types = schema['type'] if isinstance(schema['type'], list) else [schema['type']]
    new = {**schema, 'type': [*types, 'null']}
    if 'enum' in schema:
        new['enum'] = [*schema['enum'], None]
    return new


def extend(schema: Schema, properties: Schema | None = None, required: Iterable[str] = (),
           *, at: str | None = None, **more: Any) -> dict[str, Any]:
    """A new schema with more properties, and keywords set anew; what did not change is shared.

    :param at: names with dots: extend the object at that property instead (``'attachment'``)
    """
    if at is not None:
        name, _, rest = at.partition('.')
        inner = extend(schema['properties'][name], properties, required, at=rest or None, **more)
        return {**schema, 'properties': {**schema['properties'], name: inner}}
    new: dict[str, Any] = {**schema, **more}
    if properties:
        new['properties'] = {**schema.get('properties', {}), **properties}
    if required:
        new['required'] = [*schema.get('required', ()), *required]
    return new


def extend_items(schema: Schema, name: str, properties: Schema) -> dict[str, Any]:
    """A new schema in which each item of the list ``name`` has these properties too."""
    listed = schema['properties'][name]
    new = {**listed, 'items': extend(listed['items'], properties, properties)}
    return {**schema, 'properties': {**schema['properties'], name: new}}
