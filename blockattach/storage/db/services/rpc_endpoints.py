"""Where the servers of processes listen that are sent to without a broker."""
from collections.abc import Collection
from typing import NamedTuple

import sqlalchemy as sa

from blockattach.platform.db import clock
from blockattach.storage.db import models
from blockattach.storage.db import storage_db

_endpoints = models.rpc_endpoints
_FORGOTTEN = 10
"""After so many times the silence after which an endpoint counts as down, its row goes."""


class RpcEndpoint(NamedTuple):
    """One start of one server.

    :ivar fingerprint: of its certificate, SHA-256 in hexadecimal; None: without TLS
    """

    host: str
    port: int
    instance: str
    fingerprint: str | None


@storage_db.retried
def register(database: storage_db.Database, topic: str, server: str, endpoint: RpcEndpoint,
             down_after: float) -> None:
    """A server listens there from now on. May be repeated.

    :param down_after: seconds without a heartbeat after which one counts as down; those that have
        been silent for much longer are forgotten
    """
    with database.writer() as connection:
        connection.execute(_endpoints.delete().where(
            _endpoints.c.instance == endpoint.instance))
        connection.execute(_endpoints.insert().values(
            topic=topic, server=server, **endpoint._asdict(), reported_at=clock.now(),
            created_at=database.clock.utcnow()))
    with database.reader() as connection:
        # Read first: a condition that no index serves locks every row.
        silent = connection.scalars(sa.select(_endpoints.c.instance).where(
            _endpoints.c.reported_at < clock.now(-_FORGOTTEN * down_after))).all()
    if silent:
        withdraw(database, silent)


@storage_db.retried
def withdraw(database: storage_db.Database, instances: Collection[str]) -> None:
    """They listen no more."""
    with database.writer() as connection:
        connection.execute(_endpoints.delete().where(_endpoints.c.instance.in_(instances)))


@storage_db.retried
def heartbeat(database: storage_db.Database, instances: Collection[str]) -> bool:
    """Send a heartbeat of some; False: one of them is not known, and must be registered again."""
    with database.writer() as connection:
        return connection.execute(
            _endpoints.update().where(_endpoints.c.instance.in_(instances))
            .values(reported_at=clock.now())).rowcount == len(instances)


def find(database: storage_db.Database, topic: str, server: str | None,
         down_after: float) -> list[RpcEndpoint]:
    """Who listens on a topic, or on it under this name, in the order of their coming.

    :param down_after: as for `register`; those that are down are left out
    """
    query = sa.select(*(_endpoints.c[name] for name in RpcEndpoint._fields)).where(
        _endpoints.c.topic == topic, _endpoints.c.reported_at >= clock.now(-down_after),
    ).order_by(_endpoints.c.created_at, _endpoints.c.instance)
    if server is not None:
        query = query.where(_endpoints.c.server == server)
    with database.reader() as connection:
        return [RpcEndpoint(*row) for row in connection.execute(query)]
