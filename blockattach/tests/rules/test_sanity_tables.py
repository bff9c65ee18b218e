"""Cases of `blockattach-sanity`."""
import importlib
import unittest

RUNNING = 'blockattach_tempest_plugin.running'
PROMISED = 'blockattach_tempest_plugin.promised'


class SanityTablesTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.names = [case.name for case in importlib.import_module(RUNNING).select()]

    def test_promised_cases_exist(self):
        promised = importlib.import_module(PROMISED).PROMISED
        self.assertEqual(set(), set(promised) - set(self.names))

    def test_case_names_unique(self):
        self.assertEqual(sorted(set(self.names)), sorted(self.names))

    def test_at_least_150_cases(self):
        self.assertGreaterEqual(len(self.names), 150)
