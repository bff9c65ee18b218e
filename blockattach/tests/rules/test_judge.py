"""What tools/judge.py makes of tests that fail: played on a small project of its own."""
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

from blockattach.tests.rules import sources

# The package `played`: a test of it fails as long as there is no file that it makes by failing.
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
FOUND = 'played.test_played.PlayedTest'


class JudgeTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / '.stestr.conf').write_text('[DEFAULT]\ntest_path=./played\ntop_dir=./\n')

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def judge(self, *parts):
        """Exit status and last lines of a run of the project with these tests."""
        self.write('played/__init__.py', '')
        self.write('played/test_played.py', textwrap.dedent(TESTS + ''.join(parts)))
        done = subprocess.run(
            [sys.executable, str(sources.ROOT / 'tools' / 'judge.py'), '--concurrency', '1'],
            cwd=self.root, env={**os.environ, 'PYTHON': sys.executable},
            stdin=subprocess.DEVNULL, capture_output=True, text=True)
        return done.returncode, done.stdout.splitlines()

    def test_all_is_well(self):
        status, lines = self.judge()
        self.assertEqual((0, ['0 flaky', '1 passed, 0 failed, 1 skipped']), (status, lines[-2:]))

    def test_one_that_passes_alone_is_named(self):
        status, lines = self.judge(BY_CHANCE.format(name='rare'))
        self.assertEqual((0, [f'flaky: {FOUND}.test_rare', '1 flaky',
                              '2 passed, 0 failed, 1 skipped']), (status, lines[-3:]))

    def test_one_that_fails_again_fails_the_run(self):
        status, lines = self.judge(BROKEN)
        self.assertEqual((1, [f'Failed: {FOUND}.test_broken', '0 flaky',
                              'The run does not pass: 1 failed', '1 passed, 1 failed, 1 skipped']),
                         (status, lines[-4:]))

    def test_two_by_chance_fail_the_run(self):
        status, lines = self.judge(BY_CHANCE.format(name='rare'), BY_CHANCE.format(name='seldom'))
        self.assertEqual((1, [f'flaky: {FOUND}.test_rare', f'flaky: {FOUND}.test_seldom',
                              '2 flaky',
                              'The run does not pass: 2 flaky tests, at most 1 is allowed',
                              '1 passed, 2 failed, 1 skipped']), (status, lines[-5:]))

    def test_one_that_is_known_fails_the_run(self):
        self.write('doc/source/contributor/flaky.txt',
                   f'# A comment\n{FOUND}.test_rare a race in the fixture\n')
        status, lines = self.judge(BY_CHANCE.format(name='rare'))
        self.assertEqual((1, '1 passed, 1 failed, 1 skipped'), (status, lines[-1]))
        self.assertIn(f'{FOUND}.test_rare was flaky before', lines[-2])

    def test_a_class_that_cannot_be_set_up_is_run_again(self):
        status, lines = self.judge(BROKEN_CLASS)
        self.assertEqual((0, [f'flaky: setUpClass ({FOUND.replace("Played", "Class")})', '1 flaky',
                              '2 passed, 0 failed, 1 skipped']), (status, lines[-3:]))

    def test_a_class_that_is_known_fails_the_run(self):
        self.write('doc/source/contributor/flaky.txt',
                   f'setUpClass ({FOUND.replace("Played", "Class")}) a race in the fixture\n')
        status, lines = self.judge(BROKEN_CLASS)
        self.assertEqual((1, '1 passed, 1 failed, 1 skipped'), (status, lines[-1]))

    def test_a_name_that_begins_like_a_known_one_is_another(self):
        self.write('doc/source/contributor/flaky.txt', f'{FOUND}.test_rarely a race\n')
        status, lines = self.judge(BY_CHANCE.format(name='rare'))
        self.assertEqual((0, '2 passed, 0 failed, 1 skipped'), (status, lines[-1]))

    def test_many_failures_are_not_run_again(self):
        status, lines = self.judge(*(BY_CHANCE.format(name=f'n{number}') for number in range(11)))
        self.assertEqual((1, '1 passed, 11 failed, 1 skipped'), (status, lines[-1]))
        self.assertNotIn('Once more', '\n'.join(lines))

    def test_a_worker_that_dies_fails_the_run(self):
        status, lines = self.judge(DEADLY)
        self.assertEqual(1, status, lines)
        self.assertIn(f'Failed: {FOUND}.test_that_comes_after', lines)
        self.assertIn('The run does not pass: 3 did not run', lines)

    def test_what_cannot_be_imported_fails_the_run(self):
        self.write('played/test_unknown.py', 'import nowhere_to_be_found\n')
        status, lines = self.judge()
        self.assertEqual((1, '0 passed, 1 failed, 0 skipped'), (status, lines[-1]))
        self.assertIn('nowhere_to_be_found', '\n'.join(lines))

    def test_a_class_that_is_skipped_has_run(self):
        status, lines = self.judge(SKIPPED_CLASS)
        self.assertEqual((0, '1 passed, 0 failed, 2 skipped'), (status, lines[-1]))

    def test_no_test_at_all_fails_the_run(self):
        self.write('.stestr.conf', '[DEFAULT]\ntest_path=./empty\ntop_dir=./\n')
        self.write('empty/__init__.py', '')
        status, lines = self.judge()
        self.assertEqual((1, '0 passed, 1 failed, 0 skipped'), (status, lines[-1]))


class RuleTest(unittest.TestCase):

    def test_an_end_that_no_test_explains_fails_the_run(self):
        judge = sources.load_tool('judge')
        for ended, reasons in ((0, 0), (1, 1), (100, 1)):
            with self.subTest(ended):
                verdict = judge.judge(judge.Results(passed=('one',), ended=ended), ['one'], (), ())
                self.assertEqual(reasons, len(verdict.reasons), verdict)
