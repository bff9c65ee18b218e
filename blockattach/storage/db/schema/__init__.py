"""Schema revisions of the block storage database, and online migrations of its rows.

An online migration converts rows after an expansion, while all processes work. It must be
finished before the contraction that relies on it.
"""
import pathlib
from collections.abc import Callable
from collections.abc import Collection
from typing import NamedTuple

from oslo_log import log as oslo_log

from blockattach.platform import log
from blockattach.platform.db import migrations
from blockattach.storage.db import models
from blockattach.storage.db import storage_db
from blockattach.storage.db.attachments import initiator_names
from blockattach.storage.db.services import services

LOG = oslo_log.getLogger(__name__)

EXPAND, CONTRACT = migrations.EXPAND, migrations.CONTRACT

MIGRATIONS = migrations.Migrations(
    pathlib.Path(__file__).parent / 'migrations', 'alembic_version', 'blockattach-manage db sync',
    models.metadata, last_development=migrations.Version('0005', 'c0001'))

upgrade, expand, contract = MIGRATIONS.upgrade, MIGRATIONS.expand, MIGRATIONS.contract
check, version, expected = MIGRATIONS.check, MIGRATIONS.version, MIGRATIONS.expected
scripts, sql = MIGRATIONS.scripts, MIGRATIONS.sql
BATCH = 50


class Progress(NamedTuple):
    """Numbers of rows that one batch has found and migrated."""

    found: int
    done: int


class Migration(NamedTuple):
    """Online data migration.

    :ivar text: description for operators
    :ivar remaining: returns the number of rows to migrate
    :ivar act: migrates one batch of rows, at most as many as its second argument
    """

    name: str
    text: str
    remaining: Callable[[storage_db.Database], int]
    act: Callable[[storage_db.Database, int], Progress]


# In the order in which they are done. One goes when the contraction that relies on it is a release
# old.
ONLINE_MIGRATIONS: tuple[Migration, ...] = (
    Migration('initiator_names', 'Convert initiator names to lower case.',
              initiator_names.remaining,
              lambda database, most: Progress(*initiator_names.migrate(database, most))),
)


class Result(NamedTuple):
    """Result of one run of a migration.

    :ivar found: number of rows that the batches have found
    :ivar done: number of migrated rows
    :ivar remaining: number of rows still to migrate
    :ivar failure: error that ended the run; None on success
    """

    name: str
    found: int
    done: int
    remaining: int
    failure: Exception | None


def run(database: storage_db.Database, most: int | None = None,
        migrations: tuple[Migration, ...] = ONLINE_MIGRATIONS) -> list[Result]:
    """Do them, one after the other; one that fails does not stop the others.

    :param most: how many rows at most, in all
    """
    results = []
    for migration in migrations:
        result = _run_one(database, migration, most)
        results.append(result)
        if most is not None:
            most -= result.done
    return results


def remaining(database: storage_db.Database,
              migrations: tuple[Migration, ...] = ONLINE_MIGRATIONS) -> dict[str, int]:
    """How many rows still need each of them; finished ones are left out."""
    found = {migration.name: migration.remaining(database) for migration in migrations}
    return {name: number for name, number in found.items() if number}


def hindrances(database: storage_db.Database, down_after: float,
               older: Collection[str]) -> list[str]:
    """What stands against a contraction, a sentence each.

    :param down_after: seconds without a heartbeat after which a service is not counted
    :param older: the names of the releases before this one
    """
    return [f'{number} rows remain for the online data migration {name}, run blockattach-manage '
            'db online_data_migrations'
            for name, number in remaining(database).items()] + behind(database, down_after, older)


def behind(database: storage_db.Database, down_after: float, older: Collection[str]) -> list[str]:
    """Return a sentence that names the running services of earlier releases.

    The parameters are those of `hindrances`.

    :returns: list with one sentence, or an empty list if there are no such services
    """
    names = services.of_releases(database, down_after, older)
    return ([f'services of an older release are running: {", ".join(names)}'] if names
            else [])


def _run_one(database: storage_db.Database, migration: Migration, most: int | None) -> Result:
    found = done = 0
    failure = None
    try:
        while most is None or done < most:
            batch = migration.act(database, BATCH if most is None else min(BATCH, most - done))
            found += batch.found
            done += batch.done
            if not batch.done:
                break
    except Exception as exc:
        LOG.exception('Failed to run online data migration%s', log.fields(name=migration.name))
        failure = exc
    return Result(migration.name, found, done, migration.remaining(database), failure)
