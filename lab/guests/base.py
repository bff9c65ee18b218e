"""What tests in the lab share: guests that end with the test, kits that run in them, reports."""
import json
import os
import re
import unittest

from lab.guests.machines import guest

STORES, TARGETS = 'behaviour of a store', 'behaviour of a target'
"""Headings of tables."""

# For what takes two minutes on an idle machine.
_KIT_TIMEOUT = 1200.0


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

    @classmethod
    def report(cls, name, text):
        """Report more than that it passed; tools/run-lab prints it in the end."""
        cls._keep(f'{name}.txt', text)

    def run_kit(self, machine, heading, backend, *names):
        """Let a kit pass in a guest, and report what it proves.

        :param heading: of the table that all kits share which name it
        :param backend: the heading of its column
        :param names: of modules, classes or tests
        """
        done = machine.run('python', '-m', 'lab.guests.kits', *names,
                           timeout=_KIT_TIMEOUT, check=False,
                           # A program that is missing in there is missing here.
                           environment={'CI': os.environ.get('CI', '')})
        said = done.output + done.errors
        self.report(f'kit {backend}', ''.join(
            f'{line}\n' for line in re.findall('^conformance: .*', said, re.MULTILINE)))
        if done.output:
            result = json.loads(done.output.splitlines()[-1])
            self._keep(f'kit {backend}.json', json.dumps(
                {'heading': heading, 'backend': backend, **result}))
        self.assertEqual(0, done.code, said)

    def a_guest(self, name, **options):
        """A guest that is off yet, until the end of the test."""
        made = guest.Guest(name, **options)
        self.addCleanup(made.close)
        return made

    @classmethod
    def _keep(cls, name, text):
        folder = os.environ.get('BLOCKATTACH_LAB_REPORTS')
        if folder is not None:
            with open(os.path.join(folder, name), 'w', encoding='utf-8') as file:
                file.write(text)
