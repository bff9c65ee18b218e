"""Planted bugs, each of which fits the code once and stays valid Python."""
import unittest

from lab.explore import units
from lab.planted import bugs
from lab.planted import planting

LEAST = 22


class PlantedBugsTest(unittest.TestCase):

    def test_bugs_plantable(self):
        for bug in bugs.BUGS:
            with self.subTest(bug.name):
                self.assertNotEqual(bug.old, bug.new)
                planting.mutated(bug)

    def test_bug_names_unique_and_many(self):
        names = {bug.name for bug in bugs.BUGS}
        self.assertEqual(len(bugs.BUGS), len(names))
        self.assertLessEqual(LEAST, len(names))

    def test_bugs_name_broken_promise(self):
        for bug in bugs.BUGS:
            with self.subTest(bug.name):
                self.assertRegex(bug.promise, '^P[1-9]$')

    def test_catching_tests_are_in_gate(self):
        for bug in bugs.BUGS:
            if bug.test:
                with self.subTest(bug.name):
                    self.assertTrue(bug.test.startswith(f'{units.TESTS}.'))
                    found = unittest.TestLoader()
                    self.assertLess(0, found.loadTestsFromName(bug.test).countTestCases())
                    self.assertEqual([], found.errors)

    def test_stale_bug_named(self):
        stale = bugs.Bug('stale', 'platform/units.py', 'what nobody wrote', '', '', 'P1')
        with self.assertRaisesRegex(planting.NotPlanted,
                                    '^stale: .* 0 times in platform/units.py'):
            planting.mutated(stale)

    def test_bug_with_invalid_python_named(self):
        broken = bugs.BUGS[0]._replace(name='broken', new='(')
        with self.assertRaisesRegex(planting.NotPlanted, '^broken: .* invalid Python'):
            planting.mutated(broken)
