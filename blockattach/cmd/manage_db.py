"""``blockattach-manage db``: schema, online data migrations and purging of the database."""
import datetime
import sys
from typing import Any

from oslo_config import cfg

from blockattach.platform import errors
from blockattach.platform.conf import core
from blockattach.platform.conf import locations
from blockattach.storage.db import purging
from blockattach.storage.db import schema
from blockattach.storage.db.schema import online_migrations
from blockattach.wiring import configuration
from blockattach.wiring import dependencies

MAY_BE_MORE = 1
FAILED = 2
WRONG_NUMBER = 127


def sync(conf: cfg.ConfigOpts) -> None:
    """Expand the schema, and contract it unless services of an older release are running.

    The options ``--expand`` and ``--contract`` limit the upgrade to one of these steps.

    :raises ConfigurationError: a contraction was requested and is not possible yet
    """
    with locations.named(conf, 'database', 'connection'):
        if conf.noun.contract:
            _contract(conf)
            return
        opened = _open_engine(conf)
        if conf.noun.expand:
            schema.expand(opened)
            return
        schema.upgrade(opened)
        if schema.version(opened) != schema.expected():
            for hindrance in dependencies.finish_upgrade(conf, dependencies.open_database(conf)):
                print(f'The schema was expanded but not contracted: {hindrance}.')


def _contract(conf: cfg.ConfigOpts) -> None:
    database = dependencies.open_database(conf)
    hindrances = dependencies.contract_hindrances(conf, database)
    if hindrances:
        raise errors.ConfigurationError(
            reason=f'cannot contract the database: {"; ".join(hindrances)}')
    schema.contract(database.engine)


def version(conf: cfg.ConfigOpts) -> None:
    """Print the current expand and contract revisions of the schema."""
    print(schema.version(_open_engine(conf)))


def online_data_migrations(conf: cfg.ConfigOpts) -> int:
    """Run the online data migrations, and print their results.

    :returns: exit status, with the same meaning as in Nova and Cinder
    """
    try:
        most = _positive(conf, 'max_count')
    except errors.ConfigurationError as exc:
        return _failed(exc, WRONG_NUMBER)
    try:
        results = online_migrations.run(dependencies.open_database(conf), most)
    except (errors.ConfigurationError, errors.DatabaseUnavailable) as exc:
        # With status 1, callers would repeat the command.
        return _failed(exc, FAILED)
    print_table(('MIGRATION', 'FOUND', 'DONE', 'LEFT'),
                [(one.name, one.found, one.done, one.remaining) for one in results])
    for one in results:
        if one.failure is not None:
            _failed(f'migration {one.name} failed, see the log', FAILED)
    done = sum(one.done for one in results)
    if any(one.failure for one in results) and (most is None or not done):
        return FAILED
    # Status 0 promises that no rows remain, so it is not returned while another process migrates
    # rows.
    more = any(one.remaining for one in results) or most is not None and done
    return MAY_BE_MORE if more else 0


def purge(conf: cfg.ConfigOpts) -> None:
    """Purge the rows of deleted resources and expired rows, and print their number by table.

    :raises ConfigurationError: an argument is invalid
    """
    most = _positive(conf, 'max_rows')
    batch = _positive(conf, 'batch') or purging.BATCH
    database = dependencies.open_database(conf)
    days = conf.noun.age_in_days
    epoch = database.clock.utcnow() - datetime.datetime(1970, 1, 1)
    if not 0 <= days < epoch.days:
        raise errors.ConfigurationError(
            reason=f'age_in_days must be at least 0, and less than {epoch.days}')
    found = purging.purge(database, datetime.timedelta(days=days), most, conf.noun.dry_run, batch)
    print_table(('TABLE', 'WOULD BE PURGED' if conf.noun.dry_run else 'PURGED'), found)


def print_table(head: tuple[str, ...], rows: list[Any]) -> None:
    """Print a table with aligned columns."""
    lines = [head, *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print('  '.join(text.ljust(width)
                        for text, width in zip(line, widths, strict=True)).rstrip())


def _open_engine(conf: cfg.ConfigOpts) -> Any:
    with locations.named(conf, 'DEFAULT', 'state_path'):
        configuration.make_state_path(core.settings(conf))
    return dependencies.open_engine(conf)


def _positive(conf: cfg.ConfigOpts, name: str) -> int | None:
    """Return the value of an argument as a positive number, or None if it is not given.

    :raises ConfigurationError: the value is not a positive number
    """
    text = getattr(conf.noun, name)
    if text is None:
        return None
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise errors.ConfigurationError(reason=f'--{name.replace("_", "-")} must be at least 1')
    return value


def _failed(why: object, status: int) -> int:
    print(f'blockattach-manage: {why}', file=sys.stderr)
    return status
