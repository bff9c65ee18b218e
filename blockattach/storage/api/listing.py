"""Query string parameters of lists: page, sort order, scope and filters.

Whether an unknown filter is an error depends on the version and on the caller (see `asked`). A
resource declares its filters as `FilterRules`.
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
"""First version that rejects unknown filters, unless the caller is an administrator."""
LIKE_FILTERS = V(3, 34)
"""First version with filters whose name ends with ``~``, which match substrings."""
COUNTED = V(3, 45)
"""First version with the ``with_count`` parameter."""

BUILT_IN = resource_filters.DEFAULT
"""Default filters of users, by resource. The operator can configure other filters."""

OPERATORS = frozenset(('gt', 'gte', 'eq', 'neq', 'lt', 'lte'))

_PAGING = frozenset(('limit', 'marker', 'offset', 'sort', 'sort_key', 'sort_dir'))
_ALL_TENANTS = 'all_tenants'
_DIRECTIONS = frozenset((paging.ASCENDING, paging.DESCENDING))
_INTEGER = re.compile(r'[+-]?[0-9]{1,18}')
_MOST_OFFSET = 2 ** 31 - 1
# A longer text could exhaust the memory or the stack, see the documentation of `ast.literal_eval`.
_LONGEST_STRUCTURE = 4096
_LITERALS = tuple('\'"[(N')
"""First characters of a filter value that may be a Python literal."""


@dataclasses.dataclass(frozen=True, slots=True)
class FilterRules:
    """Filters that a list accepts.

    :ivar known: names of the filters for all callers
    :ivar more: names of the filters for administrators only
    :ivar since: first version of each filter that is newer than the base version
    :ivar own: names of the query parameters that the handler reads itself
    :ivar like: names of the filters that all callers can use with ``~``
    :ivar unheld: names of the filters that the operator has configured, but that this service does
        not implement. A request with such a filter gets an empty list.
    """

    known: frozenset[str]
    more: frozenset[str] = frozenset()
    since: Mapping[str, V] = dataclasses.field(default_factory=dict)
    own: frozenset[str] = frozenset()
    like: frozenset[str] = frozenset()
    unheld: frozenset[str] = frozenset()

    def allowed_by(self, filters: resource_filters.Filters, resource: str) -> 'FilterRules':
        """Return these rules, with the configured filters as the filters for all callers.

        Filters that are not configured remain available to administrators.

        :param filters: filters that the operator has configured
        :param resource: key of the resource in ``filters``
        """
        named = filters.get(resource, ())
        like = frozenset(name[:-1] for name in named if name.endswith('~'))
        allowed = like | frozenset(name for name in named if not name.endswith('~'))
        served = self.known | self.more
        return dataclasses.replace(self, known=allowed & served, more=served - allowed,
                                   like=like, unheld=allowed - served)


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """Scope and filters of a list request.

    :ivar all_projects: True to list resources of all projects, False for the project of the caller
    :ivar equal: values to match exactly, by filter name
    :ivar like: substrings to match, by filter name without the ``~``
    :ivar nothing: True if no resource can match the filters
    """

    all_projects: bool
    equal: dict[str, str]
    like: dict[str, str]
    nothing: bool = False


def asked(call: operation.Call, rules: FilterRules) -> Asked:
    """Return the filters and the scope of a list request.

    :raises InvalidFilter: if a filter is unknown, the version is `STRICT_FILTERS` or later, and
        the caller is not an administrator
    :raises InvalidInput: if ``all_tenants`` is not a boolean, or if an unknown key is not ASCII
        and the version is `STRICT_FILTERS` or later
    """
    is_admin = bool(call.context.is_admin)
    # Cinder ignores `all_tenants` of other callers. cinderclient sends it for every caller.
    found = Asked(is_admin and flag(call, _ALL_TENANTS), {}, {})
    unknown, nothing = [], False
    # If a name is repeated, only the last value counts, because the dict keeps the last value.
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
    # In Cinder, an administrator's unknown filter matches nothing and is no error.
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
    """Return the page and the sort order of a list request.

    :param sort_keys: allowed sort keys
    :param most: maximum number of items on a page
    :raises InvalidInput: if a parameter is malformed
    """
    return paging.Page(limit=limit(call, most), marker=call.query.get('marker'),
                       offset=_offset(call), sort=_sort(call, sort_keys))


def limit(call: operation.Call, most: int) -> int:
    """Return the maximum number of items on a page.

    :param most: upper limit, and the default if the request has no limit
    :raises InvalidInput: if the limit is not an integer, or is negative
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
    """Return the part of a list response that links to the next page.

    :param name: key of the link in the response
    :param shown: page that the request asks for
    :param items: items on the page
    :returns: an empty dict if the page is empty or not full
    """
    # As in Cinder, a full page has a link even if no page follows.
    if not items or shown.limit is None or len(items) < shown.limit:
        return {}
    return {name: [{'rel': 'next', 'href': call.next_link(items[-1].id)}]}


def flag(call: operation.Call, name: str) -> bool:
    """Return the value of a boolean query parameter. An absent parameter is False.

    :raises InvalidInput: if the value is not a boolean
    """
    text = call.query.get(name)
    if text is None:
        return False
    value = boolean(text)
    if value is None:
        raise errors.InvalidInput(f"Value '{text}' for '{name}' is not a boolean.")
    return value


def boolean(value: str | bool) -> bool | None:
    """Return the boolean that a word means (true, 1, yes, false, 0, no, ...).

    :returns: None if the text means neither true nor false
    """
    try:
        return bool(strutils.bool_from_string(value, strict=True))
    except ValueError:
        return None


def structure(key: str, text: str) -> dict[str, str]:
    """Parse a filter value such as ``{'k': 'v'}``, written as JSON or as a Python literal.

    Numbers and booleans are converted to text as Python prints them.

    :raises InvalidInput: if the text is not a mapping of texts, numbers or booleans
    """
    # Cinder accepts both forms.
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

    A literal is a quoted text, None, a list or a tuple. Any other text is returned unchanged. A
    resource matches a list if the resource matches one of the values.
    """
    # Cinder evaluates the values of filters as Python literals.
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

    :raises ValueError: if the text is not a literal
    """
    try:
        return ast.literal_eval(text)
    except (SyntaxError, TypeError, MemoryError, RecursionError) as error:
        # Python raises TypeError for an unhashable key, and the last two for deep nesting.
        raise ValueError(text) from error


def _text(value: Any) -> str:
    """Return a scalar as text, as Python prints the scalar.

    :raises ValueError: if the value is not a scalar, or if no column can store its text
    """
    # The type is checked first, because str() of a deeply nested value raises RecursionError.
    if not isinstance(value, bool | int | float | str):
        raise ValueError(type(value).__name__)
    text = str(value)
    # Escapes in literals can produce lone surrogates, for which encode() raises a ValueError, and
    # NUL characters.
    text.encode()
    if '\0' in text:
        raise ValueError(text)
    return text


def comparisons(key: str, text: str) -> list[tuple[str, str, datetime.datetime]]:
    """Parse a time filter such as ``gt:2026-01-01T00:00:00,lt:2026-02-01``.

    :param key: name of the filter
    :returns: list of tuples ``(key, operator, time)``. The time is in UTC without a time zone
    :raises InvalidInput: if an operator is unknown, or is not followed by a time
    """
    found = []
    for part in text.split(','):
        operator, _, time = part.strip().partition(':')
        if operator not in OPERATORS:
            raise errors.InvalidInput(f'Invalid {errors.shortened(operator)} operator')
        try:
            value = datetime.datetime.fromisoformat(time.strip())
            # The columns contain UTC without a time zone.
            if value.tzinfo is not None:
                value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        except (ValueError, OverflowError):
            raise errors.InvalidInput(f'Invalid {key} value') from None
        found.append((key, operator, value))
    return found
