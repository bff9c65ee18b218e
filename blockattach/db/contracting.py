"""Whether what only older releases need may be removed."""
from collections.abc import Collection

import sqlalchemy as sa

from blockattach.db import clock
from blockattach.db import engine
from blockattach.db import models
from blockattach.db import online_migrations

_services = models.services


def hindrances(database: engine.Database, down_after: float,
               older: Collection[str]) -> list[str]:
    """What stands against it, a sentence each.

    :param down_after: seconds without a heartbeat after which a service is not counted
    :param older: the names of the releases before this one
    """
    found = [f'{number} rows wait for the online migration {name}: run blockattach-manage db '
             'online_data_migrations'
             for name, number in online_migrations.remaining(database).items()]
    return found + behind(database, down_after, older)


def behind(database: engine.Database, down_after: float, older: Collection[str]) -> list[str]:
    """Services of older releases that prevent it: one sentence, or none."""
    names = services_behind(database, down_after, older)
    return ([f'services of an older release send heartbeats: {", ".join(names)}'] if names
            else [])


def services_behind(database: engine.Database, down_after: float,
                    older: Collection[str]) -> list[str]:
    """The services of older releases that send heartbeats."""
    query = sa.select(_services).where(
        _services.c.reported_at >= clock.now(-down_after), _services.c.release.in_(older),
    ).order_by(_services.c.id)
    with database.reader() as connection:
        return [f'{row.binary} on {row.host} (release {row.release})'
                for row in connection.execute(query)]
