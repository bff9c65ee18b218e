"""Rows of agents, with their last reports. An agent without a recent report counts as down."""
import sqlalchemy as sa

from blockattach.compute import records
from blockattach.compute.store import models
from blockattach.platform.db import clock

_agents = models.agents


def report(connected: sa.Connection, host: str, kind: str, version: str,
           down_after: float) -> bool:
    """Record the report of an agent.

    :param down_after: seconds without a report after which an agent counts as down
    :returns: True if the agent was down or unknown before the report
    """
    was_up = connected.execute(sa.select(_agents.c.host).where(
        _agents.c.host == host, _is_up(down_after))).first() is not None
    values = {'kind': kind, 'version': version, 'reported_at': clock.now()}
    if not connected.execute(_agents.update().where(
            _agents.c.host == host).values(**values)).rowcount:
        connected.execute(_agents.insert().values(host=host, **values))
    return not was_up


def find(connected: sa.Connection, down_after: float) -> list[records.Agent]:
    """Return all agents that have ever reported, ordered by host.

    :param down_after: seconds without a report after which an agent counts as down
    """
    return [records.Agent(**row._mapping) for row in connected.execute(
        sa.select(_agents, _is_up(down_after).label('up')).order_by(_agents.c.host))]


def _is_up(down_after: float) -> sa.ColumnElement[bool]:
    return _agents.c.reported_at >= clock.now(-down_after)
