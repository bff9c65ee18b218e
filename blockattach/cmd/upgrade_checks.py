"""``blockattach-status upgrade check``: checks before, during and after an upgrade.

`CHECKS` lists the checks. As in every ``*-status`` command of OpenStack, the exit status is 0 if
all checks succeed, 1 for a warning, 2 for a failure, and 255 if the checks cannot run.
"""
import sys
import textwrap
from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import oslo_messaging
from oslo_config import cfg
from oslo_upgradecheck import common_checks
from oslo_upgradecheck import upgradecheck
from oslo_utils import strutils

from blockattach.cmd import process
from blockattach.cmd import upgrade_database_checks as database_checks
from blockattach.platform import errors
from blockattach.platform.conf import rpc as rpc_conf
from blockattach.platform.policy import enforcer
from blockattach.platform.rpc import contract
from blockattach.platform.rpc import rabbit
from blockattach.storage.rpc import history
from blockattach.wiring import configuration
from blockattach.wiring import databases
from blockattach.wiring import options as all_options
from blockattach.wiring import rules

Code = upgradecheck.Code
Result = upgradecheck.Result

UNKNOWN = 255
_WIDTH = 60
"""Width in characters of a line of details, as in oslo.upgradecheck."""

_TEXT = 'Check the installation before, during and after an upgrade.'
_CHECK_TEXT = ('Check the installation. Exit status: 0 if all checks succeed, 1 if there are '
               'warnings, 2 if there are failures, 255 if the checks cannot run.')

_IN_PROCESS = ('inproc', 'fake')


class Replaced(NamedTuple):
    """Renamed option, whose old name is still read for one release.

    :ivar name: old name
    :ivar now: new name
    """

    group: str
    name: str
    now: str


REPLACED: tuple[Replaced, ...] = ()


def pin(at: database_checks.Installation) -> Result:
    """Check that ``[rpc] release`` matches the releases of the running services."""
    named = rpc_conf.settings(at.conf).release
    try:
        spoken = contract.find_release(named, history.RELEASES)
    except errors.ConfigurationError as exc:
        return Result(Code.FAILURE, f'{exc}.')
    # Without the tables of this release, the list of services cannot be read.
    behind = at.expanded and at.behind()
    if spoken is history.RELEASES[-1]:
        return Result(Code.FAILURE, 'Services of an older release are running, but [rpc] release '
                                    'does not name that release, so they would receive messages '
                                    'that they do not support.'
                      ) if behind else database_checks.ok()
    if behind:
        return Result(Code.SUCCESS, f'[rpc] release = {named}, while an older release is running.')
    return Result(Code.WARNING, f'[rpc] release = {named}. If no process of that release is left, '
                                'including APIs, set the option to auto and restart the '
                                'processes.')


def bus(at: database_checks.Installation) -> Result:
    """Check that processes can communicate, and that queues survive the loss of a broker node."""
    settings = rpc_conf.settings(at.conf)
    url = oslo_messaging.TransportURL.parse(at.conf)
    if url.transport in _IN_PROCESS:
        return Result(Code.FAILURE, 'transport_url only connects services of the same process, '
                                    'but the database is shared. Separate processes need a '
                                    'message broker.'
                      ) if at.engine.dialect.name != 'sqlite' else database_checks.ok()
    if settings.second_transport_url:
        return Result(Code.WARNING, '[rpc] second_transport_url is still set. Remove the option '
                                    'once every process sends to transport_url.')
    if url.transport == rpc_conf.HTTP:
        return database_checks.ok()
    classic = [name for name in ('rabbit_quorum_queue', 'rabbit_transient_quorum_queue')
               if not strutils.bool_from_string(url.query.get(name, at.conf[rabbit.GROUP][name]))]
    return Result(Code.WARNING, f'Disabled options: {", ".join(classic)}. Classic queues do not '
                                'survive the loss of their node. See "From classic to quorum '
                                'queues" in the upgrade guide.'
                  ) if classic else database_checks.ok()


def options(at: database_checks.Installation) -> Result:
    """Check the configuration files for unknown, renamed and unsupported options."""
    try:
        all_options.check_supported(at.conf)
    except errors.ConfigurationError as exc:
        return Result(Code.FAILURE, f'{exc}.')
    by_path: dict[str, list[str]] = {}
    for unknown in all_options.find_unknown(at.conf):
        by_path.setdefault(unknown.path, [f'{unknown.path}:']).append(unknown.finding)
    lines = [line for found in by_path.values() for line in found]
    for option in REPLACED:
        at.conf.register_opt(cfg.StrOpt(option.name), group=option.group)
        if at.conf[option.group][option.name] is not None:
            lines.append(f'[{option.group}] {option.name} has been renamed to {option.now}')
    return Result(Code.WARNING, '\n'.join(lines)) if lines else database_checks.ok()


def policy(at: database_checks.Installation) -> Result:
    """Check that the policy files are in YAML, and contain no unknown rules."""
    result = common_checks.check_policy_json(upgradecheck.UpgradeCommands(), at.conf)
    if result.code is not Code.SUCCESS:
        return result
    try:
        found = enforcer.unknown_rules(at.conf, rules.list_rules())
    except (ValueError, OSError) as exc:
        return Result(Code.FAILURE, f'{" ".join(str(exc).split())}.')
    return Result(Code.WARNING, f'{"; ".join(map(str, found))}.') if found else result


Check = Callable[[database_checks.Installation], Result]

# Ordered like the steps of an upgrade.
CHECKS: tuple[tuple[str, Check], ...] = (
    ('Schema', database_checks.schema),
    ('Compute schema', database_checks.schema_of_servers),
    ('Database character set', database_checks.text),
    ('Sealing keys', database_checks.keys),
    ('Option names', options),
    ('Policy file', policy),
    ('Message bus', bus),
    ('Services of older releases', database_checks.services),
    ('RPC release', pin),
    ('Online data migrations', database_checks.rows),
    ('Schema contraction', database_checks.contraction),
)


class UpgradeChecks(database_checks.Installation):
    """All checks of an installation, as a class that oslo.upgradecheck runs."""

    _upgrade_checks = CHECKS

    def _get_details(self, upgrade_check_result: Result) -> str | None:
        """Return the details of a result, wrapped as in oslo.upgradecheck.

        Unlike in the base class, line breaks are kept.
        """
        if upgrade_check_result.details is None:
            return None
        return '\n'.join(textwrap.fill(line, _WIDTH, subsequent_indent='  ')
                         for line in upgrade_check_result.details.splitlines())


def main(name: str, text: str, add_others: Callable[[Any], None]) -> int:
    """Run the subcommand in the arguments.

    :param name: name of the command
    :param text: description of the command in the output of ``--help``
    :param add_others: function that adds the parsers of other subcommands
    :returns: exit status
    """
    conf = cfg.ConfigOpts()

    def add_commands(subparsers: Any) -> None:
        add_others(subparsers)
        add_upgrade(subparsers)
        process.name_choices(subparsers, subparsers.choices)

    conf.register_cli_opt(cfg.SubCommandOpt('command', handler=add_commands, title='commands'))
    try:
        # The check of option names reports unknown options.
        configuration.configure(conf, sys.argv[1:], name, text, serves=False, log_unknown=False)
        ask: Callable[[cfg.ConfigOpts], int] = conf.command.ask
        return ask(conf if ask is _check else conf.command)
    except (errors.ConfigurationError, errors.DatabaseUnavailable, cfg.Error) as exc:
        # Status 1 would say that there are warnings.
        print(f'{name}: {" ".join(str(exc).split())}', file=sys.stderr)
        return UNKNOWN


def add_upgrade(subparsers: Any) -> None:
    """Add the parser of the subcommand ``upgrade``, with its verb ``check``."""
    upgrade = subparsers.add_parser('upgrade', help=_TEXT, description=_TEXT)
    verbs = upgrade.add_subparsers(dest='verb', required=True)
    check = verbs.add_parser('check', help=_CHECK_TEXT, description=_CHECK_TEXT)
    process.name_choices(verbs, verbs.choices)
    check.add_argument('--json', action='store_true', help='Print JSON instead of a table.')
    check.set_defaults(ask=_check)


def _check(conf: cfg.ConfigOpts) -> int:
    # oslo.upgradecheck reads --json from this global.
    upgradecheck.CONF = conf
    with databases.usable(conf):
        checks = UpgradeChecks(conf)
        try:
            return int(checks.check())
        finally:
            checks.database.close()
