"""Clusters of services. A cluster has no row of its own, only rows of its member services.

A member counts as down after ``down_after`` seconds without a heartbeat.
"""
import logging
from typing import Any

import sqlalchemy as sa

from blockattach.platform import log
from blockattach.platform.db import clock
from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db import rows
from blockattach.storage.db import storage_db
from blockattach.storage.domain import clusters

LOG = logging.getLogger(__name__)

_services = models.services


def list_all(database: storage_db.Database, down_after: float, name: str | None = None,
             binary: str | None = None) -> list[clusters.Cluster]:
    """Return clusters ordered by name.

    :param name: ``cluster@backend``; None for any cluster
    :param binary: binary of the members; None for any binary
    """
    row = _services.c
    query = sa.select(
        row.cluster.label('name'), row.binary, sa.func.count().label('num_hosts'),
        _number(row.reported_at < clock.now(-down_after)).label('num_down_hosts'),
        _number(row.disabled == sa.true()).label('num_disabled'),
        _number(row.frozen == sa.true()).label('num_frozen'),
        sa.func.max(row.disabled_reason).label('reason'),
        sa.func.max(row.reported_at).label('last_heartbeat'),
        sa.func.min(row.created_at).label('created_at'),
        sa.func.max(row.updated_at).label('updated_at'),
    ).where(row.cluster.is_not(None)).group_by(row.cluster, row.binary).order_by(row.cluster)
    if name is not None:
        query = query.where(row.cluster == name)
    if binary is not None:
        query = query.where(row.binary == binary)
    with database.reader() as connection:
        return [rows.record(clusters.Cluster, found) for found in connection.execute(query)]


def get(database: storage_db.Database, down_after: float, name: str,
        binary: str) -> clusters.Cluster:
    """Return a cluster by its name and the binary of its members.

    :param name: ``cluster@backend``
    :raises ClusterNotFound: the cluster has no members
    """
    found = list_all(database, down_after, name, binary)
    if not found:
        raise errors.ClusterNotFound(id=name)
    return found[0]


@storage_db.retried
def set_disabled(database: storage_db.Database, name: str, binary: str, disabled: bool,
                 reason: str | None = None) -> None:
    """Disable or enable all members of a cluster.

    :param name: ``cluster@backend``
    :param reason: reason for disabling the members; enabling removes the stored reason
    :raises ClusterNotFound: the cluster has no members
    """
    with database.writer() as connection:
        done = connection.execute(_services.update().where(
            _services.c.cluster == name, _services.c.binary == binary).values(
            disabled=disabled, disabled_reason=reason if disabled else None,
            updated_at=database.clock.utcnow()))
        if not done.rowcount:
            raise errors.ClusterNotFound(id=name)
    if disabled:
        log.step(LOG, 'Cluster disabled', binary=binary, cluster=name, disabled=True)
    else:
        log.step(LOG, 'Cluster enabled', binary=binary, cluster=name, disabled=False)


def _number(which: sa.ColumnElement[bool]) -> sa.ColumnElement[Any]:
    # COUNT ignores NULL. A sum would be a Decimal on MariaDB and PostgreSQL.
    return sa.func.count(sa.case((which, 1)))
