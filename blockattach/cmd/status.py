"""``blockattach-status``: what a supervisor or an operator asks a process, or an installation.

``health`` reads the file that ``[health] file`` names. It runs every few seconds, so it imports
hardly anything.
"""
import argparse
import sys
from collections.abc import Callable
from typing import Any
from typing import NamedTuple

from blockattach import clock
from blockattach.cmd import process
from blockattach.health import report

NAME = 'blockattach-status'


class Command(NamedTuple):
    """One question. ``ask`` returns the exit status."""

    text: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    ask: Callable[[argparse.Namespace], int]


def main() -> int:
    """Ask one question; 0 if all is well."""
    with process.command(NAME):
        parser = argparse.ArgumentParser(prog=NAME, description=__doc__.partition('\n')[0])
        subparsers = parser.add_subparsers(dest='command', required=True)
        for name, command in COMMANDS.items():
            command.add_arguments(subparsers.add_parser(name, help=command.text))
        told = parser.parse_args()
        return COMMANDS[told.command].ask(told)


def _health_arguments(parser: Any) -> None:
    parser.add_argument('--file', required=True, metavar='FILE',
                        help='What [health] file names, with the name of the process.')
    parser.add_argument('--max-age', type=float, metavar='SECONDS',
                        help='How old it may be. Default: three intervals of its writer.')
    parser.add_argument('--live', action='store_true',
                        help='Ask only whether the process lives, not whether it can work.')


def _health(told: argparse.Namespace) -> int:
    try:
        found = report.read(told.file)
    except (OSError, ValueError) as exc:
        print(f'cannot read {told.file}: {exc}')
        return 1
    age = found.age(clock.Clock().utcnow())
    oldest = found.interval * report.PATIENCE if told.max_age is None else told.max_age
    if age > oldest:
        print(f'{found.process} is silent: {told.file} is {age:.0f} seconds old')
        return 1
    for name, wrong in found.wrong.items():
        print(f'{name}: {wrong}')
    print(f'{found.process} is {found.state}')
    return 0 if told.live or found.state is report.State.READY else 1


COMMANDS = {
    'health': Command('Say how a process is.', _health_arguments, _health),
}


if __name__ == '__main__':
    sys.exit(main())
