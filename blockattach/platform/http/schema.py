"""JSON schemas: small functions to write them, and a class to show records as they promise.

`blockattach.platform.http.operation` checks values.
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

    :param at: names with dots: extend the object at that property instead (``'attachment'``), or
        each item of a list there
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
    """What makes of a schema one whose object at ``at`` has all these properties, too."""
    return functools.partial(extend, properties=properties, required=properties, at=at)


class View:
    """An object of answers, as a table of its keys: what is promised of each, and how it is read.

    ``'name': promise`` is the attribute of that name; null if only that is promised.
    ``'name': (promise, source)`` is another attribute, or what a function says of the record; with
    the source `GIVEN` it comes with the call.

    :ivar keys: the promises by name
    :ivar whole: the schema of an object that has every one of them, and no other
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
        # All of them in one call: a list has thousands.
        self._read = _reader(tuple(attributes.values()))

    def show(self, record: Any, /, **given: Any) -> dict[str, Any]:
        """The object that shows a record."""
        shown = self._nothing.copy()
        shown.update(zip(self._attributes, self._read(record), strict=True))
        for name, source in self._functions.items():
            shown[name] = source(record)
        for name in self._given:
            shown[name] = given[name]
        return shown


GIVEN = None


def _reader(attributes: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """What reads these of an object. Of fewer than two, attrgetter makes no tuple."""
    if len(attributes) > 1:
        return operator.attrgetter(*attributes)
    readers = [operator.attrgetter(name) for name in attributes]
    return lambda record: tuple([read(record) for read in readers])
