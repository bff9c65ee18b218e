"""``blockattach-manage``: what an operator does to the database by hand."""
import sys
from typing import Any

from oslo_config import cfg

from blockattach.cmd import process
from blockattach.conf import core as core_conf
from blockattach.db import migrate
from blockattach.wiring import foundation


def _db_sync(conf: cfg.ConfigOpts) -> None:
    migrate.upgrade(_open(conf))


def _db_version(conf: cfg.ConfigOpts) -> None:
    print(migrate.version(_open(conf)))


COMMANDS = {
    'sync': ('Bring the schema up to date.', _db_sync),
    'version': ('Print the revision that the schema is at.', _db_version),
}


def _add_commands(subparsers: Any) -> None:
    nouns = subparsers.add_parser('db', help='The database.').add_subparsers(
        dest='verb', required=True)
    for verb, (text, _) in COMMANDS.items():
        nouns.add_parser(verb, help=text)


def _open(conf: cfg.ConfigOpts) -> Any:
    core = core_conf.settings(conf)
    foundation.make_state_path(core)
    return foundation.open_engine(conf, core)


def main() -> int:
    """Run one command."""
    conf = cfg.ConfigOpts()
    conf.register_cli_opt(cfg.SubCommandOpt('noun', handler=_add_commands, title='commands'))
    with process.starting('blockattach-manage'):
        foundation.configure(conf, sys.argv[1:])
        with foundation.database_usable():
            COMMANDS[conf.noun.verb][1](conf)
    return 0


if __name__ == '__main__':
    sys.exit(main())
