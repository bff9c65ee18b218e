"""Base class of the tests in guests, which also runs conformance kits and keeps reports."""
import json
import os
import re
import unittest

from lab.guests.machines import guest

STORES, TARGETS = 'behavior of a store', 'behavior of a target'
"""Headings of the tables of conformance."""

# A kit takes two minutes on an idle machine.
_KIT_TIMEOUT = 1200.0


class LabTestCase(unittest.TestCase):
    """Tests in guests. Without guests they are skipped, or fail if CI is true."""

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
        """Keep a text that tools/run-lab prints at the end."""
        cls._keep(f'{name}.txt', text)

    def run_kit(self, machine, heading, backend, *names):
        """Run a conformance kit in a guest, and report the tested behaviors.

        :param heading: heading of the table that the kits of this kind share
        :param backend: heading of the column of this kit
        :param names: names of modules, classes or tests
        """
        done = machine.run('python', '-m', 'lab.guests.kits', *names,
                           timeout=_KIT_TIMEOUT, check=False,
                           # A program that is missing in the guest is missing on the machine, too.
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
        """Return a guest that is switched off. It is closed at the end of the test."""
        made = guest.Guest(name, **options)
        self.addCleanup(made.close)
        return made

    @classmethod
    def _keep(cls, name, text):
        folder = os.environ.get('BLOCKATTACH_LAB_REPORTS')
        if folder is not None:
            with open(os.path.join(folder, name), 'w', encoding='utf-8') as file:
                file.write(text)
