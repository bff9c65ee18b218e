"""What a consumer asks of the API and what it reads of the answers, as rows of a table.

A row's ``asks``, ``body`` and ``reads`` may name what was kept before: ``{volume}``. ``reads`` is
a pattern, of JSON or of a text:

- a dict: each of its keys is there, and its value fits; ``ABSENT`` says that a key is not there;
- a list: as many elements, each of which fits; ``Each``: one or more, each of which fits;
- ``Values``: an object, each of whose values fits;
- a type, or a regular expression for the whole of a string; ``Text``: what a string contains;
- ``OneOf``: one of several patterns;
- ``Keep``: a string, which further rows name;
- anything else: exactly this.
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
"""Without a zone: consumers in Go parse it by exactly this layout."""
_NAME = re.compile(r'\{(\w+)\}')


class Keep(NamedTuple):
    """A string to be kept under a name."""

    name: str


class OneOf(NamedTuple):
    """One of these fits."""

    patterns: tuple[Any, ...]


class Each(NamedTuple):
    """A list whose elements fit, one or more."""

    pattern: Any


class Values(NamedTuple):
    """An object whose values fit."""

    pattern: Any


class Text(NamedTuple):
    """A string that contains these."""

    parts: tuple[str, ...]


class Persona(NamedTuple):
    """In whose name a consumer asks; ``project``: one of the names that there are from the
    beginning.
    """

    roles: str
    project: str


MEMBER = Persona('member,reader', 'project')
ADMIN = Persona('admin,member,reader', 'project')
CLOUD_ADMIN = Persona('admin,member,reader', 'admin_project')
SERVICE = Persona('admin,service', 'service_project')


class Use(NamedTuple):
    """What makes the real client send a row, and those behind it.

    :ivar method: the dotted name of a method of the client; of a shell, its arguments
    :ivar sends: how many rows
    """

    method: str
    arguments: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = {}
    sends: int = 1


def use(method: str, *arguments: Any, **keywords: Any) -> Use:
    """One request of a client's method."""
    return Use(method, arguments, keywords)


class Call(NamedTuple):
    """One row.

    :ivar by: the consumer's function; empty: what others do meanwhile, no part of the contract
    :ivar asks: method, and path with query from the noun on; ``/`` and ``/v3/`` stand for
        themselves
    :ivar answered: the status
    :ivar version: the microversion that the header names; None: there is no header
    :ivar raises: what the consumer makes of a failure
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
        """The same, asked by another consumer meanwhile."""
        return self._replace(by='', uses=None)


def beside(asks: str, answered: int, body: Any = None, reads: Any = None) -> Call:
    """What an administrator of the project does besides."""
    return Call('', asks, answered, '3.71', body, reads, who=ADMIN)


class Flow(NamedTuple):
    """Calls in the order of a consumer, in a project of their own."""

    name: str
    calls: tuple[Call, ...]


class Consumer(NamedTuple):
    """One table.

    :ivar source: what was read to write it
    :ivar client: what sends it, of the clients that are installed; empty: none of them
    :ivar with_project: the address ends in the project's id
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
    """A row's part, with what was kept in the place of its name."""
    if isinstance(value, str):
        return _NAME.sub(lambda found: names[found[1]], value)
    if isinstance(value, dict):
        return {filled(key, names): filled(inner, names) for key, inner in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, '_fields'):
        return type(value)(filled(inner, names) for inner in value)
    return value


def misfits(pattern: Any, value: Any, names: dict[str, str], at: str = '') -> Iterator[str]:
    """Where a value does not fit; what is to be kept is added to ``names``."""
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
            # A number is no truth value.
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
