"""Rows of instance actions, which record the history of the server actions (acts).

The rows are written in the transactions in which server actions begin and end.
"""
import dataclasses
import datetime
import operator
from collections.abc import Collection

import sqlalchemy as sa

from blockattach.compute import lifecycle
from blockattach.compute import records
from blockattach.compute.store import models

_actions, _servers = models.instance_actions, models.servers


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """Filter for instance actions of a server. A field that is None has no effect.

    :ivar before: number that is greater than the numbers of matching actions
    :ivar since: earliest time at which matching actions were updated
    :ivar until: latest time at which matching actions were updated
    :ivar limit: maximum number of actions to return
    """

    request_id: str | None = None
    before: int | None = None
    since: datetime.datetime | None = None
    until: datetime.datetime | None = None
    limit: int | None = None


def begin(connected: sa.Connection, acts: Collection[records.Act],
          now: datetime.datetime) -> None:
    """Insert an instance action for each server action that begins."""
    hosts = _hosts(connected, acts)
    connected.execute(_actions.insert(), [
        {'act_id': act.id, 'server_id': act.server_id,
         'action': lifecycle.action(act.verb, act.arguments), 'host': hosts.get(act.server_id),
         'started_at': now, 'updated_at': now,
         **{name: act.caller[name] or '' for name in ('request_id', 'project_id', 'user_id')}}
        for act in acts])


def end(connected: sa.Connection, acts: Collection[records.Act], fault: str | None,
        now: datetime.datetime) -> None:
    """Record the end of server actions, after the rows of their servers have been updated.

    :param fault: reason of the failure, or None if the server actions succeeded
    """
    host = sa.select(_servers.c.host).where(
        _servers.c.id == _actions.c.server_id).scalar_subquery()
    connected.execute(_actions.update().where(
        _actions.c.act_id.in_([act.id for act in acts])).values(
            fault=fault, updated_at=now, finished_at=now,
            # An offloaded server has no host. The action keeps the host on which it began.
            host=sa.func.coalesce(host, _actions.c.host)))


def withdraw(connected: sa.Connection, act: records.Act) -> None:
    """Delete the instance action of a server action whose request is rejected."""
    connected.execute(_actions.delete().where(_actions.c.act_id == act.id))


def remove(connected: sa.Connection, server_id: str) -> None:
    """Delete the instance actions of a deleted server."""
    connected.execute(_actions.delete().where(_actions.c.server_id == server_id))


def find(connected: sa.Connection, server_id: str, filters: Wanted) -> list[records.Action]:
    """Return the instance actions of a server that match the filter, newest first."""
    query = sa.select(_actions).where(_actions.c.server_id == server_id).order_by(
        _actions.c.number.desc()).limit(filters.limit)
    for column, compared, value in (
            (_actions.c.request_id, operator.eq, filters.request_id),
            (_actions.c.number, operator.lt, filters.before),
            (_actions.c.updated_at, operator.ge, filters.since),
            (_actions.c.updated_at, operator.le, filters.until)):
        if value is not None:
            query = query.where(compared(column, value))
    return [records.Action(**row._mapping) for row in connected.execute(query)]


def _hosts(connected: sa.Connection, acts: Collection[records.Act]) -> dict[str, str | None]:
    found = connected.execute(sa.select(_servers.c.id, _servers.c.host).where(
        _servers.c.id.in_([act.server_id for act in acts])))
    return {row.id: row.host for row in found}
