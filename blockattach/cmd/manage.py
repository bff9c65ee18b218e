"""``blockattach-manage``: administrative commands for operators."""
import argparse
import sys
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

from blockattach.cmd import process

NAME = 'blockattach-manage'
TEXT = 'Manage the database, attachments, targets, sealing keys and services.'

_NUMBER = {'type': int}
_YES = {'action': 'store_true'}
_FORMAT = {'choices': ('text', 'json'), 'default': 'text'}


class Argument(NamedTuple):
    """Argument of a command: an option such as ``--max-rows``, or a positional argument.

    :ivar more: further parameters of `argparse.ArgumentParser.add_argument`
    """

    name: str
    text: str
    more: Mapping[str, Any] = {}


class Command(NamedTuple):
    """Command with its arguments.

    :ivar text: description of the command in the output of ``--help``
    :ivar act: ``module.function`` in this package. The function takes the configuration, and
        returns the exit status or None for status 0
    :ivar one_of: arguments that exclude each other
    """

    text: str
    act: str
    arguments: tuple[Argument, ...] = ()
    one_of: tuple[Argument, ...] = ()


class Noun(NamedTuple):
    """First word of commands, such as ``db`` in ``blockattach-manage db sync``.

    :ivar commands: commands by verb, which is their second word
    :ivar alone: command of a noun without verbs, or None for a noun with verbs
    """

    text: str
    commands: dict[str, Command]
    alone: Command | None = None


def main() -> int:
    """Run the command in the arguments, and return its exit status."""
    with process.command(NAME) as signals:
        # Imported after the signal handlers are installed, see `process`.
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
    'attachments': Noun('Check attachments for inconsistencies and repair them.', {
        'check': Command(
            'Compare the rows of attachments with each other and with the targets, and print each '
            'violation with the command that repairs it. Exit status: 0 if there are no '
            'violations, 1 if there are no violations but a target did not respond, 3 if there '
            'are violations.', 'manage_attachments.check', (
                Argument('--volume-id', 'Report only violations of this volume.'),
                Argument('--format', 'Output format. Default: text.', _FORMAT))),
        'derive': Command(
            'Recompute the status of a volume and the other values that are derived from its '
            'attachments, or the allocated capacity of all pools.', 'manage_attachments.derive', (
                Argument('volume_id', 'ID of the volume whose values are recomputed.',
                         {'nargs': '?'}),
                Argument('--counts', 'Recompute the allocated capacity of all pools from their '
                                     'volumes.', _YES)))}),
    'compute_db': Noun('Create and upgrade the database of the compute API.', {
        'sync': Command('Upgrade the schema to this release.', 'manage_compute_db.sync'),
        'version': Command('Print the current revision of the schema.',
                           'manage_compute_db.version')}),
    'db': Noun('Create, upgrade and purge the database.', {
        'sync': Command(
            'Upgrade the schema to this release. The schema is expanded, and is then contracted '
            'unless services of an older release are running.', 'manage_db.sync', one_of=(
                Argument('--expand', 'Only expand the schema. Older releases continue to work '
                                     'with the expanded schema.', _YES),
                Argument('--contract', 'Only contract the schema. Older releases do not work '
                                       'with the contracted schema.', _YES))),
        'version': Command('Print the current revisions of the schema.', 'manage_db.version'),
        'online_data_migrations': Command(
            'Migrate rows to the format of this release while all processes are running. Exit '
            'status: 0 if no rows remain, 1 if rows may remain, 2 if a migration failed, 127 if '
            '--max-count is invalid.', 'manage_db.online_data_migrations', (
                Argument('--max-count', 'Maximum number of rows to migrate. Default: no '
                                        'limit.'),)),
        'purge': Command('Purge the rows of deleted resources, and expired rows.',
                         'manage_db.purge', (
            Argument('age_in_days', 'Purge rows that were deleted or expired at least this many '
                                    'days ago.', _NUMBER),
            Argument('--max-rows', 'Maximum number of rows to purge. Default: no limit.',
                     _NUMBER),
            Argument('--batch', 'Number of rows to purge per transaction. Default: 200.',
                     {'type': int, 'default': 200, 'metavar': 'ROWS'}),
            Argument('--dry-run', 'Print the number of rows that would be purged, without '
                                  'purging them.', _YES)))}),
    'import': Noun('Import the resources of another block storage service.', {
        'cinder': Command(
            'Import the volumes, types, snapshots, limits and live attachments of a Cinder '
            'database. Nothing is written while any resource is refused. The command can be '
            'repeated: existing resources are skipped. Exit status: 0 if all resources are '
            'imported or can be imported, 3 if a resource is refused.', 'manage_import.cinder', (
                Argument('--connection', 'URL of the Cinder database, which is only read. Set to '
                                         '"-" to read the URL from standard input, which hides '
                                         'the password from other users of the machine.',
                         {'required': True, 'metavar': 'URL'}),
                Argument('--dry-run', 'Print the resources that would be imported, changed and '
                                      'refused, without importing them.', _YES),
                Argument('--leave-refused', 'Skip refused resources, with everything that belongs '
                                            'to the same volume, and import the others.', _YES),
                Argument('--initiator', 'Initiator name of a host whose connector Cinder did not '
                                        'store. HOST can be the ID of the server that uses the '
                                        'volume instead. Can be repeated.', {
                    'action': 'append', 'default': [], 'metavar': 'HOST=NAME'}),
                Argument('--pool', 'Pool of the volumes that Cinder has on a host or in a '
                                   'cluster, if the pool has another name in '
                                   'blockattach. Can be repeated.',
                         {'action': 'append', 'default': [], 'metavar': 'HOST=POOL'}),
                Argument('--format', 'Output format. Default: text.', _FORMAT)))}),
    'reconcile': Noun('', {}, Command(
        'Finish interrupted operations and make each target match the database. The command can '
        'run while the service is running. Exit status: 0 if no differences remain, 3 if '
        'differences remain.', 'manage_reconcile.run', (
            Argument('backend', 'Name of the backend, as in [volume] enabled_backends. Default: '
                                'all configured backends.', {'nargs': '?'}),
            Argument('--dry-run', 'Print the planned actions without performing them.', _YES),
            Argument('--format', 'Output format. Default: text.', _FORMAT)))),
    'secrets': Noun('Check the sealed CHAP credentials and rotate the keys that seal them.', {
        'check': Command(
            'Count the credentials per key, and list the credentials that cannot be decrypted. '
            'Exit status: 0 if all credentials can be decrypted, 3 otherwise.',
            'manage_secrets.check', (
                Argument('--forget', 'Replace the credentials that cannot be decrypted with new '
                                     'ones.', _YES),)),
        'rotate': Command('Create a new key and seal all credentials with the new key, in one '
                          'step or with the four options below.', 'manage_secrets.rotate', one_of=(
            Argument('--prepare', 'Add a key that is only used for decryption.', _YES),
            Argument('--promote', 'Seal new credentials with the added key.', _YES),
            Argument('--reseal', 'Reseal the credentials of other keys with this key.', _YES),
            Argument('--finish', 'Remove all keys except the sealing key.', _YES)))}),
    'service': Noun('List the services, and remove decommissioned services.', {
        'list': Command('List the services with their state and the state of their backends.',
                        'manage_service.print_all'),
        'remove': Command('Remove a decommissioned service and its pools.',
                          'manage_service.remove', (
            Argument('binary', 'Binary of the service, for example cinder-volume.'),
            Argument('host', 'Host of the service, for example storage-1@disks.')))}),
    'target': Noun('Stop the tgtd that the volume manager of this host started.', {
        'stop': Command(
            'Stop tgtd unless hosts are logged in. tgtd keeps running when the volume manager '
            'stops. A running volume manager that uses tgtd restarts tgtd immediately, and the '
            'hosts log in again.', 'manage_reconcile.stop_target', (
                Argument('--force', 'Stop tgtd even if hosts are logged in or tgtd does not '
                                    'respond.', _YES),))}),
    'work': Noun('List unfinished background work, and cancel work items.', {
        'list': Command(
            'List all unfinished work items, oldest first.', 'manage_work.print_all', (
                Argument('--host', 'List only the work items of this volume manager, for example '
                                   'storage-1@disks.'),
                Argument('--format', 'Output format. Default: text.', _FORMAT))),
        'cancel': Command(
            'Cancel a work item that no process is running. A volume that waits for a pool gets '
            'the status error, a volume that was to be deleted is kept, and data that may remain '
            'on a pool is left there.', 'manage_work.cancel', (
                Argument('work_id', 'ID of the work item, as listed.'),))}),
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
