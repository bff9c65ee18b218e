"""Access of projects to volume types that are not public.

The projects that have access to a type are kept while the type is public.
"""
import logging

import sqlalchemy as sa
from oslo_db import exception as db_exception

from blockattach.platform import log
from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db import storage_db
from blockattach.storage.db.types import volume_types

LOG = logging.getLogger(__name__)

_projects = models.volume_type_projects


@storage_db.retried
def add(database: storage_db.Database, type_id: str, project_id: str) -> None:
    """Give a project access to a private volume type.

    :raises VolumeTypeNotFound: no live volume type has this id
    :raises VolumeTypePublic: the type is public
    :raises VolumeTypeAccessExists: the project has access already
    """
    try:
        with database.writer(lambda again: _is_there(again, type_id, project_id)) as connection:
            _lock_private(connection, type_id)
            connection.execute(_projects.insert().values(
                volume_type_id=type_id, project_id=project_id,
                created_at=database.clock.utcnow()))
    except db_exception.DBDuplicateEntry as error:
        raise errors.VolumeTypeAccessExists(
            volume_type_id=type_id, project_id=project_id) from error
    log.step(LOG, 'Volume type access added', volume_type_id=type_id, project_id=project_id)


@storage_db.retried
def remove(database: storage_db.Database, type_id: str, project_id: str) -> None:
    """Remove the access of a project to a private volume type.

    Existing volumes of the project keep the type.

    :raises VolumeTypeNotFound: no live volume type has this id
    :raises VolumeTypePublic: the type is public
    :raises VolumeTypeAccessNotFound: the project has no access
    """
    with database.writer() as connection:
        _lock_private(connection, type_id)
        done = connection.execute(_projects.delete().where(
            _projects.c.volume_type_id == type_id, _projects.c.project_id == project_id))
        if done.rowcount != 1:
            raise errors.VolumeTypeAccessNotFound(
                volume_type_id=type_id, project_id=project_id)
    log.step(LOG, 'Volume type access removed', volume_type_id=type_id,
             project_id=project_id)


def projects(database: storage_db.Database, type_id: str) -> list[str]:
    """Return the sorted ids of the projects that may use a volume type while it is private."""
    with database.reader() as connection:
        return list(connection.execute(
            sa.select(_projects.c.project_id).where(_projects.c.volume_type_id == type_id)
            .order_by(_projects.c.project_id)).scalars())


def _is_there(connection: sa.Connection, type_id: str, project_id: str) -> bool:
    return connection.execute(_projects.select().where(
        _projects.c.volume_type_id == type_id, _projects.c.project_id == project_id)
        .with_for_update()).first() is not None


def _lock_private(connection: sa.Connection, type_id: str) -> None:
    # The lock keeps the type from becoming public, or being deleted, before the commit.
    volume_types.lock(connection, type_id)
    if volume_types.read(connection, type_id).is_public:
        raise errors.VolumeTypePublic
