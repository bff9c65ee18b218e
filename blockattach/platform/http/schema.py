"""JSON schemas, and views that convert records to JSON objects that match their schemas.

`blockattach.platform.http.operation` validates values against schemas.
"""
import functools
import operator
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

UUID: Schema = {'type': 'string', 'format': 'uuid'}
NULLABLE_UUID: Schema = {'type': ['string', 'null'], 'format': 'uuid'}


def obj(properties: Schema | None = None, required: Iterable[str] = (), *,
        additional: bool = False, **more: Any) -> dict[str, Any]:
    """Return the schema of a JSON object.

    :param required: names of required properties
    :param additional: True to allow further properties
    :param more: further keywords, such as ``minProperties=1``, ``patternProperties={...}``
    """
    schema: dict[str, Any] = {'type': 'object', 'properties': dict(properties or {}),
                              'additionalProperties': additional, **more}
    if required:
        schema['required'] = list(required)
    return schema


def wrapped(name: str, inner: Schema) -> dict[str, Any]:
    """Return the schema of a JSON object whose only key is ``name``."""
    return obj({name: inner}, required=[name])


def array(items: Schema, **more: Any) -> dict[str, Any]:
    """Return the schema of a list whose items match ``items``."""
    return {'type': 'array', 'items': items, **more}


def nullable(schema: Schema) -> dict[str, Any]:
    """Return a copy of a schema that allows null as well."""
    types = schema['type'] if isinstance(schema['type'], list) else [schema['type']]
    new = {**schema, 'type': [*types, 'null']}
    if 'enum' in schema:
        new['enum'] = [*schema['enum'], None]
    return new


def extend(schema: Schema, properties: Schema | None = None, required: Iterable[str] = (),
           *, at: str | None = None, **more: Any) -> dict[str, Any]:
    """Return an extended copy of a schema. Unchanged parts are shared with the original.

    :param at: dotted path of the property whose schema is extended, such as ``'attachment'``. If
        the property is a list, the schema of its items is extended. None to extend ``schema``
        itself
    :param more: further keywords of the extended schema
    """
    if at is not None:
        name, _, rest = at.partition('.')
        inner = extend(schema['properties'][name], properties, required, at=rest or None, **more)
        return {**schema, 'properties': {**schema['properties'], name: inner}}
    if schema.get('type') == 'array':
        return {**schema, 'items': extend(schema['items'], properties, required, **more)}
    new: dict[str, Any] = {**schema, **more}
    if properties:
        new['properties'] = {**schema.get('properties', {}), **properties}
    if required:
        new['required'] = [*schema.get('required', ()), *required]
    return new


def extending(properties: Schema, at: str) -> Callable[[Schema], Schema]:
    """Return a function that adds required properties to the object at a path of a schema.

    :param at: path as for `extend`
    """
    return functools.partial(extend, properties=properties, required=properties, at=at)


class View:
    """JSON object in responses, declared as a table of keys with their schemas and sources.

    A key ``'name': schema`` shows the attribute of that name, or null if the schema allows only
    null. A key ``'name': (schema, source)`` shows the attribute with the name ``source``, or the
    result of calling ``source`` with the record. If ``source`` is `GIVEN`, the value is an
    argument of `show`.

    :ivar keys: schema of each key
    :ivar whole: schema of a JSON object with exactly these keys
    """

    def __init__(self, keys: Mapping[str, Any]) -> None:
        self.keys: dict[str, Schema] = {}
        attributes: dict[str, str] = {}
        self._functions: dict[str, Callable[[Any], Any]] = {}
        self._given = []
        for name, key in keys.items():
            promise, source = key if isinstance(key, tuple) else (key, name)
            self.keys[name] = promise
            if source is GIVEN:
                self._given.append(name)
            elif callable(source):
                self._functions[name] = source
            elif promise.get('type') != 'null':
                attributes[name] = source
        self.whole = obj(self.keys, required=self.keys)
        self._nothing = dict.fromkeys(self.keys)
        self._attributes = tuple(attributes)
        # A single call reads all attributes, because lists contain thousands of records.
        self._read = _reader(tuple(attributes.values()))

    def show(self, record: Any, /, **given: Any) -> dict[str, Any]:
        """Return the JSON object of a record.

        :param given: values of the keys whose source is `GIVEN`
        """
        shown = self._nothing.copy()
        shown.update(zip(self._attributes, self._read(record), strict=True))
        for name, source in self._functions.items():
            shown[name] = source(record)
        for name in self._given:
            shown[name] = given[name]
        return shown


GIVEN = None
"""Source of a key of a `View` whose value is an argument of `View.show`."""


def _reader(attributes: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that reads attributes of an object as a tuple."""
    if len(attributes) > 1:
        return operator.attrgetter(*attributes)
    # With fewer than two names, attrgetter does not return a tuple.
    readers = [operator.attrgetter(name) for name in attributes]
    return lambda record: tuple([read(record) for read in readers])
