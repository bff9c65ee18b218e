"""``blockattach-status upgrade check``: what is left to do of an upgrade, or stands in its way.

Exit statuses as with every ``*-status`` of OpenStack: 0 nothing, 1 a warning, 2 a failure, 255 it
could not be found out.
"""
import sys
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

from oslo_config import cfg
from oslo_upgradecheck import upgradecheck

from blockattach import errors
from blockattach.cmd import process
from blockattach.cmd import upgrade_checks
from blockattach.cmd import upgrade_installation
from blockattach.wiring import dependencies

UNKNOWN = 255


_TEXT = 'Check the installation before, during and after an upgrade.'
_CHECK_TEXT = ('Check the installation. Exit status 0: nothing is left; 1: warnings; 2: failures; '
               '255: it could not be found out.')


def main(name: str, text: str, arguments: Sequence[str],
         add_others: Callable[[Any], None]) -> int:
    """Run the command.

    :param text: what it does, for its help
    :param add_others: adds the subcommands that are shown in the help and asked in other ways
    """
    conf = cfg.ConfigOpts()

    def add_commands(subparsers: Any) -> None:
        add_others(subparsers)
        add_upgrade(subparsers)
        process.name_choices(subparsers, subparsers.choices)

    conf.register_cli_opt(cfg.SubCommandOpt('command', handler=add_commands, title='commands'))
    try:
        dependencies.configure(conf, list(arguments), name, text)
        ask: Callable[[cfg.ConfigOpts], int] = conf.command.ask
        return ask(conf if ask is _check else conf.command)
    except (errors.ConfigurationError, errors.DatabaseUnavailable, cfg.Error) as exc:
        # Status 1 would say that there are warnings.
        print(f'{name}: {" ".join(str(exc).split())}', file=sys.stderr)
        return UNKNOWN


def add_upgrade(subparsers: Any) -> None:
    """Make ``upgrade`` and its verbs known to argparse."""
    upgrade = subparsers.add_parser('upgrade', help=_TEXT, description=_TEXT)
    verbs = upgrade.add_subparsers(dest='verb', required=True)
    check = verbs.add_parser('check', help=_CHECK_TEXT, description=_CHECK_TEXT)
    process.name_choices(verbs, verbs.choices)
    check.add_argument('--json', action='store_true', help='Print JSON, not a table.')
    check.set_defaults(ask=_check)


def _check(conf: cfg.ConfigOpts) -> int:
    # Where oslo.upgradecheck expects --json.
    upgradecheck.CONF = conf
    with dependencies.database_usable(conf):
        installation = upgrade_installation.Installation(conf)
        try:
            return int(upgrade_checks.UpgradeChecks(installation).check())
        finally:
            installation.close()
