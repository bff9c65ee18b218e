"""The queries by which a client chooses among pools (the hint ``query``): Cinder's JSON grammar.

A query is a list that begins with an operator of `OPERATORS`; what follows are values and queries.
A text that begins with ``$`` names a value of the pool's report: ``$free_capacity_gb``,
``$capabilities.some.thing``.
"""
import functools
import json
import operator
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from blockattach.domain import pools

_MOST_NESTED = 20


class QueryError(ValueError):
    """A query cannot be read, or not be answered for a pool."""


def matches(query: Any, pool: pools.Pool) -> bool:
    """Whether a pool is what a query asks for; an empty query asks for nothing.

    :param query: JSON, as text or read already
    :raises QueryError: it is no query, or compares what cannot be compared
    """
    if isinstance(query, str) and query:
        try:
            query = json.loads(query)
        except (ValueError, RecursionError) as error:
            raise QueryError('it is not JSON') from error
    return _answer(query, pools.stats(pool), 0) if query else True


def _compared(compare: Callable[[Any, Any], bool], values: list[Any]) -> bool:
    """The first value against each of the others; without two there is nothing to compare."""
    first, *others = values or [None]
    given = [other for other in others if other is not None]
    return first is not None and bool(given) and all(compare(first, one) for one in given)


def _is_in(values: list[Any]) -> bool:
    return bool(values) and values[0] is not None and values[0] in values[1:]


def _negated(values: list[Any]) -> bool:
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
"""Operators: from values to a truth value; None where the pool does not report one."""


def _answer(query: Any, stats: Mapping[str, Any], depth: int) -> bool:
    if not isinstance(query, list):
        raise QueryError('it is not a list')
    if depth > _MOST_NESTED:
        raise QueryError(f'more than {_MOST_NESTED} lists stand inside each other')
    if not query:
        return True
    name, *operands = query
    if not isinstance(name, str) or name not in OPERATORS:
        raise QueryError(f'{name!r} is no operator; known are: {", ".join(OPERATORS)}')
    values = [_value(operand, stats, depth) for operand in operands]
    try:
        return OPERATORS[name](values)
    except TypeError as error:
        raise QueryError(f'{name!r} cannot compare these values') from error


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
