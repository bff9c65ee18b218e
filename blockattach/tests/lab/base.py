"""What tests in the lab share: guests that end with the test."""
import os
import unittest

from blockattach.testing.lab import guest


class LabTestCase(unittest.TestCase):
    """Skipped where there can be no guests; where CI is true, that is a failure."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        reason = guest.missing()
        if reason is None:
            return
        if os.environ.get('CI') == 'true':
            raise AssertionError(reason)
        raise unittest.SkipTest(reason)

    def report(self, name, text):
        """Tell more than that it passed; tools/run-lab prints it in the end."""
        folder = os.environ.get('BLOCKATTACH_LAB_REPORTS')
        if folder is not None:
            with open(os.path.join(folder, name), 'w', encoding='utf-8') as file:
                file.write(text)

    def a_guest(self, name, **options):
        """A guest that is off yet, until the end of the test."""
        made = guest.Guest(name, **options)
        self.addCleanup(made.close)
        return made
