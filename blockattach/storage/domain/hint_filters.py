"""Filters for the scheduler hints of clients (``OS-SCH-HNT:scheduler_hints``).

The hints are those of Cinder's filters: DifferentBackendFilter, SameBackendFilter,
InstanceLocalityFilter and JsonFilter.

The hint ``query`` has the grammar of JsonFilter. A query is a list of an operator of `OPERATORS`
and its operands. An operand is a value or a nested query. A text that begins with ``$`` names a
value in the report of the pool, such as ``$free_capacity_gb`` or ``$capabilities.some.thing``.

A hint is applied only if its filter is enabled. A malformed hint rejects every pool, because a
misplaced volume is worse than none.
"""
import functools
import json
import operator
import uuid
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from blockattach.storage.domain import placement
from blockattach.storage.domain import pools

SAME = 'same_host'
DIFFERENT = 'different_host'
LOCAL = 'local_to_instance'
QUERY = 'query'

# Clients choose the depth of a query, and `_answer` recurses for each level.
_MOST_NESTED = 20


def volume_ids(hints: Mapping[str, Any], name: str) -> list[str] | None:
    """Return the volume ids in a hint, which is an id or a list of ids.

    :param name: name of the hint
    :returns: canonical UUIDs; empty if the hint is absent; None if any value is not a UUID
    """
    given = hints.get(name, [])
    found = [_id(one) for one in (given if isinstance(given, list) else [given])]
    return None if None in found else [one for one in found if one is not None]


def server_id(hints: Mapping[str, Any]) -> str | None:
    """Return the server id in the ``local_to_instance`` hint.

    :returns: canonical UUID; None if the hint is absent or its value is not a UUID
    """
    return _id(hints.get(LOCAL))


def same_backend(request: pools.VolumeRequest, pool: pools.Pool) -> str | None:
    """Reject a pool that has none of the volumes in the ``same_host`` hint."""
    named = volume_ids(request.facts.hints, SAME)
    if named is None:
        return placement.Reason(f'scheduler hint {SAME} contains an invalid volume ID')
    if not named or _there(request, named, pool):
        return None
    return placement.Reason(f'does not contain a volume of scheduler hint {SAME}')


def different_backend(request: pools.VolumeRequest, pool: pools.Pool) -> str | None:
    """Reject a pool that has one of the volumes in the ``different_host`` hint."""
    named = volume_ids(request.facts.hints, DIFFERENT)
    if named is None:
        return placement.Reason(f'scheduler hint {DIFFERENT} contains an invalid volume ID')
    there = _there(request, named, pool)
    if there is None:
        return None
    return placement.Reason(f'contains volume {there} of scheduler hint {DIFFERENT}')


def instance_locality(request: pools.VolumeRequest, pool: pools.Pool) -> str | None:
    """Reject a pool that is not on the host of the server in the ``local_to_instance`` hint.

    Every pool is rejected if the host of the server is unknown.
    """
    if not request.facts.hints.get(LOCAL):
        return None
    if server_id(request.facts.hints) is None:
        return placement.Reason(f'scheduler hint {LOCAL} contains an invalid server ID')
    host = request.facts.server_host
    if host is None:
        unknown = f'the host of the server in scheduler hint {LOCAL} is unknown'
        return placement.Reason(request.facts.server_lost or unknown, unknown)
    if host == pool.name.partition('@')[0]:
        return None
    return placement.Reason(f'not on the host of the server in scheduler hint {LOCAL}')


def json_query(request: pools.VolumeRequest, pool: pools.Pool) -> str | None:
    """Reject a pool that does not match the ``query`` hint.

    An invalid query rejects every pool.
    """
    try:
        if matches(request.facts.hints.get(QUERY), pool):
            return None
    except QueryError as error:
        return placement.Reason(f'scheduler hint {QUERY} is invalid: {error}')
    return placement.Reason(f'scheduler hint {QUERY} does not match')


FILTERS: Mapping[str, placement.Filter] = {
    'different_backend': different_backend,
    'same_backend': same_backend,
    'instance_locality': instance_locality,
    'json': json_query,
}
"""Filters by name. A filter applies only if ``[scheduler] scheduler_default_filters`` names it."""


def _there(request: pools.VolumeRequest, named: list[str], pool: pools.Pool) -> str | None:
    """Return the id of the first named volume that is on the pool, or None."""
    placed = request.facts.placed
    return next((one for one in named if placed.get(one) == pool.name), None)


def _id(value: Any) -> str | None:
    """Return a UUID in canonical form, or None if the value is not a UUID."""
    try:
        return str(uuid.UUID(value)) if isinstance(value, str) else None
    except ValueError:
        return None


class QueryError(ValueError):
    """Query that cannot be parsed, or cannot be evaluated for a pool."""


def matches(query: Any, pool: pools.Pool) -> bool:
    """Return True if a pool matches a query. An empty query matches every pool.

    :param query: query as JSON text or parsed
    :raises QueryError: if the query is invalid or compares values that cannot be compared
    """
    if isinstance(query, str) and query:
        try:
            query = json.loads(query)
        except (ValueError, RecursionError) as error:
            # `json` raises RecursionError for text with too many nested lists.
            raise QueryError('not valid JSON') from error
    return _answer(query, pools.stats(pool), 0) if query else True


def _compared(compare: Callable[[Any, Any], bool], values: list[Any]) -> bool:
    """Return True if the comparison of the first value with each other value holds.

    None counts as missing. Missing values after the first one are ignored. The result is False if
    the first value is missing, or if all other values are.
    """
    # JsonFilter drops missing operands, so that the second value would take the place of a missing
    # first one. Here such a comparison does not hold.
    first, *others = values or [None]
    given = [other for other in others if other is not None]
    return first is not None and bool(given) and all(compare(first, one) for one in given)


def _is_in(values: list[Any]) -> bool:
    return bool(values) and values[0] is not None and values[0] in values[1:]


def _negated(values: list[Any]) -> bool:
    # As in JsonFilter, one false operand is enough.
    return any(not value for value in values if value is not None)


OPERATORS: Mapping[str, Callable[[list[Any]], bool]] = {
    '=': functools.partial(_compared, operator.eq),
    '<': functools.partial(_compared, operator.lt),
    '>': functools.partial(_compared, operator.gt),
    '<=': functools.partial(_compared, operator.le),
    '>=': functools.partial(_compared, operator.ge),
    'in': _is_in,
    'not': _negated,
    'or': any,
    'and': lambda values: all(value for value in values if value is not None),
}
"""Functions of the operators by name. Each function gets the list of operands.

An operand is None if it is an empty text, or names a value that the pool does not report.
"""


def _answer(query: Any, stats: Mapping[str, Any], depth: int) -> bool:
    if not isinstance(query, list):
        raise QueryError('not a list')
    if depth > _MOST_NESTED:
        raise QueryError(f'more than {_MOST_NESTED} nested lists')
    if not query:
        return True
    name, *operands = query
    if not isinstance(name, str) or name not in OPERATORS:
        raise QueryError(f'unknown operator {name!r}, expected one of {", ".join(OPERATORS)}')
    values = [_value(operand, stats, depth) for operand in operands]
    try:
        return OPERATORS[name](values)
    except TypeError as error:
        raise QueryError(f'operator {name!r} cannot compare the given values') from error


def _value(operand: Any, stats: Mapping[str, Any], depth: int) -> Any:
    if isinstance(operand, list):
        return _answer(operand, stats, depth + 1)
    if not isinstance(operand, str) or not operand.startswith('$'):
        return None if operand == '' else operand
    found: Any = stats
    for name in operand[1:].split('.'):
        if not isinstance(found, Mapping):
            return None
        found = found.get(name)
    return found
