"""Rows of a contract: the requests of a consumer and the parts of the responses that it reads.

``{volume}`` in ``asks``, ``body`` and ``reads`` stands for the string that an earlier row has kept
under that name. ``reads`` is a pattern of a JSON value, or of the message of a fault:

- A dict matches an object that has each of its keys with a matching value. ``ABSENT`` as the
    value matches if the object does not have the key.
- A list matches an array of the same length whose elements match.
- ``Each`` matches an array of one or more elements that all match.
- ``Values`` matches an object whose values all match.
- A type matches its values. A regular expression matches a whole string.
- ``Text`` matches a string that contains its parts.
- ``OneOf`` matches if one of its patterns does.
- ``Keep`` matches a string, and keeps it under a name for later rows.
- Any other value matches itself.
"""
import re
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple
from typing import Self

ABSENT = object()
ID = re.compile(r'[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}')
TIME = re.compile(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?')
"""Time without a zone, because consumers in Go parse exactly this layout."""
_NAME = re.compile(r'\{(\w+)\}')


class Keep(NamedTuple):
    """Pattern of a string that is kept under a name."""

    name: str


class OneOf(NamedTuple):
    """Pattern of a value that matches one of several patterns."""

    patterns: tuple[Any, ...]


class Each(NamedTuple):
    """Pattern of an array of one or more elements that match."""

    pattern: Any


class Values(NamedTuple):
    """Pattern of an object whose values match."""

    pattern: Any


class Text(NamedTuple):
    """Pattern of a string that contains the parts."""

    parts: tuple[str, ...]


class Persona(NamedTuple):
    """Caller of a request.

    :ivar project: name of a project of `Player.names`
    """

    roles: str
    project: str


MEMBER = Persona('member,reader', 'project')
ADMIN = Persona('admin,member,reader', 'project')
CLOUD_ADMIN = Persona('admin,member,reader', 'admin_project')
SERVICE = Persona('admin,service', 'service_project')


class Use(NamedTuple):
    """Method of the real client that sends a row and the rows after it.

    :ivar method: dotted name of a method of the client, or the arguments of a shell
    :ivar sends: number of rows that the method sends
    """

    method: str
    arguments: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = {}
    sends: int = 1


def use(method: str, *arguments: Any, **keywords: Any) -> Use:
    """Return a use of a client's method that sends one request."""
    return Use(method, arguments, keywords)


class Call(NamedTuple):
    """Row of a contract.

    :ivar by: function of the consumer, or empty for a request that is no part of the contract
    :ivar asks: method, and path with query. The path begins with the noun, except ``/`` and
        ``/v3/``
    :ivar answered: status of the response
    :ivar version: microversion of the header, or None for a request without the header
    :ivar raises: error that the consumer makes of a failure
    """

    by: str
    asks: str
    answered: int
    version: str | None = None
    body: Any = None
    reads: Any = None
    uses: Use | None = None
    raises: str = ''
    who: Persona = MEMBER

    def silent(self) -> Self:
        """Return the row as a request of another consumer, which is no part of the contract."""
        return self._replace(by='', uses=None)


def beside(asks: str, answered: int, body: Any = None, reads: Any = None) -> Call:
    """Return a request of an administrator that is no part of the contract."""
    return Call('', asks, answered, '3.71', body, reads, who=ADMIN)


class Flow(NamedTuple):
    """Rows in the order of a consumer, in a project of their own."""

    name: str
    calls: tuple[Call, ...]


class Consumer(NamedTuple):
    """Contract of a consumer.

    :ivar source: code from which the rows were derived
    :ivar client: installed client that sends the rows, or empty if there is none
    :ivar with_project: True if the endpoint ends in the project id
    :ivar version_headers: headers that name the microversion
    """

    name: str
    source: str
    flows: tuple[Flow, ...]
    client: str = ''
    with_project: bool = False
    service_token: bool = False
    headers: Mapping[str, str] = {}
    version_headers: tuple[str, ...] = ('OpenStack-API-Version: volume {version}',)


def filled(value: Any, names: Mapping[str, str]) -> Any:
    """Return a part of a row with each ``{name}`` replaced by the string kept under the name."""
    if isinstance(value, str):
        return _NAME.sub(lambda found: names[found[1]], value)
    if isinstance(value, dict):
        return {filled(key, names): filled(inner, names) for key, inner in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, '_fields'):
        return type(value)(filled(inner, names) for inner in value)
    return value


def misfits(pattern: Any, value: Any, names: dict[str, str], at: str = '') -> Iterator[str]:
    """Yield each place where a value does not match its pattern.

    :param names: kept strings, to which `Keep` adds
    """
    match pattern:
        case Keep(name=name):
            names[name] = value
            yield from misfits(str, value, names, at)
        case OneOf(patterns=patterns):
            if all(any(misfits(one, value, names, at)) for one in patterns):
                yield f'{at}: {value!r} is none of {patterns}'
        case Each(pattern=inner):
            yield from misfits([inner] * max(1, len(value)), value, names, at)
        case Values(pattern=inner):
            yield from misfits(dict.fromkeys(value, inner), value, names, at)
        case Text(parts=parts):
            yield from (f'{at}: no {part!r} in {value!r}' for part in filled(parts, names)
                        if part not in value)
        case dict():
            yield from _misfits_of_keys(pattern, value, names, at)
        case list():
            if not isinstance(value, list) or len(pattern) != len(value):
                yield f'{at}: {value!r} are not {len(pattern)}'
            else:
                for index, inner in enumerate(pattern):
                    yield from misfits(inner, value[index], names, f'{at}[{index}]')
        case type():
            # bool is a subclass of int, so isinstance would accept True as a number.
            if type(value) is not pattern:
                yield f'{at}: {value!r} is no {pattern.__name__}'
        case re.Pattern():
            if not isinstance(value, str) or not pattern.fullmatch(value):
                yield f'{at}: {value!r} is not like {pattern.pattern}'
        case _:
            wanted = filled(pattern, names)
            if type(value) is not type(wanted) or value != wanted:
                yield f'{at}: {value!r} is not {wanted!r}'


def _misfits_of_keys(pattern: dict[str, Any], value: Any, names: dict[str, str],
                     at: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f'{at}: {value!r} is no object'
        return
    for named, inner in pattern.items():
        key = filled(named, names)
        if inner is ABSENT:
            if key in value:
                yield f'{at}.{key}: is there'
        elif key not in value:
            yield f'{at}.{key}: is missing'
        else:
            yield from misfits(inner, value[key], names, f'{at}.{key}')
