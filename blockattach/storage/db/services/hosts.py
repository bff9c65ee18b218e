"""Use of a backend by projects."""
from typing import Any
from typing import NamedTuple

import sqlalchemy as sa

from blockattach.storage.db import models
from blockattach.storage.db import storage_db
from blockattach.storage.db.services import services


class Use(NamedTuple):
    """Number of volumes and of snapshots, with their total sizes in GiB."""

    volumes: int = 0
    volumes_gb: int = 0
    snapshots: int = 0
    snapshots_gb: int = 0

    def plus(self, other: 'Use') -> 'Use':
        """Return the sum of two uses."""
        return Use(*map(sum, zip(self, other, strict=True)))


def by_project(database: storage_db.Database, backend: str) -> dict[str, Use]:
    """Return the use of a backend by each project that has a volume or a snapshot there.

    :param backend: ``host@backend``
    """
    with database.reader() as connection:
        volumes = {row.project_id: Use(row.number, row.size_gb)
                   for row in connection.execute(_counted(models.volumes, backend))}
        snapshots = {row.project_id: Use(0, 0, row.number, row.size_gb)
                     for row in connection.execute(_counted(models.snapshots, backend))}
    return {project: volumes.get(project, Use()).plus(snapshots.get(project, Use()))
            for project in sorted(volumes.keys() | snapshots.keys())}


def _counted(table: sa.Table, backend: str) -> sa.Select[Any]:
    return sa.select(
        table.c.project_id, sa.func.count().label('number'),
        sa.cast(sa.func.sum(table.c.size_gb), sa.Integer).label('size_gb'),
    ).where(models.live(table), services.on_host(backend, table.c.pool)).group_by(
        table.c.project_id)
