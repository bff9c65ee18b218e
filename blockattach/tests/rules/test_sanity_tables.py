"""What `blockattach-sanity` says of its cases is so."""
import importlib
import unittest

RUNNING = 'blockattach_tempest_plugin.running'
PROMISED = 'blockattach_tempest_plugin.promised'


class SanityTablesTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.names = [case.name for case in importlib.import_module(RUNNING).select()]

    def test_what_only_we_promise_is_a_case(self):
        promised = importlib.import_module(PROMISED).PROMISED
        self.assertEqual(set(), set(promised) - set(self.names))

    def test_a_sentence_stands_once(self):
        self.assertEqual(sorted(set(self.names)), sorted(self.names))

    def test_there_are_many(self):
        self.assertGreaterEqual(len(self.names), 150)
