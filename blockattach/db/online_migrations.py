"""What rows must be brought to after the schema was expanded, while every process works.

Each is done in batches, may be stopped and begun again at any time, and ends by itself: what this
release writes needs it no more. The next contraction relies on all of them.
"""
from collections.abc import Callable
from typing import NamedTuple

from oslo_log import log as oslo_log

from blockattach import log
from blockattach.db import engine
from blockattach.db import sealed_grants

LOG = oslo_log.getLogger(__name__)

BATCH = 50


class Migration(NamedTuple):
    """One of them. ``act`` does at most so many rows."""

    name: str
    text: str
    left: Callable[[engine.Database], int]
    act: Callable[[engine.Database, int], sealed_grants.Progress]


# In the order in which they are done. One goes when the contraction that relies on it is a release
# old.
MIGRATIONS: tuple[Migration, ...] = ()


class Result(NamedTuple):
    """What came of one: rows found and done by this run, rows left; and why it failed, if so."""

    name: str
    found: int
    done: int
    left: int
    failure: Exception | None


def run(database: engine.Database, most: int | None = None,
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


def left(database: engine.Database,
         migrations: tuple[Migration, ...] = MIGRATIONS) -> dict[str, int]:
    """The rows that still need each of them; those that nothing needs are not told."""
    found = {migration.name: migration.left(database) for migration in migrations}
    return {name: number for name, number in found.items() if number}


def _run_one(database: engine.Database, migration: Migration, most: int | None) -> Result:
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
        LOG.exception('Cannot go on with an online migration%s', log.fields(name=migration.name))
        failure = exc
    return Result(migration.name, found, done, migration.left(database), failure)
