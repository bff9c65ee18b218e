#!/usr/bin/env python3
"""Run tests with stestr, rerun each failed test alone, and decide whether the run passes.

A test that fails and then passes alone is flaky. The run passes with one flaky test, which is
named. It fails with more, and with a flaky test that KNOWN names: a test that fails by chance must
be corrected. The last line is "N passed, N failed, N skipped". If the run passes, a flaky test
counts as passed. The exit status is 1 if the run fails.

Workers get the tests in the order of their recorded durations (tools/gate/durations.py), longest
first. Thus the tests of a commit are distributed in the same way everywhere.
"""
import argparse
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection
from collections.abc import Iterable
from typing import Any
from typing import NamedTuple

import subunit
import testtools
from stestr import utils
from stestr.repository import abstract
from stestr.repository import file

import durations

KNOWN = pathlib.Path('doc/source/contributor/flaky.txt')
"""Path of the list of known flaky tests. Each line is a test name, a space, and the cause."""
FLAKY_ALLOWED = 1
RERUN_ALLOWED = 10
"""Maximum number of failures to rerun. More failures are not a coincidence."""

LIMIT = 45 * 60
"""Seconds after which a worker counts as hanging. blockattach.tests ends it with its stacks."""

STESTR = (sys.executable, '-m', 'stestr.cli')

_WHOLE = re.compile(r'^(?:setUp|tearDown)(?:Class|Module) \((?P<name>.+)\)$')


class Results(NamedTuple):
    """Results of a run of stestr: ids of tests, in the order of their ends.

    :ivar ended: exit status of stestr
    """

    passed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    ended: int = 0
    timings: tuple[durations.Timing, ...] = ()


class Verdict(NamedTuple):
    """Decision on a run.

    :ivar flaky: tests that failed and then passed alone
    :ivar failed: tests that failed again, or that did not run
    :ivar reasons: reasons why the run fails; empty if it passes
    """

    flaky: tuple[str, ...]
    failed: tuple[str, ...]
    reasons: tuple[str, ...]


def judge(results: Results, listed: Iterable[str], passed_alone: Collection[str],
          flaky_before: Collection[str]) -> Verdict:
    """Decide whether a run passes.

    :param listed: the tests that were to run
    :param passed_alone: failed tests that passed when they were run alone
    :param flaky_before: lines of `KNOWN`
    """
    flaky = tuple(name for name in results.failed if name in passed_alone)
    rest = tuple(name for name in results.failed if name not in passed_alone)
    lost = not_run(listed, results)
    reasons = []
    if rest:
        reasons.append(f'{len(rest)} failed')
    if lost:
        reasons.append(f'{len(lost)} did not run')
    if results.ended and not results.failed:
        reasons.append(f'no test failed, and stestr ended with {results.ended}')
    if len(flaky) > FLAKY_ALLOWED:
        reasons.append(f'{len(flaky)} flaky tests, at most {FLAKY_ALLOWED} is allowed')
    # The names of classes contain spaces.
    reasons += [f'{name} was flaky before: {KNOWN} names it' for name in flaky
                if any(f'{line} '.startswith(f'{name} ') for line in flaky_before)]
    return Verdict(flaky, (*rest, *lost), tuple(reasons))


def not_run(listed: Iterable[str], results: Results) -> tuple[str, ...]:
    """Return the tests that have no result, because the worker that should run them died.

    A class or module that fails in its set-up or is skipped has one result for all of its tests.
    """
    names = {*results.passed, *results.failed, *results.skipped}
    wholes = tuple(f'{found["name"]}.' for found in map(_WHOLE.match, names) if found)
    return tuple(name for name in listed if name not in names and not name.startswith(wholes))


def list_tests(filters: list[str]) -> list[str]:
    """Return the tests that stestr selects."""
    open_repository('.')
    found = subprocess.run([*STESTR, 'list', *filters], stdout=subprocess.PIPE, text=True,
                           check=False)
    if found.returncode:
        # The output names the module that cannot be imported.
        print(found.stdout)
        return []
    return found.stdout.splitlines()


def run_tests(place: str, arguments: list[str], limit: int) -> Results:
    """Run tests, and record the results below ``place``."""
    repository = open_repository(place)
    before = repository.count()
    ended = subprocess.run([*STESTR, '--repo-url', place, 'run', *arguments], check=False,
                           env={**os.environ, 'BLOCKATTACH_TEST_LIMIT': str(limit)})
    if repository.count() == before:
        return Results(ended=ended.returncode)
    return _latest(repository, ended.returncode)


def passes_alone(name: str, limit: int) -> bool:
    """Return True if a test passes when it is run alone. The result is not recorded."""
    with tempfile.TemporaryDirectory() as folder:
        found = _WHOLE.match(name)
        if found:
            selected = ['^' + re.escape(found['name']) + r'\.']
        else:
            selected = _named([name], folder)
        results = run_tests(folder, ['--concurrency', '1', *selected], limit)
    return bool(results.passed) and not results.failed and not results.ended


def _named(names: Iterable[str], folder: str) -> list[str]:
    """Return the arguments with which stestr runs these tests without a search.

    A search takes stestr as long as importing all tests.
    """
    path = pathlib.Path(folder, 'names')
    path.write_text('\n'.join([*names, '']), encoding='utf-8')
    return ['--load-list', str(path)]


def open_repository(place: str) -> file.Repository:
    """Return the records of stestr below a directory, which are created if needed."""
    factory = file.RepositoryFactory()
    try:
        return factory.open(place)
    except abstract.RepositoryNotFound:
        return factory.initialise(place)


def _latest(repository: file.Repository, ended: int) -> Results:
    tests: list[Any] = []
    result = testtools.StreamToDict(tests.append)
    result.startTestRun()
    stream = repository.get_test_run(repository.latest_id()).get_subunit_stream()
    subunit.ByteStreamToStreamResult(io.BytesIO(stream.read())).run(result)
    result.stopTestRun()
    by_status = {'success': 'passed', 'xfail': 'passed', 'skip': 'skipped'}
    ends: dict[str, list[str]] = {'passed': [], 'failed': [], 'skipped': []}
    for test in tests:
        ends[by_status.get(test['status'], 'failed')].append(test['id'])
    timings = tuple(
        durations.Timing(test['id'], ' '.join(sorted(test['tags'])),
                         *(moment.timestamp() for moment in test['timestamps']))
        for test in tests if None not in test['timestamps'])
    return Results(tuple(ends['passed']), tuple(ends['failed']), tuple(ends['skipped']), ended,
                   timings)


def main() -> int:
    """Run the tests, rerun failed ones, and print the verdict."""
    parser = argparse.ArgumentParser(prog='tools/gate/judge.py', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--concurrency', default='2', help='number of processes that run tests')
    parser.add_argument('--limit', type=int, default=LIMIT, metavar='SECONDS',
                        help='seconds after which a worker counts as hanging')
    parser.add_argument('--write-durations', action='store_true',
                        help=f'update {durations.RECORD} if the run passes')
    parser.add_argument('filters', nargs='*', help='regular expressions that select tests')
    asked = parser.parse_args()
    listed = list_tests(asked.filters)
    if not listed:
        print('Cannot list the tests, or none is selected\n0 passed, 1 failed, 0 skipped')
        return 1
    recorded = durations.parse(_text(durations.RECORD))
    # stestr records durations under test names without tags.
    durations.replace_history(pathlib.Path(open_repository('.').base), {
        utils.cleanup_test_name(name): took
        for name, took in durations.shared(listed, recorded).items()})
    with tempfile.TemporaryDirectory() as folder:
        results = run_tests('.', ['--concurrency', asked.concurrency, *_named(listed, folder)],
                            asked.limit)
    # A run in which a worker died fails anyway, so its failures are not rerun.
    passed_alone = set() if not_run(listed, results) else _passed_alone(results, asked.limit)
    verdict = judge(results, listed, passed_alone, _text(KNOWN).splitlines())
    if asked.write_durations and not verdict.reasons:
        durations.RECORD.write_text(durations.refreshed(recorded, results.timings),
                                    encoding='utf-8')
    print('', *durations.summary(results.timings), sep='\n')
    _print(verdict, results)
    return 1 if verdict.reasons else 0


def _passed_alone(results: Results, limit: int) -> set[str]:
    passed = set()
    for name in results.failed if len(results.failed) <= RERUN_ALLOWED else ():
        print(f'\nRerunning alone: {name}', flush=True)
        if passes_alone(name, limit):
            passed.add(name)
    return passed


def _text(path: pathlib.Path) -> str:
    return path.read_text(encoding='utf-8') if path.exists() else ''


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
