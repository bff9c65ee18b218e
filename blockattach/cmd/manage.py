"""``blockattach-manage``: what an operator does by hand."""
import argparse
import sys
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

from blockattach.cmd import process

NAME = 'blockattach-manage'
TEXT = 'Maintain an installation: database, attachments, targets, keys, services.'

_NUMBER = {'type': int}
_YES = {'action': 'store_true'}
_FORMAT = {'choices': ('text', 'json'), 'default': 'text'}


class Argument(NamedTuple):
    """As argparse takes it; ``--max-rows`` is an option, ``host`` a positional argument."""

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
    """The noun of commands; ``alone``: its command has no verb."""

    text: str
    commands: dict[str, Command]
    alone: Command | None = None


def main() -> int:
    """Run one command."""
    with process.command(NAME) as signals:
        import importlib

        from oslo_config import cfg

        from blockattach.wiring import configuration
        from blockattach.wiring import databases

        conf = cfg.ConfigOpts()
        conf.register_cli_opt(cfg.SubCommandOpt('noun', handler=_add_commands, title='commands'))
        configuration.configure(conf, sys.argv[1:], NAME, TEXT, serves=False)
        signals.phase = process.Phase.BEGINNING
        noun = NOUNS[conf.noun.name]
        module, _, name = (noun.alone or noun.commands[conf.noun.verb]).act.partition('.')
        act = getattr(importlib.import_module(f'blockattach.cmd.{module}'), name)
        with databases.usable(conf):
            return act(conf) or 0


NOUNS = {
    'attachments': Noun('Find and repair rows about attachments that contradict each other.', {
        'check': Command(
            'Compare the rows with each other and with the targets, and print each contradiction '
            'with the command that repairs it. Exit status 0: there is none; 1: there is none, '
            'but a target does not answer; 3: there are some.', 'manage_attachments.check', (
                Argument('--volume-id', 'Report only what concerns this volume.'),
                Argument('--format', 'Output format. Default: text.', _FORMAT))),
        'derive': Command(
            'Compute the status of a volume anew from its attachments, or the counts of pools and '
            'projects from their rows.', 'manage_attachments.derive', (
                Argument('volume_id', 'Id of the volume whose status is computed.',
                         {'nargs': '?'}),
                Argument('--counts', 'Compute the counts of all pools and projects.', _YES)))}),
    'compute_db': Noun('Create and upgrade the database of servers, which the compute API has.', {
        'sync': Command('Bring the schema to what this release needs.', 'manage_compute_db.sync'),
        'version': Command('Print the revision that the schema is at.',
                           'manage_compute_db.version')}),
    'db': Noun('Create, upgrade and clean up the database.', {
        'sync': Command(
            'Bring the schema to what this release needs: expand it, and contract it unless '
            'services of an older release are running.', 'manage_db.sync', one_of=(
                Argument('--expand', 'Only add what this release needs; older releases can go on '
                                     'with it.', _YES),
                Argument('--contract', 'Only remove what older releases need.', _YES))),
        'version': Command('Print the revisions that the schema is at.', 'manage_db.version'),
        'online_data_migrations': Command(
            'Bring rows to what this release writes, while all processes run. Exit status 0: '
            'nothing is left; 1: there may be more; 2: it failed; 127: a wrong number.',
            'manage_db.online_data_migrations', (
                Argument('--max-count', 'How many rows to migrate at most.'),)),
        'purge': Command('Remove rows of what was deleted long ago.', 'manage_db.purge', (
            Argument('age_in_days', 'Remove rows of what was deleted at least so many days ago.',
                     _NUMBER),
            Argument('--max-rows', 'How many rows to remove at most.', _NUMBER),
            Argument('--batch', 'How many rows to remove in a transaction. Default: 200.',
                     {'type': int, 'default': 200, 'metavar': 'ROWS'}),
            Argument('--dry-run', 'Only print how many rows would be removed.', _YES)))}),
    'import': Noun('Take over what another block storage service has.', {
        'cinder': Command(
            'Read a Cinder database and write its volumes, types, snapshots, limits and live '
            'attachments here. Nothing is written while anything is refused. Safe to repeat: what '
            'is here is left alone. Exit status 0: everything is here, or could be; 3: something '
            'is refused.', 'manage_import.cinder', (
                Argument('--connection', 'URL of the Cinder database, which is only read. "-": it '
                                         'comes by standard input, as its password is a secret.',
                         {'required': True, 'metavar': 'URL'}),
                Argument('--dry-run', 'Only print what would be taken, changed and refused.',
                         _YES),
                Argument('--leave-refused', 'Take the rest, and leave there what is refused, with '
                                            'all of its volume.', _YES),
                Argument('--initiator', 'The name by which a host logs in whose connector Cinder '
                                        'has not kept. Instead of the host: the id of the server '
                                        'that uses the volume.', {
                    'action': 'append', 'default': [], 'metavar': 'HOST=NAME'}),
                Argument('--pool', 'Where the volumes lie that Cinder has on a host (or in a '
                                   'cluster), if that is called otherwise here.', {
                    'action': 'append', 'default': [], 'metavar': 'HOST=POOL'}),
                Argument('--format', 'Output format. Default: text.', _FORMAT)))}),
    'reconcile': Noun('', {}, Command(
        'Finish interrupted operations and make each target match the database; safe while the '
        'service is running. Exit status 0: nothing is left to be done; 3: something is.',
        'manage_reconcile.run', (
            Argument('backend', 'Name of the backend, as in [volume] enabled_backends. Default: '
                                'all backends that are configured here.', {'nargs': '?'}),
            Argument('--dry-run', 'Only print what would be done.', _YES),
            Argument('--format', 'Output format. Default: text.', _FORMAT)))),
    'secrets': Noun('Check the sealed CHAP credentials, and rotate the keys that seal them.', {
        'check': Command(
            'Count the credentials by key, and list those that cannot be opened. Exit status 0: '
            'all can be opened; 3: some cannot.', 'manage_secrets.check', (
                Argument('--forget', 'Replace those that cannot be opened by new ones.', _YES),)),
        'rotate': Command('Create a new key and seal all credentials with it: at once, or in the '
                          'four steps below.', 'manage_secrets.rotate', one_of=(
            Argument('--prepare', 'Add a key that only opens.', _YES),
            Argument('--promote', 'Seal new credentials with the added key.', _YES),
            Argument('--reseal', 'Seal with it what other keys have sealed.', _YES),
            Argument('--finish', 'Remove all keys but the one that seals.', _YES)))}),
    'service': Noun('List the running services, and remove those that will not come back.', {
        'list': Command('List the services, whether they are up, and whether their backends are.',
                        'manage_service.print_all'),
        'remove': Command('Remove a service that will not come back, and its pools.',
                          'manage_service.remove', (
            Argument('binary', 'Name of the service, for instance cinder-volume.'),
            Argument('host', 'Host of the service, for instance storage-1@disks.')))}),
    'target': Noun('End the tgtd that the volume manager of this host has started.', {
        'stop': Command(
            'End it, unless hosts are logged in: it outlives the volume manager. One that a '
            'volume manager uses is started again at once, and its hosts log in again.',
            'manage_reconcile.stop_target', (
                Argument('--force', 'Also while hosts are logged in, or if it hangs.', _YES),))}),
    'work': Noun('List the work in the background that has not ended, and cancel some.', {
        'list': Command(
            'List all work that has not ended, the oldest first.', 'manage_work.print_all', (
                Argument('--host', 'Only that of one volume manager, for instance '
                                   'storage-1@disks.'),
                Argument('--format', 'Output format. Default: text.', _FORMAT))),
        'cancel': Command(
            'End work that no process is at: a volume that waits for a pool ends in error, one '
            'that is to be deleted stays, what may be left of one on a pool is left there.',
            'manage_work.cancel', (
                Argument('work_id', 'Id of the work, as listed.'),))}),
}


def _add_commands(subparsers: Any) -> None:
    process.name_choices(subparsers, NOUNS)
    for name, noun in NOUNS.items():
        if noun.alone is not None:
            _describe(subparsers.add_parser(name, help=noun.alone.text,
                                            description=noun.alone.text), noun.alone)
            continue
        verbs = subparsers.add_parser(
            name, help=noun.text, description=noun.text).add_subparsers(
                dest='verb', required=True)
        process.name_choices(verbs, noun.commands)
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
