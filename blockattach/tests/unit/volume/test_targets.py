"""Log of whether an unsupervised target answers, from one repair pass to the next."""
import unittest

from blockattach.platform import errors
from blockattach.storage.volume import targets

MODULE = 'blockattach.storage.volume.targets'
SILENT = errors.BackendUncertain(reason='LIO did not answer within 40 seconds')
AWAY = errors.DatabaseUnavailable()


class TargetAnswersTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.changes = []
        self.fault = None
        self.answers = targets.TargetAnswers(self.ask, 'storage-1@disks',
                                                    self.changes.append)

    def ask(self):
        if self.fault is not None:
            raise self.fault

    def compare(self, *faults):
        """Run a comparison for each fault, where None means none."""
        for self.fault in faults:
            self.answers.compare()

    def test_answering_target_not_logged(self):
        with self.assertNoLogs(MODULE):
            self.compare(None, None)
        self.assertEqual([], self.changes)

    def test_each_change_of_target_logged_once(self):
        with self.assertLogs(MODULE) as said:
            self.compare(SILENT, SILENT, None, None, SILENT)
        wrong = 'the target does not answer'
        self.assertEqual([wrong, None, wrong], self.changes)
        silent, again, _ = said.records
        self.assertEqual(('ERROR', 'INFO'), (silent.levelname, again.levelname))
        self.assertIn('LIO did not answer within 40 seconds', silent.getMessage())
        self.assertIsNone(silent.exc_info)

    def test_database_error_not_blamed_on_target(self):
        for before, changes in (((), []), ((SILENT,), ['the target does not answer'])):
            with self.subTest(before):
                self.compare(*before)
                with self.assertRaises(errors.DatabaseUnavailable):
                    self.compare(AWAY)
                self.assertEqual(changes, self.changes)
