"""Replaces the key that seals credentials, while every process works and attaches.

In four steps, because each process, on whatever host, must know a key before another one seals by
it: `prepare`, `promote`, `reseal`, `finish`. Where one file of keys serves everybody, `rotate`
does them all. Each step may be cut off anywhere and done again: no key is taken away that a
credential needs.
"""
from blockattach import errors
from blockattach.db import engine
from blockattach.db import sealed_grants

BATCH = 100


def rotate(database: engine.Database) -> list[str]:
    """All steps, after the end of one that was cut off; a line for the operator of each.

    :raises ConfigurationError: these keys are not ours to write
    """
    if not database.sealer.replaces:
        raise errors.ConfigurationError(
            reason='cannot rotate in one step: the configuration names the keys: go by --prepare, '
                   '--promote, --reseal and --finish')
    progress = []
    # Keys that wait to be promoted or forgotten look alike; by the one that seals all is well.
    if len(database.sealer.ring()) > 1:
        progress += [reseal(database), finish(database)]
    return [*progress, *(step(database) for step in (prepare, promote, reseal, finish))]


def prepare(database: engine.Database) -> str:
    """Add a key, which only opens.

    :raises ConfigurationError: there is one already
    """
    if len(database.sealer.ring()) > 1:
        raise errors.ConfigurationError(
            reason='cannot prepare: there is another key already: go on with the next step')
    return database.sealer.add()


def promote(database: engine.Database) -> str:
    """Let the added key seal.

    :raises ConfigurationError: there is none, or it has sealed before
    """
    sealer = database.sealer
    last = sealer.ring()[-1].id
    if len(sealer.ring()) < 2:
        raise errors.ConfigurationError(reason='cannot promote: there is one key only: begin with '
                                               '--prepare')
    if sealed_grants.counts(database).get(last):
        raise errors.ConfigurationError(reason=f'cannot promote: key {last} has sealed before')
    return sealer.promote()


def reseal(database: engine.Database) -> str:
    """Seal by it what other keys have sealed."""
    done = 0
    while (batch := sealed_grants.reseal(database, BATCH)).found:
        done += batch.done
    return f'{done} credentials are sealed anew, by key {database.sealer.ring()[0].id}.'


def finish(database: engine.Database) -> str:
    """Forget all keys but the one that seals.

    :raises ConfigurationError: a credential needs another one
    """
    remaining = sealed_grants.awaiting(database)
    if remaining:
        raise errors.ConfigurationError(
            reason=f'cannot forget keys: {remaining} credentials are not sealed by key '
                   f'{database.sealer.ring()[0].id}: run --reseal')
    return database.sealer.keep_first()
