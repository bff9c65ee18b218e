"""``blockattach-manage``: what an operator does by hand."""
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING
from typing import Any
from typing import NamedTuple

from blockattach.cmd import process

if TYPE_CHECKING:
    pass

NAME = 'blockattach-manage'

_NUMBER = {'type': int}
_YES = {'action': 'store_true'}


class Argument(NamedTuple):
    """As argparse takes it; ``--max-rows`` is an option, ``host`` a place."""

    name: str
    text: str
    more: Mapping[str, Any] = {}


class Command(NamedTuple):
    """One thing to do.

    ``act`` is a function of a module beside this one, which takes the configuration and returns the
    exit status, or nothing. Of ``one_of`` at most one is given.
    """

    text: str
    act: str
    arguments: tuple[Argument, ...] = ()
    one_of: tuple[Argument, ...] = ()
    one_needed: bool = False


class Noun(NamedTuple):
    """What commands are about."""

    text: str
    commands: dict[str, Command]


def main() -> int:
    """Run one command."""
    with process.command(NAME) as told:
        import importlib

        from oslo_config import cfg

        from blockattach.conf import locations
        from blockattach.wiring import foundation

        conf = cfg.ConfigOpts()
        conf.register_cli_opt(cfg.SubCommandOpt('noun', handler=_add_commands, title='commands'))
        foundation.configure(conf, sys.argv[1:], NAME)
        told.phase = process.Phase.BEGINNING
        module, _, name = NOUNS[conf.noun.name].commands[conf.noun.verb].act.partition('.')
        act = getattr(importlib.import_module(f'blockattach.cmd.{module}'), name)
        with locations.named(conf, 'database', 'connection'), foundation.database_usable():
            return act(conf) or 0


NOUNS = {
    'db': Noun('The database.', {
        'sync': Command('Bring the schema to what this release needs.', 'manage_db.sync', one_of=(
            Argument('--expand', 'Only add; also in an empty database.', _YES),
            Argument('--contract', 'Take away what only older releases need.', _YES))),
        'version': Command('Print the revisions that the schema is at.', 'manage_db.version'),
        'online_data_migrations': Command(
            'Bring rows to what this release writes, while every process works. Exit status 0: '
            'all is done; 1: more is left; 2: it failed.', 'manage_db.online_data_migrations', (
                Argument('--max-count', 'How many rows at most.', _NUMBER),)),
        'purge': Command('Remove what has been gone for long.', 'manage_db.purge', (
            Argument('--older-than', 'How many days it must have been gone. Default: 30.',
                     {'type': int, 'default': 30, 'metavar': 'DAYS'}),
            Argument('--max-rows', 'How many rows at most.', _NUMBER),
            Argument('--dry-run', 'Only say how many.', _YES)))}),
    'secrets': Noun('The sealed credentials, and their keys.', {
        'check': Command(
            'Count credentials by key, and find those that cannot be opened. Exit status 0: all '
            'can; 3: some cannot.', 'manage_secrets.check', (
                Argument('--forget', 'Put fresh ones in the place of those that cannot be opened.',
                         _YES),)),
        'rotate': Command('Seal by a fresh key, in four steps.', 'manage_secrets.rotate', one_of=(
            Argument('--prepare', 'Add a key, which only opens.', _YES),
            Argument('--promote', 'Let the added key seal.', _YES),
            Argument('--reseal', 'Seal by it what other keys have sealed.', _YES),
            Argument('--finish', 'Forget all keys but the one that seals.', _YES)),
            one_needed=True)}),
    'service': Noun('The processes that have reported themselves.', {
        'list': Command('Print them, and whether they are up.', 'manage_service.print_all'),
        'remove': Command('Forget one that will not come back.', 'manage_service.remove', (
            Argument('binary', 'Its name, for instance cinder-volume.'),
            Argument('host', 'Its host, for instance storage-1@disks.')))}),
}


def _add_commands(subparsers: Any) -> None:
    for name, noun in NOUNS.items():
        verbs = subparsers.add_parser(name, help=noun.text).add_subparsers(
            dest='verb', required=True)
        for verb, command in noun.commands.items():
            parser = verbs.add_parser(verb, help=command.text, description=command.text)
            for one in command.arguments:
                parser.add_argument(one.name, help=one.text, **one.more)
            if command.one_of:
                choice = parser.add_mutually_exclusive_group(required=command.one_needed)
                for one in command.one_of:
                    choice.add_argument(one.name, help=one.text, **one.more)


if __name__ == '__main__':
    sys.exit(main())
