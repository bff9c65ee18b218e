"""``blockattach-manage db``."""
import datetime
import sys
from typing import Any

from oslo_config import cfg

from blockattach import clock
from blockattach import errors
from blockattach.conf import core
from blockattach.conf import locations
from blockattach.db import engine
from blockattach.db import migrate
from blockattach.db import online_migrations
from blockattach.db import purging
from blockattach.wiring import foundation

MORE_LEFT = 1
FAILED = 2


def sync(conf: cfg.ConfigOpts) -> None:
    """Expand; contract what is empty, or when told to.

    :raises ConfigurationError: it cannot be contracted yet
    """
    if conf.noun.contract:
        database = open_database(conf)
        hindrances = foundation.contract_hindrances(conf, database)
        if hindrances:
            raise errors.ConfigurationError(
                reason=f'cannot contract the database: {"; ".join(hindrances)}')
        migrate.contract(database.engine)
        return
    opened = _open_engine(conf)
    (migrate.expand if conf.noun.expand else migrate.upgrade)(opened)


def version(conf: cfg.ConfigOpts) -> None:
    """Print it."""
    print(migrate.version(_open_engine(conf)))


def online_data_migrations(conf: cfg.ConfigOpts) -> int:
    """Do them, and print what was done; an exit status as Nova and Cinder have it."""
    try:
        most = _positive(conf, 'max_count')
        results = online_migrations.run(open_database(conf), most)
    except (errors.ConfigurationError, errors.DatabaseUnavailable) as exc:
        # Status 1 would say that it goes on by itself.
        print(f'blockattach-manage: {exc}', file=sys.stderr)
        return FAILED
    print_table(('MIGRATION', 'FOUND', 'DONE', 'LEFT'),
                [(one.name, one.found, one.done, one.left) for one in results])
    for one in results:
        if one.failure is not None:
            print(f'blockattach-manage: cannot go on with {one.name}: see the log',
                  file=sys.stderr)
    if any(one.failure for one in results):
        return FAILED
    return MORE_LEFT if any(one.left for one in results) else 0


def purge(conf: cfg.ConfigOpts) -> None:
    """Remove history, and print what was removed."""
    most = _positive(conf, 'max_rows')
    if conf.noun.older_than < 0:
        raise errors.ConfigurationError(reason='--older-than must not be negative')
    found = purging.purge(open_database(conf), datetime.timedelta(days=conf.noun.older_than),
                          most, conf.noun.dry_run)
    print_table(('TABLE', 'WOULD GO' if conf.noun.dry_run else 'GONE'), found)


def open_database(conf: cfg.ConfigOpts, check_sealed: bool = True) -> engine.Database:
    """As processes do."""
    return foundation.open_database(conf, core.settings(conf), clock.Clock(),
                                    check_sealed=check_sealed)


def print_table(head: tuple[str, ...], rows: list[Any]) -> None:
    """Columns of text, aligned."""
    lines = [head, *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print('  '.join(text.ljust(width)
                        for text, width in zip(line, widths, strict=True)).rstrip())


def _open_engine(conf: cfg.ConfigOpts) -> Any:
    settings = core.settings(conf)
    with locations.named(conf, 'DEFAULT', 'state_path'):
        foundation.make_state_path(settings)
    return foundation.open_engine(conf, settings)


def _positive(conf: cfg.ConfigOpts, name: str) -> int | None:
    """:raises ConfigurationError: it is zero or less"""
    value: int | None = getattr(conf.noun, name)
    if value is not None and value < 1:
        raise errors.ConfigurationError(reason=f'--{name.replace("_", "-")} must be at least 1')
    return value
