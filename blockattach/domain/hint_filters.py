"""What clients may say of where a volume goes (``OS-SCH-HNT:scheduler_hints``), and the filters
that heed it.

A hint counts only where its filter is enabled. One that is malformed passes no pool: better no
volume than a misplaced one.
"""
import uuid
from collections.abc import Mapping
from typing import Any

from blockattach.domain import placement
from blockattach.domain import pool_queries
from blockattach.domain import pools

SAME = 'same_host'
DIFFERENT = 'different_host'
LOCAL = 'local_to_instance'
QUERY = 'query'


def volume_ids(hints: Mapping[str, Any], name: str) -> list[str] | None:
    """The volumes that a hint names: an id or a list of ids; None: something else is there."""
    given = hints.get(name, [])
    found = [_id(one) for one in (given if isinstance(given, list) else [given])]
    return None if None in found else [one for one in found if one is not None]


def server_id(hints: Mapping[str, Any]) -> str | None:
    """The server that a volume shall be near, if the hint names one."""
    return _id(hints.get(LOCAL))


def same_backend(request: pools.VolumeRequest, pool: pools.Pool) -> str | None:
    """Refuse a pool that has none of the volumes that it shall be with."""
    named = volume_ids(request.facts.hints, SAME)
    if named is None:
        return f'the hint {SAME} names something that is no volume'
    if not named or _there(request, named, pool):
        return None
    return f'it has none of the volumes that the hint {SAME} names'


def different_backend(request: pools.VolumeRequest, pool: pools.Pool) -> str | None:
    """Refuse a pool that has one of the volumes that it shall be apart from."""
    named = volume_ids(request.facts.hints, DIFFERENT)
    if named is None:
        return f'the hint {DIFFERENT} names something that is no volume'
    there = _there(request, named, pool)
    return f'it has volume {there}, which the hint {DIFFERENT} names' if there else None


def instance_locality(request: pools.VolumeRequest, pool: pools.Pool) -> str | None:
    """Refuse a pool that is not on the host of the server that the volume shall be near."""
    if not request.facts.hints.get(LOCAL):
        return None
    if server_id(request.facts.hints) is None:
        return f'the hint {LOCAL} names something that is no server'
    host = request.facts.server_host
    if host is None:
        return request.facts.server_lost or f'the host of the hint {LOCAL} is not known'
    if host == pool.name.partition('@')[0]:
        return None
    return f'it is not on the host of the server that the hint {LOCAL} names'


def json_query(request: pools.VolumeRequest, pool: pools.Pool) -> str | None:
    """Refuse a pool that is not what the client's query asks for."""
    try:
        if pool_queries.matches(request.facts.hints.get(QUERY), pool):
            return None
    except pool_queries.QueryError as error:
        return f'the hint {QUERY} cannot be answered: {error}'
    return f'it is not what the hint {QUERY} asks for'


FILTERS: Mapping[str, placement.Filter] = {
    'different_backend': different_backend,
    'same_backend': same_backend,
    'instance_locality': instance_locality,
    'json': json_query,
}
"""By name, for ``[scheduler] scheduler_default_filters``; none is asked unless it stands there."""


def _there(request: pools.VolumeRequest, named: list[str], pool: pools.Pool) -> str | None:
    """One of the volumes named that is on a pool."""
    placed = request.facts.placed
    return next((one for one in named if placed.get(one) == pool.name), None)


def _id(value: Any) -> str | None:
    """As ids are stored, however a client has written it."""
    try:
        return str(uuid.UUID(value)) if isinstance(value, str) else None
    except ValueError:
        return None
