"""Run of `tools/quickstart --compute` with all its steps."""
import re
import subprocess
import sys
import unittest

from blockattach.tests.fixtures import polling
from blockattach.tests.rules import sources


class StoryTest(unittest.TestCase):

    def test_story_with_compute_plays_all_steps(self):
        played = subprocess.run(
            [sys.executable, sources.ROOT / 'tools' / 'demo' / 'quickstart', '--compute',
             '--exit'],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            timeout=polling.LIMIT)
        self.assertEqual(0, played.returncode, played.stdout + played.stderr)
        steps = re.findall(r'^\[(\d)/(\d)\] ', played.stdout, re.M)
        self.assertEqual([(str(number), '7') for number in range(1, 8)], steps)
