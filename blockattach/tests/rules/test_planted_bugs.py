"""Each planted bug still fits the code: it can be planted, once, and it is Python."""
import unittest

from blockattach.tests.planted import bugs
from blockattach.tests.planted import planting
from blockattach.tests.rules import sources

units = sources.load_tool('explore_units')
LEAST = 22


class PlantedBugsTest(unittest.TestCase):

    def test_each_can_be_planted(self):
        for bug in bugs.BUGS:
            with self.subTest(bug.name):
                self.assertNotEqual(bug.old, bug.new)
                planting.mutated(bug)

    def test_there_are_enough_with_names_of_their_own(self):
        names = {bug.name for bug in bugs.BUGS}
        self.assertEqual(len(bugs.BUGS), len(names))
        self.assertLessEqual(LEAST, len(names))

    def test_each_breaks_a_promise(self):
        for bug in bugs.BUGS:
            with self.subTest(bug.name):
                self.assertRegex(bug.promise, '^P[1-9]$')

    def test_what_catches_one_is_a_test_of_the_gate(self):
        apart = tuple(f'{units.TESTS}.{name}.' for name in units.APART)
        for bug in bugs.BUGS:
            if bug.test:
                with self.subTest(bug.name):
                    self.assertFalse(bug.test.startswith(apart))
                    found = unittest.TestLoader()
                    self.assertLess(0, found.loadTestsFromName(bug.test).countTestCases())
                    self.assertEqual([], found.errors)

    def test_one_that_fits_no_more_is_named(self):
        stale = bugs.Bug('stale', 'platform/units.py', 'what nobody wrote', '', '', 'P1')
        with self.assertRaisesRegex(planting.NotPlanted,
                                    '^stale: .* 0 times in platform/units.py'):
            planting.mutated(stale)

    def test_one_that_is_no_python_is_named(self):
        broken = bugs.BUGS[0]._replace(name='broken', new='(')
        with self.assertRaisesRegex(planting.NotPlanted, '^broken: .* no Python'):
            planting.mutated(broken)
