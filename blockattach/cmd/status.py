"""``blockattach-status``: the health of a process, and the state of an upgrade.

``health`` reads the health file of a process, whose path is in ``[health] file``. Supervisors run
this subcommand every few seconds, so it imports few modules and reads no configuration.
``upgrade check`` checks the installation.
"""
import argparse
import sys
from typing import Any

from blockattach.cmd import process
from blockattach.platform import clock
from blockattach.platform.health import report

NAME = 'blockattach-status'
HEALTH = 'health'
TEXT = 'Report the health of a process, or the state of an upgrade.'
_HEALTH_TEXT = ('Report the health of a process from its health file. Exit status: 0 if the '
                'process is healthy, 1 if the process is unhealthy, or if the file is too old or '
                'cannot be read.')


def main() -> int:
    """Run a subcommand, and return its exit status."""
    with process.command(NAME):
        # Before the other imports, because supervisors run this subcommand every few seconds.
        if sys.argv[1:2] == [HEALTH]:
            parser = argparse.ArgumentParser(prog=f'{NAME} {HEALTH}', description=_HEALTH_TEXT)
            _health_arguments(parser)
            return _health(parser.parse_args(sys.argv[2:]))
        from blockattach.cmd import upgrade_checks

        return upgrade_checks.main(NAME, TEXT, add_health)


def add_health(subparsers: Any) -> None:
    """Add the parser of the subcommand ``health``."""
    _health_arguments(subparsers.add_parser(HEALTH, help=_HEALTH_TEXT,
                                            description=_HEALTH_TEXT))


def _health_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--file', required=True, metavar='FILE',
                        help='Health file of the process, as set in [health] file.')
    parser.add_argument('--max-age', type=float, metavar='SECONDS',
                        help='Maximum age of the file in seconds. Default: three times [health] '
                             'interval of the process.')
    parser.add_argument('--live', action='store_true',
                        help='Check only that the process is alive, not that it is ready.')
    parser.set_defaults(ask=_health)


def _health(arguments: argparse.Namespace) -> int:
    try:
        found = report.read(arguments.file)
    except (OSError, ValueError) as exc:
        print(f'cannot read {arguments.file}: {exc}')
        return 1
    age = found.age(clock.Clock().utcnow())
    oldest = (found.interval * report.MISSED_INTERVALS if arguments.max_age is None
              else arguments.max_age)
    if age > oldest:
        print(f'{found.process} stopped reporting: {arguments.file} is {age:.0f} seconds old')
        return 1
    for name, wrong in found.wrong.items():
        print(f'{name}: {wrong}')
    print(f'{found.process} is {found.state}')
    return 0 if arguments.live or found.state is report.State.READY else 1


if __name__ == '__main__':
    sys.exit(main())
