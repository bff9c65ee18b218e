"""Planting of bugs in copies of the package, one at a time, to find the test that detects each.

`tools/plant-bugs` is the command. It deletes each copy, and does not change the checkout.
"""
import ast
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from lab.planted import bugs
from lab.simulation import hunting

Seeds = Sequence[Sequence[Any]]
"""Simulations to run, each with the fields of `hunting.Wanted`."""

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / 'blockattach'
_CHILD = ('import json, sys\n'
          'from lab.simulation import hunting\n'
          'print(json.dumps(hunting.as_json(hunting.hunt(json.loads(sys.argv[1])))))\n')
# A bug may cause an endless loop.
_LONGEST_SECONDS = 1200


class NotPlanted(Exception):
    """Raised if a row of the table does not fit the code and must be rewritten."""


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a planted bug: whether and how it was detected."""

    bug: bugs.Bug
    caught: bool
    said: str
    seed: int | None = None
    """Seed of the simulation that detected the bug."""

    def __str__(self) -> str:
        return f'{self.bug.name}: {"caught " if self.caught else "missed"}{self.said}'


def mutated(bug: bugs.Bug, package: pathlib.Path = PACKAGE) -> str:
    """Return the text of the bug's file with the bug in it.

    :raises NotPlanted: if the old text does not occur exactly once, or the result is invalid
        Python
    """
    text = (package / bug.path).read_text(encoding='utf-8')
    found = text.count(bug.old)
    if found != 1:
        raise NotPlanted(f'{bug.name}: the old text is {found} times in {bug.path}, not once')
    new = text.replace(bug.old, bug.new)
    try:
        ast.parse(new)
    except SyntaxError as error:
        raise NotPlanted(f'{bug.name}: {bug.path} becomes invalid Python: {error}') from error
    return new


def trial(bug: bugs.Bug | None, seeds: Seeds = hunting.FIXED) -> Outcome | None:
    """Plant a bug in a copy of the package, and try to detect it.

    :param bug: None for the unchanged package
    :returns: None if nothing is detected in the unchanged package
    :raises NotPlanted: if the bug cannot be planted
    """
    with tempfile.TemporaryDirectory(prefix='planted-') as folder:
        copy = pathlib.Path(folder) / PACKAGE.name
        for package in (PACKAGE, ROOT / 'lab'):
            shutil.copytree(package, pathlib.Path(folder) / package.name,
                            ignore=shutil.ignore_patterns('guests', '*.sqlite'))
        if bug is not None:
            (copy / bug.path).write_text(mutated(bug), encoding='utf-8')
        if bug is not None and bug.test:
            return _tested(bug, folder)
        return _hunted(bug, folder, seeds)


def report(chosen: Sequence[bugs.Bug], jobs: int, seeds: Seeds = hunting.FIXED,
           say: Callable[[str], None] = print) -> int:
    """Plant all bugs, then run the seeds that detected one on the unchanged package.

    :param say: called with a line for each bug
    :returns: 0 if all bugs are detected; 1 if one is missed, or the unchanged package fails
    :raises NotPlanted: if a bug cannot be planted, before any is tried
    """
    for bug in chosen:
        mutated(bug)
    caught, hunters = 0, set()
    for outcome in trials(chosen, jobs, seeds):
        say(str(outcome))
        caught += outcome.caught
        hunters.add(outcome.seed)
    whole = trial(None, [one for one in seeds if one[0] in hunters])
    if whole is not None:
        say(f'unchanged package: {whole}')
    say(f'{caught} of {len(chosen)} caught')
    return int(whole is not None or caught < len(chosen))


def trials(chosen: Iterable[bugs.Bug], jobs: int,
           seeds: Seeds = hunting.FIXED) -> Iterator[Outcome]:
    """Plant bugs in parallel, and yield their results as they end.

    :raises NotPlanted: if a bug cannot be planted
    """
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        begun = [pool.submit(trial, bug, seeds) for bug in chosen]
        for ended in concurrent.futures.as_completed(begun):
            outcome = ended.result()
            assert outcome is not None
            yield outcome


def _hunted(bug: bugs.Bug | None, folder: str, seeds: Seeds) -> Outcome | None:
    done = _run(folder, '-c', _CHILD, json.dumps(seeds))
    if done is None:
        return None if bug is None else Outcome(
            bug, False, f': timed out after {_LONGEST_SECONDS} seconds')
    if done.returncode:
        said = done.stderr.strip().rpartition('\n')[2]
        raise NotPlanted(f'{bug.name if bug else "nothing"}: the simulation failed to run: {said}')
    found = json.loads(done.stdout.splitlines()[-1])
    if found is None:
        return None if bug is None else Outcome(bug, False, '')
    return Outcome(bug or _NOTHING, True, 'by seed {seed} after {operations} operations: {said}'
                   .format(**found), found['seed'])


def _tested(bug: bugs.Bug, folder: str) -> Outcome:
    # By default some tests run only a part of their cases.
    done = _run(folder, '-m', 'unittest', bug.test, BLOCKATTACH_TEST_EXHAUSTIVE='1')
    # A test that cannot be loaded fails without detecting the bug.
    ran = done is not None and not any(
        word in done.stderr for word in ('\nRan 0 tests', '_FailedTest'))
    caught = done is not None and ran and done.returncode == 1
    return Outcome(bug, caught, f'by {bug.test}' if caught else f' by {bug.test}')


def _run(folder: str, *arguments: str,
         **variables: str) -> subprocess.CompletedProcess[str] | None:
    """Run Python in a copy. Return None if it does not end in time."""
    try:
        return subprocess.run(
            [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False,
            env={**os.environ, 'PYTHONPATH': folder, 'PYTHONHASHSEED': '0', **variables},
            timeout=_LONGEST_SECONDS)
    except subprocess.TimeoutExpired:
        return None


_NOTHING = bugs.Bug('nothing', '', '', '', '', '')
