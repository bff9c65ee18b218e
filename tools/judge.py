#!/usr/bin/env python3
"""Run tests with stestr, run each that failed once more, alone, and say whether the run passes.

A test that fails and then passes alone is flaky: it is named, and one of them does not fail the
run. Two do, and so does one that KNOWN names: a test that fails by chance is corrected, not run
again for ever. Ends with the line "N passed, N failed, N skipped", in which a flaky test has
passed unless the run does not pass, and with 1 if it does not.
"""
import argparse
import io
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection
from collections.abc import Iterable
from typing import NamedTuple

import subunit
import testtools
from stestr.repository import abstract
from stestr.repository import file

KNOWN = pathlib.Path('doc/source/contributor/flaky.txt')
"""Names of flaky tests, relative to the root: a line each, a space, the cause."""
FLAKY_ALLOWED = 1
RERUN_ALLOWED = 10
"""More failures than these are no chance, so the answer comes without running them again."""

STESTR = (sys.executable, '-m', 'stestr.cli')

_WHOLE = re.compile(r'^(?:setUp|tearDown)(?:Class|Module) \((?P<name>.+)\)$')


class Results(NamedTuple):
    """What a run of stestr recorded: ids of tests, in the order of their ends."""

    passed: tuple[str, ...]
    failed: tuple[str, ...]
    skipped: tuple[str, ...]


class Verdict(NamedTuple):
    """``flaky`` passed alone, ``failed`` did not; ``reasons``: why the run does not pass."""

    flaky: tuple[str, ...]
    failed: tuple[str, ...]
    reasons: tuple[str, ...]


def judge(failed: Collection[str], passed_alone: Collection[str], known: Collection[str],
          not_run: Collection[str]) -> Verdict:
    """The rule: what the failures of a run mean, given which of them pass when run alone."""
    flaky = tuple(name for name in failed if name in passed_alone)
    rest = tuple(name for name in failed if name not in passed_alone)
    reasons = []
    if rest:
        reasons.append(f'{len(rest)} failed')
    if not_run:
        reasons.append(f'{len(not_run)} did not run')
    if len(flaky) > FLAKY_ALLOWED:
        reasons.append(f'{len(flaky)} flaky tests, at most {FLAKY_ALLOWED} is allowed')
    reasons += [f'{name} was flaky before: {KNOWN} names it' for name in flaky if name in known]
    return Verdict(flaky, (*rest, *not_run), tuple(reasons))


def not_run(listed: Iterable[str], results: Results) -> tuple[str, ...]:
    """What was to run and left no trace: a worker that dies takes the rest of its tests along.

    Where a class is not set up or is skipped as a whole, its record stands for its tests.
    """
    names = {*results.passed, *results.failed, *results.skipped}
    wholes = tuple(f'{found["name"]}.' for found in map(_WHOLE.match, names) if found)
    return tuple(name for name in listed if name not in names and not name.startswith(wholes))


def known_flaky(text: str) -> frozenset[str]:
    """The names that the text of `KNOWN` lists; a line that begins with # is a comment."""
    lines = (line.strip() for line in text.splitlines())
    return frozenset(line.split()[0] for line in lines if line and not line.startswith('#'))


def list_tests(filters: list[str]) -> list[str]:
    """The tests that stestr selects."""
    open_repository('.')
    found = subprocess.run([*STESTR, 'list', *filters], stdout=subprocess.PIPE, text=True,
                           check=False)
    if found.returncode:
        # It says what cannot be imported.
        print(found.stdout)
        return []
    return found.stdout.splitlines()


def run_tests(place: str, arguments: list[str]) -> Results:
    """Run tests and record them below ``place``."""
    repository = open_repository(place)
    before = repository.count()
    subprocess.run([*STESTR, '--repo-url', place, 'run', *arguments], check=False)
    return _latest(repository) if repository.count() > before else Results((), (), ())


def passes_alone(name: str) -> bool:
    """Whether a test passes with nothing beside it; its records are not kept."""
    with tempfile.TemporaryDirectory() as folder:
        found = _WHOLE.match(name)
        if found:
            selected = ['^' + re.escape(found['name']) + r'\.']
        else:
            names = pathlib.Path(folder, 'names')
            names.write_text(f'{name}\n', encoding='utf-8')
            selected = ['--load-list', str(names)]
        results = run_tests(folder, ['--concurrency', '1', *selected])
    return bool(results.passed) and not results.failed


def open_repository(place: str) -> file.Repository:
    """Where stestr records runs below a folder; made where there is none."""
    factory = file.RepositoryFactory()
    try:
        return factory.open(place)
    except abstract.RepositoryNotFound:
        return factory.initialise(place)


def _latest(repository: file.Repository) -> Results:
    tests: list[tuple[str, str]] = []
    result = testtools.StreamToDict(lambda test: tests.append((test['id'], test['status'])))
    result.startTestRun()
    stream = repository.get_test_run(repository.latest_id()).get_subunit_stream()
    subunit.ByteStreamToStreamResult(io.BytesIO(stream.read())).run(result)
    result.stopTestRun()
    by_status = {'success': 'passed', 'xfail': 'passed', 'skip': 'skipped'}
    ends: dict[str, list[str]] = {'passed': [], 'failed': [], 'skipped': []}
    for name, status in tests:
        ends[by_status.get(status, 'failed')].append(name)
    return Results(*(tuple(ends[field]) for field in Results._fields))


def main() -> int:
    """Run, run again, judge, print."""
    parser = argparse.ArgumentParser(prog='tools/judge.py', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--concurrency', default='2', help='how many processes run tests')
    parser.add_argument('filters', nargs='*', help='regular expressions, as stestr takes them')
    asked = parser.parse_args()
    listed = list_tests(asked.filters)
    if not listed:
        print('Cannot list the tests, or there are none\n0 passed, 1 failed, 0 skipped')
        return 1
    results = run_tests('.', ['--concurrency', asked.concurrency, *asked.filters])
    passed_alone = set()
    for name in results.failed if len(results.failed) <= RERUN_ALLOWED else ():
        print(f'\nOnce more, alone: {name}', flush=True)
        if passes_alone(name):
            passed_alone.add(name)
    known = known_flaky(KNOWN.read_text(encoding='utf-8')) if KNOWN.exists() else frozenset()
    verdict = judge(results.failed, passed_alone, known, not_run(listed, results))
    _print(verdict, results)
    return 1 if verdict.reasons else 0


def _print(verdict: Verdict, results: Results) -> None:
    for name in verdict.failed:
        print(f'Failed: {name}')
    for name in verdict.flaky:
        print(f'flaky: {name}')
    print(f'{len(verdict.flaky)} flaky')
    for reason in verdict.reasons:
        print(f'The run does not pass: {reason}')
    passed, failed = len(results.passed), len(verdict.failed)
    if verdict.reasons:
        failed += len(verdict.flaky)
    else:
        passed += len(verdict.flaky)
    print(f'{passed} passed, {failed} failed, {len(results.skipped)} skipped')


if __name__ == '__main__':
    sys.exit(main())
