"""Default volume types of projects. Each takes precedence over the configured default type."""
import logging

import sqlalchemy as sa
from oslo_db import exception as db_exception

from blockattach.platform import log
from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db import storage_db
from blockattach.storage.db.types import volume_types
from blockattach.storage.domain import records

LOG = logging.getLogger(__name__)

_defaults = models.default_volume_types


@storage_db.retried
def change(database: storage_db.Database, project_id: str, type_id: str) -> None:
    """Set the default type of a project, and replace a default type that was set before.

    :raises VolumeTypeNotFound: no live volume type has this id
    """
    with database.writer() as connection:
        # The lock prevents a concurrent deletion of the type. A type that is the default of a
        # project cannot be deleted.
        volume_types.lock(connection, type_id)
        of_project = _defaults.update().where(_defaults.c.project_id == project_id)
        if not connection.execute(of_project.values(volume_type_id=type_id)).rowcount:
            try:
                connection.execute(_defaults.insert().values(
                    project_id=project_id, volume_type_id=type_id))
            except db_exception.DBDuplicateEntry as exc:
                # Another request has inserted the row. When the function is repeated, it updates
                # this row.
                raise db_exception.RetryRequest(exc) from exc
    log.step(LOG, 'Default volume type set for project', project_id=project_id,
             volume_type_id=type_id)


@storage_db.retried
def remove(database: storage_db.Database, project_id: str) -> None:
    """Remove the default type of a project, so that the configured default type applies.

    A project without a default type of its own is left unchanged.
    """
    with database.writer() as connection:
        connection.execute(_defaults.delete().where(_defaults.c.project_id == project_id))
    log.step(LOG, 'Default volume type of project cleared', project_id=project_id)


def get(database: storage_db.Database, project_id: str) -> records.DefaultType:
    """Return the default type of a project.

    :raises DefaultTypeNotFound: the project has no default type of its own
    """
    found = _read(database, _defaults.select().where(_defaults.c.project_id == project_id))
    if not found:
        raise errors.DefaultTypeNotFound(project_id=project_id)
    return found[0]


def list_all(database: storage_db.Database) -> list[records.DefaultType]:
    """Return the default types of all projects that have one, ordered by project id."""
    return _read(database, _defaults.select().order_by(_defaults.c.project_id))


def _read(database: storage_db.Database, query: sa.Select) -> list[records.DefaultType]:
    with database.reader() as connection:
        return [records.DefaultType(row.project_id, row.volume_type_id)
                for row in connection.execute(query)]
