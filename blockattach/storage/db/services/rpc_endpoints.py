"""Endpoints of the RPC servers that listen for direct calls, without a message broker."""
from collections.abc import Collection
from typing import NamedTuple

import sqlalchemy as sa

from blockattach.platform.db import clock
from blockattach.storage.db import models
from blockattach.storage.db import storage_db

_endpoints = models.rpc_endpoints
_FORGOTTEN = 10
"""Multiple of ``down_after`` without a heartbeat after which the row of an endpoint is deleted."""


class RpcEndpoint(NamedTuple):
    """Address at which an RPC server listens. Each start of a server registers a new endpoint.

    :ivar instance: identifier of the start of the server
    :ivar fingerprint: SHA-256 fingerprint of the TLS certificate in hexadecimal; None without TLS
    """

    host: str
    port: int
    instance: str
    fingerprint: str | None


@storage_db.retried
def register(database: storage_db.Database, topic: str, server: str, endpoint: RpcEndpoint,
             down_after: float) -> None:
    """Register the endpoint of an RPC server, and delete the rows of stale endpoints.

    :param server: name of the server on the topic
    :param down_after: seconds without a heartbeat after which an endpoint counts as down. The
        row of an endpoint is deleted after ten times this number of seconds
    """
    with database.writer() as connection:
        # If the call is repeated, the row may have been inserted already.
        connection.execute(_endpoints.delete().where(
            _endpoints.c.instance == endpoint.instance))
        connection.execute(_endpoints.insert().values(
            topic=topic, server=server, **endpoint._asdict(), reported_at=clock.now(),
            created_at=database.clock.utcnow()))
    with database.reader() as connection:
        # The read comes first, because a DELETE whose condition has no index locks every row.
        silent = connection.scalars(sa.select(_endpoints.c.instance).where(
            _endpoints.c.reported_at < clock.now(-_FORGOTTEN * down_after))).all()
    if silent:
        withdraw(database, silent)


@storage_db.retried
def withdraw(database: storage_db.Database, instances: Collection[str]) -> None:
    """Delete the rows of endpoints.

    :param instances: values of `RpcEndpoint.instance`
    """
    with database.writer() as connection:
        connection.execute(_endpoints.delete().where(_endpoints.c.instance.in_(instances)))


@storage_db.retried
def heartbeat(database: storage_db.Database, instances: Collection[str]) -> bool:
    """Record a heartbeat of endpoints.

    :param instances: values of `RpcEndpoint.instance`
    :returns: False if one of the endpoints has no row. That endpoint must then be registered
        again
    """
    with database.writer() as connection:
        return connection.execute(
            _endpoints.update().where(_endpoints.c.instance.in_(instances))
            .values(reported_at=clock.now())).rowcount == len(instances)


def find(database: storage_db.Database, topic: str, server: str | None,
         down_after: float) -> list[RpcEndpoint]:
    """Return the endpoints of a topic that are up, oldest first.

    :param server: name of the server on the topic; None for all servers
    :param down_after: seconds without a heartbeat after which an endpoint counts as down
    """
    query = sa.select(*(_endpoints.c[name] for name in RpcEndpoint._fields)).where(
        _endpoints.c.topic == topic, _endpoints.c.reported_at >= clock.now(-down_after),
    ).order_by(_endpoints.c.created_at, _endpoints.c.instance)
    if server is not None:
        query = query.where(_endpoints.c.server == server)
    with database.reader() as connection:
        return [RpcEndpoint(*row) for row in connection.execute(query)]
