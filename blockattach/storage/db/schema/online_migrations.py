"""What rows must be brought to after the schema was expanded, while every process works; and what
stands against removing what only older releases need.

Each is done in batches, may be stopped and begun again at any time, and ends by itself: what this
release writes needs it no more. The next contraction relies on all of them.
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
    """Of one batch: how many rows were found, and how many of them are done."""

    found: int
    done: int


class Migration(NamedTuple):
    """One of them. ``act`` does at most so many rows."""

    name: str
    text: str
    remaining: Callable[[storage_db.Database], int]
    act: Callable[[storage_db.Database, int], Progress]


# In the order in which they are done. One goes when the contraction that relies on it is a release
# old.
MIGRATIONS: tuple[Migration, ...] = (
    Migration('initiator_names', 'Convert initiator names to lower case.',
              initiator_names.remaining,
              lambda database, most: Progress(*initiator_names.migrate(database, most))),
)


class Result(NamedTuple):
    """One run: rows found, rows done, rows that remain; and why it failed, if so."""

    name: str
    found: int
    done: int
    remaining: int
    failure: Exception | None


def run(database: storage_db.Database, most: int | None = None,
        migrations: tuple[Migration, ...] = MIGRATIONS) -> list[Result]:
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
              migrations: tuple[Migration, ...] = MIGRATIONS) -> dict[str, int]:
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
    """Services of older releases that prevent it: one sentence, or none."""
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
