"""``blockattach-manage``: what an operator does by hand."""
import argparse
import sys
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

from blockattach.cmd import process

NAME = 'blockattach-manage'

_NUMBER = {'type': int}
_YES = {'action': 'store_true'}
_FORMAT = {'choices': ('text', 'json'), 'default': 'text'}


class Argument(NamedTuple):
    """As argparse takes it; ``--max-rows`` is an option, ``host`` a place."""

    name: str
    text: str
    more: Mapping[str, Any] = {}


class Command(NamedTuple):
    """One thing to do.

    ``act`` is a function of a module beside this one, which takes the configuration and returns
    the exit status, or nothing. Of ``one_of`` at most one is given.
    """

    text: str
    act: str
    arguments: tuple[Argument, ...] = ()
    one_of: tuple[Argument, ...] = ()


class Noun(NamedTuple):
    """What commands are about; ``alone`` is one that is named by no further word."""

    text: str
    commands: dict[str, Command]
    alone: Command | None = None


def main() -> int:
    """Run one command."""
    with process.command(NAME) as told:
        import importlib

        from oslo_config import cfg

        from blockattach.wiring import foundation

        conf = cfg.ConfigOpts()
        conf.register_cli_opt(cfg.SubCommandOpt('noun', handler=_add_commands, title='commands'))
        foundation.configure(conf, sys.argv[1:], NAME)
        told.phase = process.Phase.BEGINNING
        noun = NOUNS[conf.noun.name]
        module, _, name = (noun.alone or noun.commands[conf.noun.verb]).act.partition('.')
        act = getattr(importlib.import_module(f'blockattach.cmd.{module}'), name)
        with foundation.database_usable(conf):
            return act(conf) or 0


NOUNS = {
    'attachments': Noun('The attachments of all volumes, and the targets.', {
        'check': Command(
            'Print whatever contradicts the invariants, with the command that mends it. Exit '
            'status 0: nothing does; 1: nothing does, but a target does not answer; 3: something '
            'does.', 'manage_attachments.check', (
                Argument('--volume-id', 'Only what concerns this volume.'),
                Argument('--format', 'How it is printed. Default: text.', _FORMAT))),
        'derive': Command(
            'Write anew what follows from the rows of a volume, or the counts of pools and '
            'projects.', 'manage_attachments.derive', (
                Argument('volume_id', 'The volume.', {'nargs': '?'}),
                Argument('--counts', 'The counts.', _YES)))}),
    'db': Noun('The database.', {
        'sync': Command(
            'Bring the schema to what this release needs: expand it, and contract it unless '
            'services of an older release are at work.', 'manage_db.sync', one_of=(
                Argument('--expand', 'Only add, as an older release can live with.', _YES),
                Argument('--contract', 'Take away what only older releases need.', _YES))),
        'version': Command('Print the revisions that the schema is at.', 'manage_db.version'),
        'online_data_migrations': Command(
            'Bring rows to what this release writes, while every process works. Exit status 0: '
            'nothing is left; 1: there may be more; 2: it failed; 127: a wrong number.',
            'manage_db.online_data_migrations', (
                Argument('--max-count', 'How many rows at most.'),)),
        'purge': Command('Remove what has been gone for long.', 'manage_db.purge', (
            Argument('age_in_days', 'How many days it must have been gone.', _NUMBER),
            Argument('--max-rows', 'How many rows at most.', _NUMBER),
            Argument('--batch', 'How many rows in a transaction. Default: 200.',
                     {'type': int, 'default': 200, 'metavar': 'ROWS'}),
            Argument('--dry-run', 'Only say how many.', _YES)))}),
    'reconcile': Noun('What contradicts the rows.', {}, Command(
        'Go on with what was interrupted, and let each target let in whom the attachments want '
        'in, also while its service runs. Exit status 0: nothing is left to be done; 3: something '
        'is.', 'manage_reconcile.run', (
            Argument('backend', 'The backend. Default: all that are configured here.',
                     {'nargs': '?'}),
            Argument('--dry-run', 'Only say what would be done.', _YES),
            Argument('--format', 'How it is printed. Default: text.', _FORMAT)))),
    'secrets': Noun('The sealed credentials, and their keys.', {
        'check': Command(
            'Count credentials by key, and find those that cannot be opened. Exit status 0: all '
            'can; 3: some cannot.', 'manage_secrets.check', (
                Argument('--forget', 'Put fresh ones in the place of those that cannot be opened.',
                         _YES),)),
        'rotate': Command('Seal by a fresh key: at once, or in four steps.',
                          'manage_secrets.rotate', one_of=(
            Argument('--prepare', 'Add a key, which only opens.', _YES),
            Argument('--promote', 'Let the added key seal.', _YES),
            Argument('--reseal', 'Seal by it what other keys have sealed.', _YES),
            Argument('--finish', 'Forget all keys but the one that seals.', _YES)))}),
    'service': Noun('The processes that have reported themselves.', {
        'list': Command('Print them, and whether they are up.', 'manage_service.print_all'),
        'remove': Command('Forget one that will not come back.', 'manage_service.remove', (
            Argument('binary', 'Its name, for instance cinder-volume.'),
            Argument('host', 'Its host, for instance storage-1@disks.')))}),
    'target': Noun('The tgtd that the volume manager of this host has started.', {
        'stop': Command(
            'End it, unless hosts are logged in: it outlives the volume manager. One that a '
            'volume manager uses is started again at once, and its hosts log in again.',
            'manage_target.stop', (
                Argument('--force', 'Also while hosts are logged in, or if it hangs.', _YES),))}),
}


def _add_commands(subparsers: Any) -> None:
    for name, noun in NOUNS.items():
        if noun.alone is not None:
            _describe(subparsers.add_parser(name, help=noun.alone.text,
                                            description=noun.alone.text), noun.alone)
            continue
        verbs = subparsers.add_parser(name, help=noun.text).add_subparsers(
            dest='verb', required=True)
        for verb, command in noun.commands.items():
            _describe(verbs.add_parser(verb, help=command.text, description=command.text),
                      command)


def _describe(parser: argparse.ArgumentParser, command: Command) -> None:
    for one in command.arguments:
        parser.add_argument(one.name, help=one.text, **one.more)
    if command.one_of:
        choice = parser.add_mutually_exclusive_group()
        for one in command.one_of:
            choice.add_argument(one.name, help=one.text, **one.more)


if __name__ == '__main__':
    sys.exit(main())
