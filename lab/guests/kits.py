"""Runner of a conformance kit in a guest: ``python -m lab.guests.kits NAME...``.

The names are those of unittest. The argument ``elsewhere=CAPABILITY`` names a declared capability
that other devices prove. The last line of the output is JSON: outcomes of the tests
(``behaviors``), capabilities that the driver has ``declared``, and those that the kit has
``proved``. The exit status is 1 if a test failed, or if declared and proved capabilities differ.
"""
import json
import sys
import unittest

_ELSEWHERE = 'elsewhere='


class Reported(unittest.TextTestResult):
    """Test result that records an outcome per test: ``ok``, ``skipped`` or ``FAILED``."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.behaviors = {}
        self._kinds = set()

    def capabilities(self, noun):
        """Return the ``declared`` or ``proved`` capabilities of all test classes."""
        return sorted({name for kind in self._kinds if hasattr(kind, 'report')
                       for name in getattr(kind.report, noun)})

    def startTest(self, test):  # noqa: N802, unittest's name
        super().startTest(test)
        self._kinds.add(type(test))
        self._note(test, 'FAILED')

    def addSuccess(self, test):  # noqa: N802, unittest's name
        super().addSuccess(test)
        self._note(test, 'ok')

    def addSkip(self, test, reason):  # noqa: N802, unittest's name
        super().addSkip(test, reason)
        self._note(test, 'skipped')

    def _note(self, test, outcome):
        name = test.id().rpartition('.')[2].removeprefix('test_').replace('_', ' ')
        self.behaviors[name] = outcome


def main():
    elsewhere = {name.removeprefix(_ELSEWHERE) for name in sys.argv[1:]
                 if name.startswith(_ELSEWHERE)}
    suite = unittest.defaultTestLoader.loadTestsFromNames(
        [name for name in sys.argv[1:] if not name.startswith(_ELSEWHERE)])
    result = unittest.TextTestRunner(verbosity=2, resultclass=Reported).run(suite)
    declared, proved = map(result.capabilities, ('declared', 'proved'))
    as_declared = set(declared) - elsewhere == set(proved)
    if not as_declared:
        print(f'declared capabilities are {declared}, proved are {proved}', file=sys.stderr)
    print('\n' + json.dumps({'behaviors': result.behaviors, 'declared': declared,
                             'proved': proved}))
    return 0 if result.wasSuccessful() and as_declared else 1


if __name__ == '__main__':
    sys.exit(main())
