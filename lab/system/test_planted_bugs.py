"""Tests of ``tools/plant-bugs``: bugs are caught, and harmless changes are missed."""
import subprocess
import sys
import unittest

from blockattach.tests.rules import sources
from lab.planted import bugs
from lab.planted import planting

# Any server may attach any volume, which a simulation detects at once.
EVERYBODY = next(bug for bug in bugs.BUGS
                 if bug.name == 'plain_volume_reserved_by_two_servers')
NO_BUG = bugs.Bug(
    'no_bug', 'storage/domain/connection.py',
    '    return AccessMode.RW if AccessMode.RW in set(modes) else AccessMode.RO\n',
    '    return AccessMode.RW if AccessMode.RW in list(modes) else AccessMode.RO\n',
    'none', 'P5')
# Paths are relative to the package.
FALLS_OVER = bugs.Bug('falls_over', '../lab/simulation/play.py',
                      '    def _play(self, steps: int) -> None:\n',
                      '    def _play(self, steps: int) -> None:\n        1 / 0\n',
                      'none', 'P9')


def report(*bugs):
    said = []
    return planting.report(bugs, 2, [(1, 100)], said.append), said


def command(*arguments):
    return subprocess.run(
        [sys.executable, sources.ROOT / 'tools' / 'plant-bugs', *arguments],
        capture_output=True, text=True, check=False)


class PlantingTest(unittest.TestCase):

    def test_harmless_change_missed(self):
        self.assertEqual((1, ['no_bug: missed', '0 of 1 caught']), report(NO_BUG))

    def test_crash_of_every_simulation_caught(self):
        ended, (said, last) = report(FALLS_OVER)
        self.assertEqual((0, '1 of 1 caught'), (ended, last))
        self.assertRegex(said, '^falls_over: caught by seed 1 after 0 operations: P9 fell_over')

    def test_a_test_that_catches_nothing_misses(self):
        ended, said = report(NO_BUG._replace(test='blockattach.tests.unit.test_units'))
        self.assertEqual((1, '0 of 1 caught'), (ended, said[-1]))

    def test_a_test_that_does_not_exist_misses(self):
        ended, said = report(NO_BUG._replace(test='blockattach.tests.unit.test_nothing'))
        self.assertEqual((1, '0 of 1 caught'), (ended, said[-1]))

    def test_bug_that_does_not_fit_raises(self):
        with self.assertRaises(planting.NotPlanted):
            report(NO_BUG, NO_BUG._replace(old='what nobody wrote'))


class CommandTest(unittest.TestCase):

    def test_a_bug_is_caught(self):
        done = command('--only', EVERYBODY.name, '--jobs', '1')
        self.assertEqual((0, ''), (done.returncode, done.stderr))
        self.assertRegex(done.stdout, rf'^{EVERYBODY.name}: caught by seed \d+ after \d+ '
                                      r'operations: P3 slots_are_kept')
        self.assertTrue(done.stdout.endswith('\n1 of 1 caught\n'))

    def test_unknown_bug_name_rejected(self):
        done = command('--only', 'nobody')
        self.assertEqual(2, done.returncode)
        self.assertIn('unknown bug: nobody', done.stderr)
