"""What every list reads from its query string: page, order, scope and filters.

Whether an unknown filter is an error depends on the version and on the caller; the rule is here
once, and a resource only says which filters it has.
"""
import ast
import dataclasses
import datetime
import re
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import orjson
from oslo_utils import strutils

from blockattach.platform import errors
from blockattach.platform.db import paging
from blockattach.platform.http import operation
from blockattach.platform.http.operation import V
from blockattach.storage.conf import resource_filters

STRICT_FILTERS = V(3, 31)
"""From here on an unknown filter is an error, unless an administrator asks."""
LIKE_FILTERS = V(3, 34)
"""From here on ``key~`` finds what contains the text."""
COUNTED = V(3, 45)
"""From here on ``with_count`` may be asked for."""

BUILT_IN = resource_filters.DEFAULT
"""By what users may filter where the operator has said nothing else, by resource."""

OPERATORS = frozenset(('gt', 'gte', 'eq', 'neq', 'lt', 'lte'))

_PAGING = frozenset(('limit', 'marker', 'offset', 'sort', 'sort_key', 'sort_dir'))
_ALL_TENANTS = 'all_tenants'
_DIRECTIONS = frozenset((paging.ASCENDING, paging.DESCENDING))
_INTEGER = re.compile(r'[+-]?[0-9]{1,18}')
_MOST_OFFSET = 2 ** 31 - 1
_LONGEST_STRUCTURE = 4096
_LITERALS = tuple('\'"[(N')
"""First characters of texts that may be Python literals."""


@dataclasses.dataclass(frozen=True, slots=True)
class FilterRules:
    """Which filters a list has.

    :ivar known: for everybody
    :ivar more: for administrators only
    :ivar since: first versions of filters that came later
    :ivar own: parameters that the handler reads by itself
    :ivar like: those of them that find what contains a value for everybody
    :ivar unheld: for everybody, but nothing has a value for them
    """

    known: frozenset[str]
    more: frozenset[str] = frozenset()
    since: Mapping[str, V] = dataclasses.field(default_factory=dict)
    own: frozenset[str] = frozenset()
    like: frozenset[str] = frozenset()
    unheld: frozenset[str] = frozenset()

    def allowed_by(self, filters: resource_filters.Filters, resource: str) -> 'FilterRules':
        """The same filters, for everybody those that are configured for the resource."""
        named = filters.get(resource, ())
        like = frozenset(name[:-1] for name in named if name.endswith('~'))
        allowed = like | frozenset(name for name in named if not name.endswith('~'))
        served = self.known | self.more
        return dataclasses.replace(self, known=allowed & served, more=served - allowed,
                                   like=like, unheld=allowed - served)


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """What shall be listed.

    :ivar all_projects: not only the caller's; only administrators may ask for it
    :ivar equal: filters and their values
    :ivar like: filters by part of a value, without the ``~``
    :ivar nothing: a filter was named that nothing can match
    """

    all_projects: bool
    equal: dict[str, str]
    like: dict[str, str]
    nothing: bool = False


def asked(call: operation.Call, rules: FilterRules) -> Asked:
    """Read filters and scope.

    :raises InvalidFilter: an unknown one, from `STRICT_FILTERS` on, unless the caller is an
        administrator
    :raises InvalidInput: ``all_tenants`` is not a boolean, or a key is not ASCII from
        `STRICT_FILTERS` on
    """
    is_admin = bool(call.context.is_admin)
    found = Asked(is_admin and flag(call, _ALL_TENANTS), {}, {})
    unknown, nothing = [], False
    for key, value in dict(call.query.items()).items():
        if key in _PAGING or key in rules.own or key == _ALL_TENANTS:
            continue
        name = key.removesuffix('~')
        is_like = name != key
        if is_like and not (call.version >= LIKE_FILTERS and (is_admin or name in rules.like)):
            unknown.append(key)
        elif _usable(name, call.version, rules, is_admin):
            (found.like if is_like else found.equal)[name] = value
        elif name in rules.unheld:
            nothing = True
        else:
            unknown.append(key)
    if call.version >= STRICT_FILTERS and not all(key.isascii() for key in unknown):
        raise errors.InvalidInput('Filter keys can only contain ASCII characters.')
    if nothing or (unknown and is_admin):
        found = dataclasses.replace(found, nothing=True)
    if unknown and not is_admin and call.version >= STRICT_FILTERS:
        raise errors.InvalidFilter(filters=','.join(unknown))
    return found


def _usable(name: str, version: V, rules: FilterRules, is_admin: bool) -> bool:
    if version < rules.since.get(name, operation.BASE):
        return False
    return name in rules.known or (is_admin and name in rules.more)


def page(call: operation.Call, sort_keys: Collection[str], most: int) -> paging.Page:
    """Read which part of the list is wanted, and in which order.

    :param sort_keys: what may be sorted by
    :param most: the most items that one page has
    :raises InvalidInput: a parameter is malformed
    """
    return paging.Page(limit=limit(call, most), marker=call.query.get('marker'),
                       offset=_offset(call), sort=_sort(call, sort_keys))


def limit(call: operation.Call, most: int) -> int:
    """How many items a page may have.

    :param most: where the call does not say, and at most
    :raises InvalidInput: it is no number, or below zero
    """
    text = call.query.get('limit')
    if text is None:
        return most
    if not _INTEGER.fullmatch(text):
        raise errors.InvalidInput('limit param must be an integer')
    if int(text) < 0:
        raise errors.InvalidInput('limit param must be positive')
    return min(int(text), most)


def _offset(call: operation.Call) -> int:
    text = call.query.get('offset', '0') or ''
    if not _INTEGER.fullmatch(text):
        raise errors.InvalidInput('offset must be an integer')
    if not 0 <= int(text) <= _MOST_OFFSET:
        raise errors.InvalidInput(f'offset must be >= 0 and <= {_MOST_OFFSET}')
    return int(text)


def _sort(call: operation.Call, keys: Collection[str]) -> tuple[tuple[str, str], ...]:
    query = call.query
    text = query.get('sort')
    if text is None:
        pairs = [(query.get('sort_key', 'created_at'), query.get('sort_dir'))]
    elif 'sort_key' in query or 'sort_dir' in query:
        raise errors.InvalidInput(
            "The 'sort_key' and 'sort_dir' parameters are deprecated and cannot be used with the "
            "'sort' parameter.")
    else:
        pairs = [part.partition(':')[::2] for part in text.split(',')]
    order: dict[str, str] = {}
    for key, direction in pairs:
        name = (key or '').strip()
        way = (direction or paging.DESCENDING).strip().lower()
        if name not in keys:
            raise errors.InvalidInput(f'Invalid input received: Invalid sort key: '
                                      f'{errors.shortened(name)}')
        if way not in _DIRECTIONS:
            raise errors.InvalidInput('Invalid input received: Unknown sort direction, must be '
                                      "'desc' or 'asc'.")
        order.setdefault(name, way)
    return tuple(order.items())


def links(call: operation.Call, name: str, shown: paging.Page,
          items: Sequence[Any]) -> dict[str, list[dict[str, str]]]:
    """The link to the page after this one, under ``name``, if this page is full."""
    if not items or shown.limit is None or len(items) < shown.limit:
        return {}
    return {name: [{'rel': 'next', 'href': call.next_link(items[-1].id)}]}


def flag(call: operation.Call, name: str) -> bool:
    """A parameter that is true or false; false if it is absent.

    :raises InvalidInput: it is neither
    """
    text = call.query.get(name)
    if text is None:
        return False
    value = boolean(text)
    if value is None:
        raise errors.InvalidInput(f"Value '{text}' for '{name}' is not a boolean.")
    return value


def boolean(value: str | bool) -> bool | None:
    """The truth value that a text stands for (true, 1, t, yes, on, ...); None for any other."""
    try:
        return bool(strutils.bool_from_string(value, strict=True))
    except ValueError:
        return None


def structure(key: str, text: str) -> dict[str, str]:
    """Parse a filter value such as ``{'k': 'v'}``, written as JSON or as a Python literal.

    Numbers and booleans are converted to text as Python prints them.

    :raises InvalidInput: the text is not a mapping of such values
    """
    readers: tuple[Callable[[str], Any], ...] = (orjson.loads, _python)
    for read in readers:
        try:
            value = read(text) if len(text) <= _LONGEST_STRUCTURE else None
            if isinstance(value, dict):
                return {_text(name): _text(part) for name, part in value.items()}
        except ValueError:
            continue
    raise errors.InvalidInput(
        f"Invalid input received: '{key} = {errors.shortened(text)}' is not a mapping.")


def literal(text: str) -> str | list[str] | None:
    """Parse a filter value that may be a Python literal.

    A literal is a quoted text, None, or a list of values of which one must match. Any other text
    is returned unchanged.
    """
    if not text.startswith(_LITERALS) or len(text) > _LONGEST_STRUCTURE:
        return text
    try:
        value = _python(text)
        if value is None:
            return None
        return [_text(part) for part in value] if isinstance(value, list | tuple) else _text(value)
    except ValueError:
        return text


def _python(text: str) -> Any:
    """Parse a Python literal.

    :raises ValueError: the text is not a literal
    """
    try:
        return ast.literal_eval(text)
    except (SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise ValueError(text) from error


def _text(value: Any) -> str:
    """Return the text of a scalar, as Python prints it.

    :raises ValueError: the value is not a scalar, or has NUL characters or lone surrogates, which
        escapes can produce and no column stores
    """
    # Checked first: str() of a deeply nested value raises RecursionError.
    if not isinstance(value, bool | int | float | str):
        raise ValueError(type(value).__name__)
    text = str(value)
    text.encode()
    if '\0' in text:
        raise ValueError(text)
    return text


def comparisons(key: str, text: str) -> list[tuple[str, str, datetime.datetime]]:
    """A filter like ``gt:2026-01-01T00:00:00,lt:2026-02-01``: key, operator, time in UTC.

    :raises InvalidInput: an unknown operator, or no time behind it
    """
    found = []
    for part in text.split(','):
        operator, _, time = part.strip().partition(':')
        if operator not in OPERATORS:
            raise errors.InvalidInput(f'Invalid {errors.shortened(operator)} operator')
        try:
            value = datetime.datetime.fromisoformat(time.strip())
            if value.tzinfo is not None:
                value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        except (ValueError, OverflowError):
            raise errors.InvalidInput(f'Invalid {key} value') from None
        found.append((key, operator, value))
    return found
