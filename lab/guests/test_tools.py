"""Scripts of lab/guests: execution in a guest, and removal of everything at the end."""
import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile

from lab.guests import base

HERE = pathlib.Path(__file__).parent
SECONDS = 60.0


class RunTest(base.LabTestCase):

    def run_script(self, *arguments, script):
        """Return the result of lab/guests/run with a script of one line."""
        return subprocess.run(
            [HERE / 'run', *arguments, 'sh', '-c', script, 'sh', 'argument'], check=False,
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
            env={**os.environ, 'VIRTUAL_ENV': sys.prefix})

    def test_a_script_has_disks_results_and_the_last_word(self):
        results = os.path.join(tempfile.mkdtemp(), 'results')
        done = self.run_script('--disk', '1', '--disk', '2', '--results', results, script="""
            echo "$1"; echo wrong >&2
            blockdev --getsize64 /dev/ubda /dev/ubdb >/results/sizes
            python -c 'import sys; print(sys.prefix)'
            exit 3""")
        self.assertEqual((3, f'argument\n{sys.prefix}\n', 'wrong\n'),
                         (done.returncode, done.stdout, done.stderr))
        with open(os.path.join(results, 'sizes'), encoding='utf-8') as sizes:
            self.assertEqual([2 ** 30, 2 ** 31], [int(line) for line in sizes])

    def test_a_script_that_takes_too_long_is_ended(self):
        done = self.run_script('--timeout', '1', script='echo begun; sleep 1000')
        self.assertEqual((124, 'begun\n'), (done.returncode, done.stdout))
        self.assertIn('more than 1.0 s', done.stderr)


class EncloseTest(base.LabTestCase):

    def setUp(self):
        super().setUp()
        self.folder = folder = tempfile.mkdtemp()
        # Each process inside keeps the pipe open, so that end of file means that all have ended.
        self.outer = subprocess.Popen(
            [HERE / 'enclose', 'sh', '-c', 'setsid sleep 1000 & echo begun; sleep 1000'],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env={**os.environ, 'TMPDIR': folder},
            # A shell cannot trap a signal that it inherits as ignored, as in a background job.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.addCleanup(self.outer.wait)
        self.addCleanup(self.outer.kill)
        self.addCleanup(self.outer.stdout.close)
        self.assertEqual(b'begun\n', self.outer.stdout.readline())

    def assert_all_ended(self):
        ready, _, _ = select.select([self.outer.stdout], [], [], SECONDS)
        self.assertTrue(ready, 'a process is still running after the lab')
        self.assertEqual(b'', self.outer.stdout.read())

    def test_nothing_outlives_a_signal(self):
        self.outer.send_signal(signal.SIGTERM)
        self.assert_all_ended()
        self.assertEqual(128 + signal.SIGTERM, self.outer.wait(SECONDS))
        self.assertEqual([], os.listdir(self.folder))

    def test_nothing_outlives_ctrl_c(self):
        self.outer.send_signal(signal.SIGINT)
        self.assert_all_ended()
        self.assertEqual(128 + signal.SIGINT, self.outer.wait(SECONDS))
        self.assertEqual([], os.listdir(self.folder))

    def test_nothing_outlives_its_script(self):
        self.outer.kill()
        self.assert_all_ended()
