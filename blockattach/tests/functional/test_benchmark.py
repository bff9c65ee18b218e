"""`tools/benchmark` measures every scenario and says what it saw; no figure is judged here."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

from blockattach.testing import stack
from blockattach.tests.functional import base
from blockattach.tests.rules import sources

SECONDS = 90
SCENARIOS = {'attach-cycle', 'attach-reserve', 'show-volume', 'show-attachment', 'list-detail'}


def benchmark(*arguments):
    """Run it; how it ended."""
    return subprocess.run([sys.executable, sources.ROOT / 'tools' / 'benchmark', *arguments],
                          capture_output=True, text=True, timeout=SECONDS, check=False)


class BenchmarkTest(unittest.TestCase):

    def test_every_scenario(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'results.json')
            done = benchmark('--seconds', '0.2', '--concurrency', '2', '--volumes', '5',
                             '--json', path)
            self.assertEqual(0, done.returncode, done.stdout + done.stderr)
            with open(path, encoding='utf-8') as file:
                results = json.load(file)['results']
        self.assertEqual(SCENARIOS, {row['scenario'] for row in results})
        for row in results:
            self.assertIn(row['scenario'], done.stdout)
            self.assertEqual((2, 0, []), (row['clients'], row['failed'], row['errors']))
            self.assertGreater(row['operations'], 0)
            self.assertLessEqual(row['p50_ms'], row['p99_ms'])

    def test_a_service_that_runs_is_left_as_it_was(self):
        with stack.Stack('fake') as service:
            api = base.Api(service.endpoint)
            done = benchmark('--url', service.endpoint, '--pid', str(service.pid), '--seconds',
                             '0.2', '--concurrency', '1', '--scenario', 'show-attachment')
            self.assertEqual(0, done.returncode, done.stdout + done.stderr)
            self.assertTrue(base.wait_for(lambda: not api.list('volumes')))
            self.assertEqual([], api.list('attachments'))

    def test_no_service(self):
        done = benchmark('--url', f'http://127.0.0.1:{stack.free_port()}/v3', '--seconds', '0.2')
        self.assertEqual(1, done.returncode)
        self.assertIn('Cannot measure: ', done.stderr)
        self.assertNotIn('Traceback', done.stderr)
