"""What one project may have: read and changed by an administrator."""
import sqlalchemy as sa

from blockattach.db import engine
from blockattach.db import models
from blockattach.db import quotas
from blockattach.domain import records

_quotas = models.quotas


def get(database: engine.Database, project_id: str) -> records.QuotaSet:
    """The limit of a project, its own or the default, and what it has."""
    with database.reader() as connection:
        own = connection.execute(quotas.hard_limit_of(sa.literal(project_id))).scalars().first()
        in_use = quotas.count(connection, project_id)
    return records.QuotaSet(project_id, database.attachment_quota.limit(own), in_use)


@engine.retried
def change(database: engine.Database, project_id: str, limit: int | None) -> None:
    """Give a project a limit of its own; None: the default again. It may be less than it has."""
    mine = (_quotas.c.project_id == project_id, _quotas.c.resource == quotas.ATTACHMENTS)
    with database.writer() as connection:
        database.attachment_quota.lock(connection, project_id)
        connection.execute(_quotas.update().where(*mine).values(hard_limit=limit))
