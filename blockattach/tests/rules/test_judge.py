"""Verdicts of tools/gate/judge.py on failing tests of a small project of its own."""
import configparser
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest

from blockattach.tests.fixtures import exhaustive
from blockattach.tests.rules import sources

# Package `played`, whose test fails unless a file exists, which the failure creates.
TESTS = """
    import os
    import pathlib
    import signal
    import unittest

    def fail_once(case):
        seen = pathlib.Path(__file__).with_name(case.id())
        if not seen.exists():
            seen.touch()
            case.fail('by chance')

    class PlayedTest(unittest.TestCase):

        def test_good(self):
            pass

        def test_skipped(self):
            self.skipTest('not here')
"""
BY_CHANCE = """
        def test_{name}(self):
            fail_once(self)
"""
BROKEN = """
        def test_broken(self):
            self.fail('always')
"""
BROKEN_CLASS = """
    class ClassTest(unittest.TestCase):

        @classmethod
        def setUpClass(cls):
            seen = pathlib.Path(__file__).with_name('class')
            if not seen.exists():
                seen.touch()
                raise OSError('by chance')

        def test_good(self):
            pass
"""
SKIPPED_CLASS = """
    class ClassTest(unittest.TestCase):

        @classmethod
        def setUpClass(cls):
            raise unittest.SkipTest('not here')

        def test_good(self):
            pass
"""
DEADLY = """
        def test_deadly(self):
            seen = pathlib.Path(__file__).with_name('deadly')
            if not seen.exists():
                seen.touch()
                os.kill(os.getpid(), signal.SIGKILL)

        def test_that_comes_after(self):
            pass
"""
HANGING = """
        def test_hanging(self):
            import blockattach.tests
            signal.pause()
"""
FOUND = 'played.test_played.PlayedTest'


def workers_of(lines):
    """Return the modules of each worker, from stestr's lines ``{1} played.test_x...``."""
    workers = {}
    for found in filter(None, (re.match(r'\{(\d+)\} (\w+\.\w+)\.', line) for line in lines)):
        workers.setdefault(found[1], set()).add(found[2])
    return workers


class JudgeTestCase(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / '.stestr.conf').write_text('[DEFAULT]\ntest_path=./played\ntop_dir=./\n')

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def judge(self, *parts, arguments=('--concurrency', '1')):
        """Run a project with these tests, and return exit status and output lines."""
        self.write('played/__init__.py', '')
        self.write('played/test_played.py', textwrap.dedent(TESTS + ''.join(parts)))
        done = subprocess.run(
            [sys.executable, str(sources.ROOT / 'tools' / 'gate' / 'judge.py'), *arguments],
            cwd=self.root, env={**os.environ, 'PYTHON': sys.executable},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.returncode, done.stdout.splitlines()


@exhaustive.only
class JudgeTest(JudgeTestCase):

    def test_passing_run_accepted(self):
        status, lines = self.judge()
        self.assertEqual((0, ['0 flaky', '1 passed, 0 failed, 1 skipped']), (status, lines[-2:]))

    def test_flaky_test_named(self):
        status, lines = self.judge(BY_CHANCE.format(name='rare'))
        self.assertEqual((0, [f'flaky: {FOUND}.test_rare', '1 flaky',
                              '2 passed, 0 failed, 1 skipped']), (status, lines[-3:]))
        slowest, layers = lines.index('Slowest tests:'), lines.index('Layers:')
        self.assertEqual({f'{FOUND}.test_good', f'{FOUND}.test_rare', f'{FOUND}.test_skipped'},
                         {line.split()[-1] for line in lines[slowest + 1:layers]})
        self.assertRegex(lines[layers + 1], r'^ +[0-9]+\.[0-9] s +3 tests  played$')
        self.assertEqual(f'flaky: {FOUND}.test_rare', lines[layers + 2])

    def test_repeated_failure_fails_run_and_keeps_durations(self):
        self.write('blockattach/tests/durations.txt', 'played.test_played 7.0\n')
        status, lines = self.judge(BROKEN, arguments=('--write-durations',))
        self.assertEqual((1, [f'Failed: {FOUND}.test_broken', '0 flaky',
                              'The run does not pass: 1 failed', '1 passed, 1 failed, 1 skipped']),
                         (status, lines[-4:]))
        self.assertEqual('played.test_played 7.0\n',
                         (self.root / 'blockattach' / 'tests' / 'durations.txt').read_text())

    def test_two_flaky_tests_fail_run(self):
        status, lines = self.judge(BY_CHANCE.format(name='rare'), BY_CHANCE.format(name='seldom'))
        self.assertEqual((1, [f'flaky: {FOUND}.test_rare', f'flaky: {FOUND}.test_seldom',
                              '2 flaky',
                              'The run does not pass: 2 flaky tests, at most 1 is allowed',
                              '1 passed, 2 failed, 1 skipped']), (status, lines[-5:]))

    def test_known_flaky_test_fails_run(self):
        self.write('doc/source/contributor/flaky.txt',
                   f'# A comment\n{FOUND}.test_rare a race in the fixture\n')
        status, lines = self.judge(BY_CHANCE.format(name='rare'))
        self.assertEqual((1, '1 passed, 1 failed, 1 skipped'), (status, lines[-1]))
        self.assertIn(f'{FOUND}.test_rare was flaky before', lines[-2])

    def test_failed_class_setup_repeated(self):
        status, lines = self.judge(BROKEN_CLASS)
        self.assertEqual((0, [f'flaky: setUpClass ({FOUND.replace("Played", "Class")})', '1 flaky',
                              '2 passed, 0 failed, 1 skipped']), (status, lines[-3:]))

    def test_known_flaky_class_fails_run(self):
        self.write('doc/source/contributor/flaky.txt',
                   f'setUpClass ({FOUND.replace("Played", "Class")}) a race in the fixture\n')
        status, lines = self.judge(BROKEN_CLASS)
        self.assertEqual((1, '1 passed, 1 failed, 1 skipped'), (status, lines[-1]))

    def test_known_name_prefix_does_not_match(self):
        self.write('doc/source/contributor/flaky.txt', f'{FOUND}.test_rarely a race\n')
        status, lines = self.judge(BY_CHANCE.format(name='rare'))
        self.assertEqual((0, '2 passed, 0 failed, 1 skipped'), (status, lines[-1]))

    def test_many_failures_not_repeated(self):
        status, lines = self.judge(*(BY_CHANCE.format(name=f'n{number}') for number in range(11)))
        self.assertEqual((1, '1 passed, 11 failed, 1 skipped'), (status, lines[-1]))
        self.assertNotIn('Once more', '\n'.join(lines))

    def test_dead_worker_fails_run(self):
        status, lines = self.judge(DEADLY)
        self.assertEqual(1, status, lines)
        self.assertIn(f'Failed: {FOUND}.test_that_comes_after', lines)
        self.assertIn('The run does not pass: 3 did not run', lines)

    def test_hanging_worker_killed_and_fails_run(self):
        status, lines = self.judge(HANGING, arguments=('--concurrency', '1', '--limit', '1'))
        self.assertEqual(1, status, lines)
        self.assertIn(f'Failed: {FOUND}.test_skipped', lines)
        self.assertIn(' in test_hanging', '\n'.join(lines))

    def test_import_error_fails_run(self):
        self.write('played/test_unknown.py', 'import nowhere_to_be_found\n')
        status, lines = self.judge()
        self.assertEqual((1, '0 passed, 1 failed, 0 skipped'), (status, lines[-1]))
        self.assertIn('nowhere_to_be_found', '\n'.join(lines))

    def test_skipped_class_counts_as_run(self):
        status, lines = self.judge(SKIPPED_CLASS)
        self.assertEqual((0, '1 passed, 0 failed, 2 skipped'), (status, lines[-1]))

    def test_empty_run_fails(self):
        self.write('.stestr.conf', '[DEFAULT]\ntest_path=./empty\ntop_dir=./\n')
        self.write('empty/__init__.py', '')
        status, lines = self.judge()
        self.assertEqual((1, '0 passed, 1 failed, 0 skipped'), (status, lines[-1]))


class RecordTest(JudgeTestCase):

    @exhaustive.only
    def test_recorded_durations_partition_tests(self):
        self.write('.stestr.conf', '[DEFAULT]\ntest_path=./played\ntop_dir=./\n'
                                   'group_regex=(?:[^.]+[.])+\n')
        for name in ('b', 'c', 'd'):
            self.write(f'played/test_{name}.py', textwrap.dedent(TESTS))
        # One worker runs only the slowest module, and the other worker the rest.
        for slow in ('b', 'd'):
            with self.subTest(slow):
                self.write('blockattach/tests/durations.txt', f'played.test_{slow} 9.0\n')
                status, lines = self.judge(arguments=('--concurrency', '2'))
                self.assertEqual(0, status, lines)
                workers = workers_of(lines)
                alone, = (worker for worker, modules in workers.items()
                          if f'played.test_{slow}' in modules)
                self.assertEqual([{f'played.test_{slow}'}, 3],
                                 [workers.pop(alone), *map(len, workers.values())])

    def test_write_durations_replaces_record(self):
        record = self.root / 'blockattach' / 'tests' / 'durations.txt'
        self.write('played/test_other.py', textwrap.dedent(TESTS))
        self.write('blockattach/tests/durations.txt',
                   'played.test_gone 5.0\nplayed.test_other 6.0\nplayed.test_played 7.0\n')
        status, lines = self.judge(arguments=('--write-durations', 'test_played'))
        self.assertEqual((0, '1 passed, 0 failed, 1 skipped'), (status, lines[-1]))
        # A faster module gets no line.
        self.assertEqual('played.test_other 6.0\n', record.read_text())


class RuleTest(unittest.TestCase):

    def test_unexplained_exit_status_fails_run(self):
        judge = sources.load_tool('judge')
        for ended, reasons in ((0, 0), (1, 1), (100, 1)):
            with self.subTest(ended):
                verdict = judge.judge(judge.Results(passed=('one',), ended=ended), ['one'], (), ())
                self.assertEqual(reasons, len(verdict.reasons), verdict)


class DurationsTest(unittest.TestCase):

    def setUp(self):
        self.durations = sources.load_tool('durations')

    def test_every_listed_test_has_duration(self):
        self.assertEqual(
            {'a.test_x.One.test_1': 2.0, 'a.test_x.Two.test_1': 2.0,
             'a.test_y.One.test_1': self.durations.UNRECORDED},
            self.durations.shared(('a.test_x.One.test_1', 'a.test_x.Two.test_1',
                                   'a.test_y.One.test_1'), {'a.test_x': 4.0, 'a.test_z': 9.0}))

    def test_layer_is_package_below_tests(self):
        for name, layer in (
                ('blockattach.tests.unit.rpc.test_rabbit.Test.test_x', 'unit'),
                ('setUpClass (blockattach.tests.db.test_races.RacesTest)', 'db'),
                ('blockattach.tests.smoke.test_all.Test.test_it_latest_of(all)', 'smoke')):
            with self.subTest(name):
                self.assertEqual(layer, self.durations.layer_of(name))

    def test_class_setup_counted_for_first_test(self):
        timing = self.durations.Timing
        self.assertEqual(
            {'a': 1.0, 'b': 4.0, 'c': 2.0},
            dict(self.durations.spent((timing('c', 'worker-1', 5.0, 7.0),
                                       timing('b', 'worker-0', 4.0, 5.0),
                                       timing('a', 'worker-0', 0.0, 1.0)))))

    def test_refreshed_record_keeps_existing_modules(self):
        timing = self.durations.Timing
        here, gone = 'blockattach.tests.rules.test_judge', 'blockattach.tests.rules.test_gone'
        ran = (timing('z.test_slow.One.test_1', 'worker-0', 0.0, 2.0),
               timing('z.test_slow.One.test_2', 'worker-1', 0.0, 1.26),
               timing('z.test_quick.One.test_1', 'worker-1', 1.26, 2.2))
        self.assertEqual(
            f'{here} 5.0\nz.test_slow 3.3\n',
            self.durations.refreshed({gone: 9.0, here: 5.0, 'z.test_quick': 7.0}, ran,
                                     sources.ROOT))


class GroupsTest(unittest.TestCase):

    def test_smoke_layer_is_one_group_others_by_class(self):
        settings = configparser.ConfigParser()
        settings.read(sources.ROOT / '.stestr.conf')
        pattern = re.compile(settings['DEFAULT']['group_regex'])
        names = ('smoke.test_a.OneTest.test_1', 'smoke.test_b.OneTest.test_1',
                 'unit.test_a.OneTest.test_1', 'unit.test_a.OneTest.test_2',
                 'unit.test_a.TwoTest.test_1')
        self.assertEqual(
            ['smoke.', 'smoke.', *['unit.test_a.OneTest.'] * 2, 'unit.test_a.TwoTest.'],
            [pattern.match(f'blockattach.tests.{name}')[0].removeprefix('blockattach.tests.')
             for name in names])
