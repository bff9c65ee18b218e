"""Online data migrations, and the checks before the schema is contracted.

Online data migrations convert rows that the previous release has written. They run after the
expansion of the schema, while all processes are running. Each migration runs in batches, and can
be interrupted and restarted at any time. It ends, because this release writes only rows that need
no migration. The next contraction of the schema requires that all migrations are complete.
"""
from collections.abc import Callable
from collections.abc import Collection
from typing import NamedTuple

from oslo_log import log as oslo_log

from blockattach.platform import log
from blockattach.storage.db import storage_db
from blockattach.storage.db.attachments import initiator_names
from blockattach.storage.db.services import services

LOG = oslo_log.getLogger(__name__)

BATCH = 50


class Progress(NamedTuple):
    """Result of one batch of a migration.

    :ivar found: number of rows that the batch has read for migration
    :ivar done: number of rows that the batch has migrated
    """

    found: int
    done: int


class Migration(NamedTuple):
    """Online data migration.

    :ivar text: description for operators
    :ivar remaining: function that returns the number of rows to migrate
    :ivar act: function that migrates one batch. Its second argument is the number of migrated rows
        after which the batch ends. A batch can exceed this number to complete a volume
    """

    name: str
    text: str
    remaining: Callable[[storage_db.Database], int]
    act: Callable[[storage_db.Database, int], Progress]


# The migrations run in this order. A migration is removed one release after the contraction that
# requires it.
MIGRATIONS: tuple[Migration, ...] = (
    Migration('initiator_names', 'Convert initiator names to lower case.',
              initiator_names.remaining,
              lambda database, most: Progress(*initiator_names.migrate(database, most))),
)


class Result(NamedTuple):
    """Result of one run of a migration.

    :ivar found: number of rows that the batches have read for migration
    :ivar done: number of rows that the batches have migrated
    :ivar remaining: number of rows that still have to be migrated
    :ivar failure: error that ended the run; None on success
    """

    name: str
    found: int
    done: int
    remaining: int
    failure: Exception | None


def run(database: storage_db.Database, most: int | None = None,
        migrations: tuple[Migration, ...] = MIGRATIONS) -> list[Result]:
    """Run migrations one after the other. A failed migration does not stop the next migration.

    :param most: number of migrated rows, in total, after which no further batch is run; None for
        no limit
    """
    results = []
    for migration in migrations:
        result = _run_one(database, migration, most)
        results.append(result)
        if most is not None:
            most -= result.done
    return results


def remaining(database: storage_db.Database,
              migrations: tuple[Migration, ...] = MIGRATIONS) -> dict[str, int]:
    """Return the number of rows to migrate, by the name of the migration.

    The result contains only migrations with remaining rows.
    """
    found = {migration.name: migration.remaining(database) for migration in migrations}
    return {name: number for name, number in found.items() if number}


def hindrances(database: storage_db.Database, down_after: float,
               older: Collection[str]) -> list[str]:
    """Return the reasons that prevent a contraction of the schema, as sentences.

    :param down_after: seconds without a heartbeat after which a service counts as down. A service
        that is down does not prevent a contraction
    :param older: names of the earlier releases
    """
    return [f'{number} rows remain for the online data migration {name}, run blockattach-manage '
            'db online_data_migrations'
            for name, number in remaining(database).items()] + behind(database, down_after, older)


def behind(database: storage_db.Database, down_after: float, older: Collection[str]) -> list[str]:
    """Return a list with a sentence that names the running services of earlier releases.

    The parameters are those of `hindrances`.

    :returns: list with one sentence, or an empty list if no such service is running
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
                # The remaining rows cannot be migrated now, for example because of work on them.
                break
    except Exception as exc:
        # All exceptions are caught, because a failed migration must not stop the next migration.
        # The result contains the exception.
        LOG.exception('Failed to run online data migration%s', log.fields(name=migration.name))
        failure = exc
    return Result(migration.name, found, done, migration.remaining(database), failure)
