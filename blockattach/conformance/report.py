"""The report of a kit, where people see it: a skipped behaviour must not look like a proved one.

Printed once a class, when it has run::

    conformance: FileStoreTest: 56 behaviours: 51 proved, 4 not declared, 1 skipped, 0 failed
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
    """How one behaviour came out."""

    PROVED = 'proved'
    NOT_DECLARED = 'not declared'
    SKIPPED = 'skipped'
    FAILED = 'failed'


@dataclasses.dataclass(frozen=True, slots=True)
class Behaviour:
    """One named sentence of a contract, tried on a driver. ``why``: of what was left out."""

    contract: str
    name: str
    outcome: Outcome
    why: str = ''


@dataclasses.dataclass(slots=True)
class Report:
    """One driver's run of a kit, or of a part of it.

    :ivar subject: the class of the driver, once one was made
    :ivar provable: the capabilities that this part can prove
    :ivar whole: every behaviour of the part was run, not a chosen few
    """

    driver: str
    provable: frozenset[str] = frozenset()
    declared: frozenset[str] = frozenset()
    proved: set[str] = dataclasses.field(default_factory=set)
    behaviours: list[Behaviour] = dataclasses.field(default_factory=list)
    whole: bool = True
    subject: str = ''

    def unproved(self) -> frozenset[str]:
        """What is declared, could be proved here, and was not."""
        return (self.declared & self.provable) - self.proved

    def undeclared(self) -> frozenset[str]:
        """Capabilities that work, and are not declared."""
        return frozenset(self.proved) - self.declared

    def count(self, outcome: Outcome) -> int:
        """How many behaviours came out so."""
        return sum(one.outcome is outcome for one in self.behaviours)

    def join(self, other: 'Report') -> None:
        """Add what another part of the kit found of the driver."""
        self.provable |= other.provable
        self.declared |= other.declared
        self.proved |= other.proved
        self.behaviours += other.behaviours
        self.whole = self.whole and other.whole

    def head(self) -> list[str]:
        """How many behaviours came out how, and the capabilities."""
        counts = ', '.join(f'{self.count(outcome)} {outcome}' for outcome in Outcome)
        return [f'{len(self.behaviours)} behaviours: {counts}',
                f'declared: {_words(self.declared)}; proved: {_words(self.proved)}',
                *(f'declared and not proved: {name}' for name in sorted(self.unproved())),
                *(f'proved and not declared: {name}' for name in sorted(self.undeclared()))]

    def lines(self) -> list[str]:
        """The report in short: what was not proved only."""
        left = [f'{one.outcome} {one.name}: {one.why}' for one in self.behaviours
                if one.outcome in (Outcome.SKIPPED, Outcome.FAILED)]
        return [f'conformance: {self.driver}: {line}' for line in (*self.head(), *left)]

    def table(self) -> list[str]:
        """The report in full: every behaviour, by contract."""
        by_contract: dict[str, list[Behaviour]] = collections.defaultdict(list)
        for one in self.behaviours:
            by_contract[one.contract].append(one)
        found = [self.driver, *(f'  {line}' for line in self.head())]
        for contract, behaviours in by_contract.items():
            found.append(f'  {contract}')
            found += [f'    {one.outcome:12}  {one.name}{f": {one.why}" if one.why else ""}'
                      for one in behaviours]
        return found

    def print(self, stream: TextIO | None = None) -> None:
        """Print it in short, by default to standard error."""
        for line in self.lines():
            print(line, file=stream or sys.stderr)


class Reported(unittest.TestCase):
    """Base of the kits: knows what was declared, and notes what was proved or left out.

    :cvar provable: the capabilities that this part of a kit can prove
    :cvar prints_report: whether a class prints its report once it has run
    """

    prints_report: ClassVar[bool] = True
    provable: ClassVar[frozenset[str]] = frozenset()
    report: Report

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.report = Report(cls.__name__, frozenset().union(
            *(vars(kind).get('provable', ()) for kind in cls.__mro__)))

    @classmethod
    def tearDownClass(cls) -> None:
        known = unittest.TestLoader().getTestCaseNames(cls)
        cls.report.whole = len(cls.report.behaviours) >= len(known)
        super().tearDownClass()
        if not cls.prints_report:
            return
        cls.report.print()
        if cls.report.undeclared():
            raise AssertionError(f'{cls.report.driver} supports undeclared capabilities: '
                                 f'{_words(cls.report.undeclared())}')
        left_out = cls.report.count(Outcome.SKIPPED) or cls.report.count(Outcome.FAILED)
        if cls.report.whole and cls.report.unproved() and not left_out:
            raise AssertionError(f'{cls.report.driver} declares unproved capabilities: '
                                 f'{_words(cls.report.unproved())}')

    def run(self, result: unittest.TestResult | None = None) -> unittest.TestResult | None:
        """As always, and note how the behaviour came out."""
        noted = _Noted(self.defaultTestResult() if result is None else result)
        # What is called like a result is one to unittest, of whatever runner.
        super().run(noted)  # type: ignore[arg-type]
        # unittest does not call setUpClass of a skipped class, so the class has no report.
        if hasattr(self, 'report'):
            self.report.behaviours.append(Behaviour(
                _contract_of(type(self), self._testMethodName), _sentence(self._testMethodName),
                noted.outcome, noted.why))
        return noted.result

    def declares(self, driver: object) -> None:
        """Note what a driver declares; one that has half of a capability is refused."""
        self.report.subject = type(driver).__name__
        self.report.declared = base.declared(driver)
        for name, missing in _halves(driver).items():
            self.fail(f'{type(driver).__name__} implements only a part of {name}, which would '
                      f'therefore not be used; missing: {_words(missing)}')

    def needs(self, capability: str) -> None:
        """Skip unless declared; `proves` notes the proof."""
        if capability not in self.report.declared:
            raise unittest.SkipTest(f'{_UNDECLARED}{capability}')

    def proves(self, capability: str) -> None:
        """Note that a capability works."""
        self.report.proved.add(capability)

    def leaves_out(self, behaviour: str, reason: str) -> NoReturn:
        """Skip a behaviour that this set-up cannot show, and say so in the report."""
        raise unittest.SkipTest(f'{behaviour}: {reason}')


def _halves(driver: object) -> dict[str, list[str]]:
    """Capabilities of which a driver has some methods and not all, with those that it lacks."""
    found = {}
    for name, protocol in base.CAPABILITIES.items():
        verbs = [verb for verb in vars(protocol) if not verb.startswith('_')]
        missing = [verb for verb in verbs if not callable(getattr(driver, verb, None))]
        if missing and len(missing) < len(verbs):
            found[name] = missing
    return found


class _Noted:
    """A result of any runner, which remembers how the one test came out."""

    def __init__(self, result: unittest.TestResult) -> None:
        self.result = result
        self.outcome, self.why = Outcome.PROVED, ''

    def __getattr__(self, name: str) -> Any:
        return getattr(self.result, name)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802
        self.outcome, self.why = Outcome.SKIPPED, reason
        if reason.startswith(_UNDECLARED):
            # The driver does not say that it can do this: nothing is missing.
            self.outcome = Outcome.NOT_DECLARED
        self.result.addSkip(test, reason)

    def addFailure(self, test: unittest.TestCase, error: Any) -> None:  # noqa: N802
        self._fail(error)
        self.result.addFailure(test, error)

    def addError(self, test: unittest.TestCase, error: Any) -> None:  # noqa: N802
        self._fail(error)
        self.result.addError(test, error)

    def addSubTest(self, test: unittest.TestCase, part: unittest.TestCase, error: Any) -> None:  # noqa: N802
        if error is not None:
            self._fail(error)
        self.result.addSubTest(test, part, error)

    def _fail(self, error: Any) -> None:
        lines = str(error[1]).strip().splitlines()
        self.outcome, self.why = Outcome.FAILED, lines[0] if lines else error[0].__name__


def behaviours(*kits: type[Reported]) -> list[tuple[str, str]]:
    """Each behaviour that kits try: the contract that names it, and its name."""
    return [(_contract_of(kit, name), _sentence(name)) for kit in kits
            for name in unittest.TestLoader().getTestCaseNames(kit)]


def _contract_of(kind: type[unittest.TestCase], method: str) -> str:
    """The class that promises a behaviour: where its test is written."""
    return next(one.__name__ for one in kind.__mro__ if method in vars(one))


def _sentence(method: str) -> str:
    return method.removeprefix('test_').replace('_', ' ')


def _words(words: Iterable[str]) -> str:
    return ', '.join(sorted(words)) or '-'
