"""Comparison of the table of Cinder's options with an installed Cinder."""
import json
import subprocess

from blockattach.storage.conf import cinder_options
from blockattach.tests.functional import base
from blockattach.tests.rules import sources
from lab.system import cinder_peer

SECONDS = 240
UNKNOWN_TO_CINDER = {'oslo_limit'}
"""Groups that this service reads and Cinder 29 does not."""


class CinderOptionsTest(base.StackTestCase):

    def test_options_of_cinder_have_rows(self):
        python = cinder_peer.VENV / 'bin' / 'python'
        self.outside_program(python.exists(), 'Cinder in .venv-cinder')
        done = subprocess.run(
            [str(python), str(sources.ROOT / 'tools' / 'docs' / 'print_cinder_options.py')],
            capture_output=True, text=True, timeout=SECONDS, check=False)
        self.assertEqual(0, done.returncode, done.stderr)
        listed = json.loads(done.stdout)
        for group, rows in cinder_options.GROUPS.items():
            if group not in UNKNOWN_TO_CINDER:
                with self.subTest(group):
                    self.assertEqual(sorted(listed[group]), sorted(rows.names()))
