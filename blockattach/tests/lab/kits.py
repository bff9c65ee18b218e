"""Runs a conformance kit in a guest: ``python -m blockattach.tests.lab.kits NAME...``.

The names are what unittest takes. The last line of the output is JSON: the behaviours, by name,
and what became of each. Ends with 1 if one failed.
"""
import json
import sys
import unittest


class Told(unittest.TextTestResult):
    """Remembers each test by its name as words: ``ok``, ``skipped`` or ``FAILED``."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.behaviours = {}

    def startTest(self, test):  # noqa: N802, unittest's name
        super().startTest(test)
        self._note(test, 'FAILED')

    def addSuccess(self, test):  # noqa: N802, unittest's name
        super().addSuccess(test)
        self._note(test, 'ok')

    def addSkip(self, test, reason):  # noqa: N802, unittest's name
        super().addSkip(test, reason)
        self._note(test, 'skipped')

    def _note(self, test, outcome):
        name = test.id().rpartition('.')[2].removeprefix('test_').replace('_', ' ')
        self.behaviours[name] = outcome


def main():
    suite = unittest.defaultTestLoader.loadTestsFromNames(sys.argv[1:])
    result = unittest.TextTestRunner(verbosity=2, resultclass=Told).run(suite)
    print(f'\n{json.dumps(result.behaviours)}')
    return 0 if result.wasSuccessful() else 1


if __name__ == '__main__':
    sys.exit(main())
