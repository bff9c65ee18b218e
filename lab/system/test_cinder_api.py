"""Comparison of the stored table of Cinder's requests with an installed Cinder."""
import json
import os
import subprocess
import unittest

from blockattach.tests.rules import sources
from lab.system import cinder_peer

PYTHON = cinder_peer.VENV / 'bin' / 'python'
TABLE = sources.ROOT / 'tools' / 'docs' / 'cinder_api.json'


class CinderApiTest(unittest.TestCase):

    def test_table_of_requests_is_that_of_the_installed_cinder(self):
        if not PYTHON.exists():
            self.assertNotEqual('true', os.environ.get('CI'), 'Cinder is not in .venv-cinder')
            raise unittest.SkipTest('Cinder is not in .venv-cinder')
        printed = subprocess.run(
            [PYTHON, sources.ROOT / 'tools' / 'docs' / 'cinder_api.py'], check=True, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=240).stdout
        self.assertEqual(json.loads(TABLE.read_text(encoding='utf-8')), json.loads(printed))
