"""Run the tests and simulations that the gate leaves out, in units. Units that have not been run
for the longest time come first.

At the end, a table of the layers is printed and, for each finding, the command that reproduces the
finding. The exit status is 1 if there are findings. The times of the last runs, and the output of
units with findings, are kept in .explore. Press Ctrl-C to stop early.
"""
import argparse
import contextlib
import ctypes
import json
import os
import pathlib
import re
import secrets
import shlex
import signal
import subprocess
import threading
from collections.abc import Sequence
from typing import NoReturn

from blockattach.platform import clock as clocks
from lab.explore import units as exploration

PLACE = exploration.ROOT / '.explore'
LIMIT_SECONDS = 3600
"""Seconds until a unit is stopped. A test worker ends with its stacks after three quarters."""
GRACE_SECONDS = 20.0
"""Seconds that a process has to end after SIGTERM before it is killed."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PR_SET_CHILD_SUBREAPER = 36


class Interrupted(BaseException):
    """Raised by SIGINT and SIGTERM."""


class TookTooLong(Exception):
    """Raised if a unit exceeds its time limit."""


class Explorer:
    """Runner of units, with a record of the last run of each.

    :param place: directory of its files
    :param limit: seconds until a unit is stopped
    """

    def __init__(self, place: pathlib.Path, clock: clocks.Clock, limit: int) -> None:
        self._clock = clock
        self._limit = limit
        self._found_in = place / 'found'
        self._found_in.mkdir(parents=True, exist_ok=True)
        self._memory = place / 'played.json'
        self.known: list[exploration.Unit] = []
        self.played: dict[exploration.Unit, float] = {}
        self.finds: list[exploration.Find] = []

    def play(self, units: Sequence[exploration.Unit], minutes: float | None) -> None:
        """Run each unit once, in the order of their last runs.

        :param minutes: time after which no further unit is started; None for no limit
        """
        self.known = list(units)
        begun = self._clock.monotonic()
        for number, unit in enumerate(exploration.in_order(units, self._remembered()), 1):
            if minutes is not None and self._clock.monotonic() - begun >= minutes * 60:
                print(f'Not starting another unit after {minutes:g} minutes')
                break
            print(f'[{number}/{len(units)}] {unit.command}', flush=True)
            self._play(unit)

    def _play(self, unit: exploration.Unit) -> None:
        begun = self._clock.monotonic()
        name = re.sub(r'\W+', '-', f'{unit.layer.name} {unit.name}')[:100]
        output = self._found_in / f'{name}-{unit.seed}.txt'
        try:
            status = _run(unit.command, output, self._limit)
        except Interrupted:
            output.unlink()
            raise
        said = output.read_text('utf-8', 'replace')
        found = exploration.finds(unit, status, said)
        last = said.strip().rpartition('\n')[2]
        self.played[unit] = seconds = self._clock.monotonic() - begun
        self.finds += found
        self._remember(unit)
        if found:
            print(f'    {len(found)} findings, {seconds:.0f} s: {output}', flush=True)
        else:
            output.unlink()
            print(f'    no findings, {seconds:.0f} s: {last}', flush=True)

    def _remembered(self) -> dict[str, str]:
        if not self._memory.exists():
            return {}
        return dict(json.loads(self._memory.read_text('utf-8')))

    def _remember(self, unit: exploration.Unit) -> None:
        played = {**self._remembered(), unit.key: self._clock.utcnow().isoformat()}
        # Replace the file atomically, so that an interruption does not truncate the record.
        written = self._memory.with_suffix('.new')
        written.write_text(json.dumps(played, indent=1, sort_keys=True) + '\n', 'utf-8')
        written.replace(self._memory)


def _run(command: str, output: pathlib.Path, limit: int) -> int | None:
    """Run a command line, and stop all processes that it leaves.

    :param command: command line, which may start with ``NAME=VALUE``
    :param limit: seconds until the command is stopped
    :returns: exit status; None if the command was stopped
    """
    with output.open('wb') as file:
        process = subprocess.Popen(
            ['env', *shlex.split(command)], cwd=exploration.ROOT, stdin=subprocess.DEVNULL,
            stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, 'BLOCKATTACH_TEST_LIMIT': str(limit * 3 // 4)})
    ended = 0
    try:
        signal.alarm(limit)
        while ended != process.pid:
            # This process is a subreaper: processes that outlive their parent become its children.
            # It must reap them, or else a test that waits for the end of one would never return.
            ended, status = os.waitpid(-1, 0)
        result = os.waitstatus_to_exitcode(status)
    except TookTooLong:
        result = None
    finally:
        signal.alarm(0)
    process.returncode = result
    _end_descendants()
    return result


def _end_descendants() -> None:
    """Stop the processes that a unit has left, including servers in their own sessions."""
    clock, never = clocks.Clock(), threading.Event()
    for number, seconds in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, GRACE_SECONDS)):
        end = clock.monotonic() + seconds
        signalled: set[int] = set()
        while clock.monotonic() < end:
            left = _descendants()
            if not left:
                return
            for pid in left - signalled:
                _signal(pid, number)
            signalled |= left
            clock.wait(never, 0.05)


def _descendants() -> set[int]:
    """Return the running descendants of this process, after reaping those that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return set()
    parents = {}
    for path in pathlib.Path('/proc').glob('[0-9]*/stat'):
        try:
            # The name of a program may contain spaces and parentheses.
            fields = path.read_text('utf-8', 'replace').rpartition(')')[2].split()
        except OSError:
            continue
        parents[int(path.parent.name)] = int(fields[1])
    below, found = {os.getpid()}, set[int]()
    while below:
        below = {pid for pid, parent in parents.items() if parent in below}
        found |= below
    return found


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _interrupt(_number: int, _frame: object) -> NoReturn:
    # Ignore further signals, so that the processes of the unit are stopped in order.
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise Interrupted


def _take_too_long(_number: int, _frame: object) -> NoReturn:
    raise TookTooLong


def main(arguments: Sequence[str] | None = None,
         layers: Sequence[exploration.Layer] = exploration.LAYERS,
         place: pathlib.Path = PLACE, limit: int = LIMIT_SECONDS) -> int:
    """Run the units, and return 1 if there are findings."""
    by_name = {layer.name: layer for layer in layers}
    parser = argparse.ArgumentParser(prog='tools/explore', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--minutes', type=float,
                        help='do not start another unit after this many minutes')
    parser.add_argument('--seed', type=int,
                        help='seed from which all other seeds are derived (default: random)')
    parser.add_argument('layers', nargs='*', metavar='LAYER',
                        help=f'layers to run, of {", ".join(by_name)} (default: all)')
    asked = parser.parse_args(arguments)
    unknown = [name for name in asked.layers if name not in by_name]
    if unknown:
        parser.error(f'unknown layers: {", ".join(unknown)} '
                     f'(choose from {", ".join(by_name)})')
    seed = secrets.randbelow(2 ** 32) if asked.seed is None else asked.seed
    print(f'tools/explore --seed {seed}', flush=True)
    chosen = [layer for layer in layers if layer.name in (asked.layers or by_name)]
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    explorer = Explorer(place, clocks.Clock(), limit)
    signal.signal(signal.SIGALRM, _take_too_long)
    for number in _SIGNALS:
        signal.signal(number, _interrupt)
    try:
        explorer.play(exploration.units(chosen, seed), asked.minutes)
    except Interrupted:
        _end_descendants()
        print('Interrupted')
    print('', *exploration.table(explorer.known, explorer.played, explorer.finds), sep='\n')
    return 1 if explorer.finds else 0
