"""Runner of the test cases, which reports the outcome of each case."""
import collections
import json
import re
import sys
import traceback
import unittest
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any
from typing import NamedTuple
from typing import TextIO

from blockattach_tempest_plugin import cases
from blockattach_tempest_plugin import clouds
from blockattach_tempest_plugin import promised
from blockattach_tempest_plugin import sentences
from blockattach_tempest_plugin.cases import base

PASSED, FAILED, SKIPPED, DIFFERS = 'passed', 'failed', 'skipped', 'differs'
STATUSES = (PASSED, FAILED, SKIPPED, DIFFERS)
_SHOWN = {PASSED: 'ok', FAILED: 'FAIL', SKIPPED: 'skip', DIFFERS: 'other'}


class Case(NamedTuple):
    """Test case: a group and the name of a test method."""

    group: type[base.Cases]
    name: str

    @property
    def sentence(self) -> str:
        """Sentence about the expected behavior."""
        return sentences.of_case(self.name)


class Outcome(NamedTuple):
    """Outcome of a test case.

    The status ``differs`` means that a case failed against another service, and that only
    blockattach guarantees its behavior.
    """

    case: Case
    status: str
    reason: str = ''


class _Result(unittest.TestResult):
    """Result of a single test case."""

    status, reason, trace = PASSED, '', ''

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802, unittest's
        self.status, self.reason = SKIPPED, reason

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802, unittest's
        """Record the failure of the case.

        A later failure of the cleanup does not replace the reason.
        """
        if self.status != FAILED:
            lines = str(err[1]).strip().splitlines() or [type(err[1]).__name__]
            self.status, self.reason = FAILED, ' '.join(line.strip() for line in lines)[:300]
        self.trace += ''.join(traceback.format_exception(*err))

    addError = addFailure  # noqa: N815, unittest's


def select(only: str = '') -> list[Case]:
    """Return the cases whose group, name or sentence matches a regular expression."""
    loader, pattern = unittest.TestLoader(), re.compile(only, re.IGNORECASE)
    found = [Case(group, name) for group in cases.GROUPS
             for name in loader.getTestCaseNames(group)]
    return [case for case in found if pattern.search(
        f'{case.group.__name__}.{case.name} {case.sentence}')]


def play(cloud: clouds.Cloud, chosen: Iterable[Case],
         traces: TextIO | None = None) -> Iterator[Outcome]:
    """Run cases and yield their outcomes. Each case cleans up.

    :param traces: stream for the tracebacks of failed cases; None to omit them
    """
    bound: dict[type[base.Cases], type[base.Cases]] = {}
    for case in chosen:
        kind = bound.setdefault(case.group, type(case.group.__name__, (case.group,),
                                                 {'cloud': cloud}))
        result = _Result()
        kind(case.name).run(result)
        status, reason = result.status, result.reason
        if status == FAILED and case.name in promised.PROMISED and cloud.extension is None:
            status, reason = DIFFERS, promised.PROMISED[case.name]
        elif status == FAILED and traces is not None:
            traces.write(result.trace)
        yield Outcome(case, status, reason)


def report(outcomes: Iterable[Outcome], stream: TextIO | None = None) -> list[Outcome]:
    """Print a line for each outcome as it arrives, in groups, and the counts.

    :returns: all outcomes
    """
    stream = stream or sys.stdout
    found: list[Outcome] = []
    for one in outcomes:
        if not found or found[-1].case.group is not one.case.group:
            stream.write(f'\n{title(one.case.group)}\n')
        reason = f' ({one.reason})' if one.reason else ''
        stream.write(f'  {_SHOWN[one.status]:5} {one.case.sentence}{reason}\n')
        stream.flush()
        found.append(one)
    counts = collections.Counter(one.status for one in found)
    stream.write('\n' + ', '.join(f'{counts[status]} {status}' for status in STATUSES) + '\n')
    return found


def title(group: type[base.Cases]) -> str:
    """Return the heading of a group."""
    return sentences.of_group(group.__name__)


def as_json(outcomes: Iterable[Outcome], **about: Any) -> str:
    """Return the outcomes as JSON, in the order in which the cases ran."""
    return json.dumps({**about, 'cases': [{
        'group': title(one.case.group), 'name': one.case.name, 'sentence': one.case.sentence,
        'status': one.status, 'reason': one.reason} for one in outcomes]}, indent=1) + '\n'
