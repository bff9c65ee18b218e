"""What a kit found, told where people see it: a skipped behaviour must not look like a proved one.

Printed once a driver, when its kit has run::

    conformance: FileStore: declared: clone; proved: clone; not declared: -; skipped: -
"""
import dataclasses
import sys
import unittest
from collections.abc import Iterable
from typing import NoReturn
from typing import TextIO


@dataclasses.dataclass(slots=True)
class Report:
    """One driver's run of a kit. ``known`` are the capabilities that the kit can prove."""

    driver: str
    known: frozenset[str]
    declared: frozenset[str] = frozenset()
    proved: set[str] = dataclasses.field(default_factory=set)
    skipped: dict[str, str] = dataclasses.field(default_factory=dict)

    def lines(self) -> list[str]:
        """The report as text."""
        head = (f'conformance: {self.driver}: declared: {_words(self.declared)}; '
                f'proved: {_words(self.proved)}; '
                f'not declared: {_words(self.known - self.declared)}; '
                f'skipped: {_words(self.skipped)}')
        return [head, *(f'conformance: {self.driver}: skipped {behaviour}: {reason}'
                        for behaviour, reason in sorted(self.skipped.items()))]

    def print(self, stream: TextIO | None = None) -> None:
        """Tell it, to standard error unless said otherwise."""
        for line in self.lines():
            print(line, file=stream or sys.stderr)


class Reported(unittest.TestCase):
    """Base of the kits: knows what was declared, and notes what was proved or left out."""

    known_capabilities: frozenset[str] = frozenset()
    report: Report

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.report = Report(cls.__name__, cls.known_capabilities)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.report.print()
        super().tearDownClass()

    def needs(self, capability: str) -> None:
        """Skip unless declared; `proves` notes the proof when the test has seen it."""
        if capability not in self.report.declared:
            self.skipTest(f'the driver does not declare {capability}')

    def proves(self, capability: str) -> None:
        """Note that a declared capability was seen to work."""
        self.report.proved.add(capability)

    def leaves_out(self, behaviour: str, reason: str) -> NoReturn:
        """Skip a behaviour that this set-up cannot show, and say so in the report."""
        self.report.skipped[behaviour] = reason
        raise unittest.SkipTest(reason)


def _words(words: Iterable[str]) -> str:
    return ', '.join(sorted(words)) or '-'
