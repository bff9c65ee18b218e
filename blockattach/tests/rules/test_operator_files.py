"""The files that operators are given: their programs take them, and what they name is there."""
import configparser
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from blockattach.tests.fixtures import polling
from blockattach.tests.rules import sources

ETC = sources.ROOT / 'etc'
HOME = '/opt/blockattach/bin/'


def scripts():
    """The console scripts of the package, and the servers that it may be installed with."""
    setup = configparser.ConfigParser()
    setup.read(sources.ROOT / 'setup.cfg')
    lines = setup['entry_points']['console_scripts'].split('\n')
    return {line.partition('=')[0].strip() for line in lines if line} | {'uwsgi', 'granian'}


class OperatorFilesTest(unittest.TestCase):

    def run_program(self, name, *arguments):
        """What it says; the test skips where it is missing, and fails there in CI."""
        beside = pathlib.Path(sys.executable).parent / name
        program = str(beside) if beside.exists() else shutil.which(name, path=os.pathsep.join(
            (os.environ.get('PATH', ''), '/usr/sbin', '/sbin')))
        if program is None:
            self.assertNotEqual('true', os.environ.get('CI'), f'{name} is missing')
            self.skipTest(f'{name} is missing')
        done = subprocess.run([program, *arguments], capture_output=True, text=True,
                              timeout=polling.LIMIT, check=False)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_units_are_taken_by_systemd(self):
        units = sorted((ETC / 'systemd').glob('*.service'))
        self.assertTrue(units)
        with tempfile.TemporaryDirectory(prefix='blockattach-') as folder:
            for unit in units:
                text = unit.read_text()
                with self.subTest(unit=unit.name):
                    started = re.findall(rf'^ExecStart={HOME}([a-z-]+)', text, re.M)
                    self.assertEqual(1, len(started))
                    self.assertIn(started[0], scripts())
                    # What is not installed here is not what is asked.
                    copy = pathlib.Path(folder, unit.name)
                    copy.write_text(re.sub(rf'{HOME}[a-z-]+', '/bin/true', text))
                    self.assertEqual('', self.run_program(
                        'systemd-analyze', 'verify', '--man=no', str(copy)))

    def test_container_files_are_taken_by_their_linter(self):
        files = sorted((ETC / 'container').rglob('Containerfile'))
        self.assertEqual(2, len(files))
        for file in files:
            with self.subTest(file=file):
                self.run_program('hadolint', str(file))

    def test_the_compose_file_is_taken_by_its_schema(self):
        self.run_program('check-jsonschema', '--builtin-schema', 'vendor.compose-spec',
                         str(ETC / 'container' / 'compose.yaml'))

    def test_the_log_rotation_is_taken_by_logrotate(self):
        example = (ETC / 'logrotate.d' / 'blockattach').read_text()
        with tempfile.TemporaryDirectory(prefix='blockattach-') as folder:
            # The account of the service is made when it is installed; its owner reads a file.
            copy = pathlib.Path(folder, 'blockattach')
            copy.write_text(example.replace('    su blockattach blockattach\n', ''))
            copy.chmod(0o644)
            said = self.run_program('logrotate', '--debug', '--state', f'{folder}/state',
                                    str(copy))
        self.assertNotIn('error', said)
