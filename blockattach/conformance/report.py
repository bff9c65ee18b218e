"""Reports of the conformance kits: proved, skipped and failed behaviors of a driver.

Each test class prints a short report after its tests. The report names each skipped behavior and
the reason::

    conformance: FileStoreTest: 56 behaviors: 51 proved, 4 not declared, 1 skipped, 0 failed
    conformance: FileStoreTest: declared: clone; proved: clone
    conformance: FileStoreTest: skipped a device in use is refused: no lsof

``blockattach-conformance MODULE`` prints the whole table of a driver.
"""
import collections
import dataclasses
import enum
import sys
import unittest
from collections.abc import Iterable
from typing import Any
from typing import ClassVar
from typing import NoReturn
from typing import TextIO

from blockattach.storage.drivers import base

_UNDECLARED = 'the driver does not declare '


class Outcome(enum.StrEnum):
    """Outcome of the test of one behavior."""

    PROVED = 'proved'
    NOT_DECLARED = 'not declared'
    SKIPPED = 'skipped'
    FAILED = 'failed'


@dataclasses.dataclass(frozen=True, slots=True)
class Behavior:
    """Result of testing one named behavior of a contract on a driver.

    :ivar contract: name of the class that defines the test
    :ivar why: reason of a skipped or failed behavior
    """

    contract: str
    name: str
    outcome: Outcome
    why: str = ''


@dataclasses.dataclass(slots=True)
class Report:
    """Result of running a kit, or a part of it, on one driver.

    :ivar driver: name of the test class; name of the driver class in a joined report
    :ivar provable: capabilities that this part of the kit can prove
    :ivar declared: capabilities that the driver declares
    :ivar whole: True if all behaviors of the part were run, not a selection
    :ivar subject: name of the driver class; empty until a test has created a driver
    """

    driver: str
    provable: frozenset[str] = frozenset()
    declared: frozenset[str] = frozenset()
    proved: set[str] = dataclasses.field(default_factory=set)
    behaviors: list[Behavior] = dataclasses.field(default_factory=list)
    whole: bool = True
    subject: str = ''

    def unproved(self) -> frozenset[str]:
        """Return the declared capabilities in ``provable`` that no test has proved."""
        return (self.declared & self.provable) - self.proved

    def undeclared(self) -> frozenset[str]:
        """Return the capabilities that were proved but are not declared."""
        return frozenset(self.proved) - self.declared

    def count(self, outcome: Outcome) -> int:
        return sum(behavior.outcome is outcome for behavior in self.behaviors)

    def join(self, other: 'Report') -> None:
        """Add the report of another part of the kit on the same driver."""
        self.provable |= other.provable
        self.declared |= other.declared
        self.proved |= other.proved
        self.behaviors += other.behaviors
        self.whole = self.whole and other.whole

    def head(self) -> list[str]:
        """Return lines with the numbers of behaviors by outcome, and with the capabilities."""
        counts = ', '.join(f'{self.count(outcome)} {outcome}' for outcome in Outcome)
        return [f'{len(self.behaviors)} behaviors: {counts}',
                f'declared: {_words(self.declared)}; proved: {_words(self.proved)}',
                *(f'declared and not proved: {name}' for name in sorted(self.unproved())),
                *(f'proved and not declared: {name}' for name in sorted(self.undeclared()))]

    def lines(self) -> list[str]:
        """Return the short report, which lists skipped and failed behaviors only."""
        unproved = [f'{behavior.outcome} {behavior.name}: {behavior.why}'
                    for behavior in self.behaviors
                    if behavior.outcome in (Outcome.SKIPPED, Outcome.FAILED)]
        return [f'conformance: {self.driver}: {line}' for line in (*self.head(), *unproved)]

    def table(self) -> list[str]:
        """Return the full report, which lists every behavior by contract."""
        by_contract: dict[str, list[Behavior]] = collections.defaultdict(list)
        for one in self.behaviors:
            by_contract[one.contract].append(one)
        found = [self.driver, *(f'  {line}' for line in self.head())]
        for contract, behaviors in by_contract.items():
            found.append(f'  {contract}')
            found += [f'    {one.outcome:12}  {one.name}{f": {one.why}" if one.why else ""}'
                      for one in behaviors]
        return found

    def print(self, stream: TextIO | None = None) -> None:
        """Print the short report.

        :param stream: output stream; None for standard error
        """
        for line in self.lines():
            print(line, file=stream or sys.stderr)


class Reported(unittest.TestCase):
    """Base class of the kits, which records declared capabilities and the outcomes of tests.

    :cvar provable: capabilities that this part of a kit can prove
    :cvar prints_report: True if each test class prints its report after its tests
    """

    prints_report: ClassVar[bool] = True
    provable: ClassVar[frozenset[str]] = frozenset()
    report: Report

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        # A test class may derive from several parts of a kit. It inherits the attribute `provable`
        # of the first part only.
        cls.report = Report(cls.__name__, frozenset().union(
            *(vars(kind).get('provable', ()) for kind in cls.__mro__)))

    @classmethod
    def tearDownClass(cls) -> None:
        known = unittest.TestLoader().getTestCaseNames(cls)
        cls.report.whole = len(cls.report.behaviors) >= len(known)
        super().tearDownClass()
        if not cls.prints_report:
            return
        cls.report.print()
        if cls.report.undeclared():
            raise AssertionError(f'{cls.report.driver} supports undeclared capabilities: '
                                 f'{_words(cls.report.undeclared())}')
        # A skipped behavior may be the one that proves a capability, for instance if this machine
        # has no initiator. A failed behavior has been reported.
        left_out = cls.report.count(Outcome.SKIPPED) or cls.report.count(Outcome.FAILED)
        if cls.report.whole and cls.report.unproved() and not left_out:
            raise AssertionError(f'{cls.report.driver} declares unproved capabilities: '
                                 f'{_words(cls.report.unproved())}')

    def run(self, result: unittest.TestResult | None = None) -> unittest.TestResult | None:
        """Run the test, and add the outcome to the report of the class."""
        noted = _Noted(self.defaultTestResult() if result is None else result)
        # unittest accepts any object with the methods of a result.
        super().run(noted)  # type: ignore[arg-type]
        # unittest does not call setUpClass of a skipped class, so the class has no report.
        if hasattr(self, 'report'):
            self.report.behaviors.append(Behavior(
                _contract_of(type(self), self._testMethodName), _sentence(self._testMethodName),
                noted.outcome, noted.why))
        return noted.result

    def declares(self, driver: object) -> None:
        """Record the capabilities that a driver declares.

        The test fails if the driver has only some of the methods of a capability.
        """
        self.report.subject = type(driver).__name__
        self.report.declared = base.declared(driver)
        for name, missing in _halves(driver).items():
            self.fail(f'{type(driver).__name__} implements only a part of {name}, which would '
                      f'therefore not be used; missing: {_words(missing)}')

    def needs(self, capability: str) -> None:
        """Skip the test unless the driver declares the capability."""
        if capability not in self.report.declared:
            raise unittest.SkipTest(f'{_UNDECLARED}{capability}')

    def proves(self, capability: str) -> None:
        """Record that the running test has proved a capability."""
        self.report.proved.add(capability)

    def leaves_out(self, behavior: str, reason: str) -> NoReturn:
        """Skip the running test, which is not possible with this driver or environment.

        :param behavior: description of the untested behavior
        :param reason: reason, which the report shows
        """
        raise unittest.SkipTest(f'{behavior}: {reason}')


def _halves(driver: object) -> dict[str, list[str]]:
    """Return the missing methods of each capability that a driver implements only in part."""
    found = {}
    for name, protocol in base.CAPABILITIES.items():
        verbs = [verb for verb in vars(protocol) if not verb.startswith('_')]
        missing = [verb for verb in verbs if not callable(getattr(driver, verb, None))]
        if missing and len(missing) < len(verbs):
            found[name] = missing
    return found


class _Noted:
    """Proxy for the result of any test runner, which records the outcome of one test."""

    def __init__(self, result: unittest.TestResult) -> None:
        self.result = result
        self.outcome, self.why = Outcome.PROVED, ''

    def __getattr__(self, name: str) -> Any:
        # Test runners add methods and attributes of their own to their results.
        return getattr(self.result, name)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802
        self.outcome, self.why = Outcome.SKIPPED, reason
        if reason.startswith(_UNDECLARED):
            # The capability is optional, so this is not a gap in the test.
            self.outcome = Outcome.NOT_DECLARED
        self.result.addSkip(test, reason)

    def addFailure(self, test: unittest.TestCase, error: Any) -> None:  # noqa: N802
        self._fail(error)
        self.result.addFailure(test, error)

    def addError(self, test: unittest.TestCase, error: Any) -> None:  # noqa: N802
        self._fail(error)
        self.result.addError(test, error)

    def addSubTest(self, test: unittest.TestCase, part: unittest.TestCase, error: Any) -> None:  # noqa: N802
        # unittest also reports successful subtests, with None.
        if error is not None:
            self._fail(error)
        self.result.addSubTest(test, part, error)

    def _fail(self, error: Any) -> None:
        lines = str(error[1]).strip().splitlines()
        self.outcome, self.why = Outcome.FAILED, lines[0] if lines else error[0].__name__


def behaviors(*kits: type[Reported]) -> list[tuple[str, str]]:
    """Return the contract and the name of each behavior that the kits test."""
    return [(_contract_of(kit, name), _sentence(name)) for kit in kits
            for name in unittest.TestLoader().getTestCaseNames(kit)]


def _contract_of(kind: type[unittest.TestCase], method: str) -> str:
    return next(one.__name__ for one in kind.__mro__ if method in vars(one))


def _sentence(method: str) -> str:
    return method.removeprefix('test_').replace('_', ' ')


def _words(words: Iterable[str]) -> str:
    return ', '.join(sorted(words)) or '-'
