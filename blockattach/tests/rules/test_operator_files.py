"""Files for operators, which their programs accept and which name existing things."""
import configparser
import json
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
# Settings with which systemd gives a service its own mounts, as "systemd-analyze security" names
# them.
OWN_MOUNTS = {f'{name}=' for name in (
    'PrivateDevices', 'PrivateMounts', 'PrivateTmp', 'ProtectControlGroups', 'ProtectHome',
    'ProtectKernelLogs', 'ProtectKernelModules', 'ProtectKernelTunables', 'ProtectProc',
    'ProtectSystem', 'RootDirectory=/RootImage')}


def scripts():
    """Return the console scripts of the package, and the supported WSGI servers."""
    setup = configparser.ConfigParser()
    setup.read(sources.ROOT / 'setup.cfg')
    lines = setup['entry_points']['console_scripts'].split('\n')
    return {line.partition('=')[0].strip() for line in lines if line} | {'uwsgi', 'granian'}


class OperatorFilesTest(unittest.TestCase):

    def run_program(self, name, *arguments):
        """Run a program and return its output.

        The test is skipped if the program is not installed, or fails in CI.
        """
        beside = pathlib.Path(sys.executable).parent / name
        program = str(beside) if beside.exists() else shutil.which(name, path=os.pathsep.join(
            (os.environ.get('PATH', ''), '/usr/sbin', '/sbin')))
        if program is None:
            self.assertNotEqual('true', os.environ.get('CI'), f'{name} is not installed')
            self.skipTest(f'{name} is not installed')
        done = subprocess.run([program, *arguments], capture_output=True, text=True,
                              timeout=polling.LIMIT, check=False)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def copied(self, folder, unit, *drop_ins):
        """Copy a unit, with a program that exists on this machine, and return its path."""
        copy = pathlib.Path(folder, unit.name)
        copy.write_text(re.sub(rf'{HOME}[a-z-]+', '/bin/true', unit.read_text()))
        for drop_in in drop_ins:
            beside = pathlib.Path(folder, drop_in.parent.name)
            beside.mkdir(exist_ok=True)
            shutil.copy(drop_in, beside)
        return str(copy)

    def test_units_accepted_by_systemd(self):
        units = sorted((ETC / 'systemd').glob('*.service'))
        self.assertTrue(units)
        with tempfile.TemporaryDirectory(prefix='blockattach-') as folder:
            for unit in units:
                with self.subTest(unit=unit.name):
                    started = re.findall(rf'^ExecStart={HOME}([a-z-]+)', unit.read_text(), re.M)
                    self.assertEqual(1, len(started))
                    self.assertIn(started[0], scripts())
                    for drop_ins in ((), unit.parent.glob(f'{unit.name}.d/*')):
                        self.assertEqual('', self.run_program(
                            'systemd-analyze', 'verify', '--man=no',
                            self.copied(folder, unit, *drop_ins)))

    def settings(self, unit, *drop_ins):
        """Return the security settings of a unit: True, False, or None if not applicable."""
        with tempfile.TemporaryDirectory(prefix='blockattach-') as folder:
            said = self.run_program('systemd-analyze', 'security', '--offline=yes',
                                    '--no-pager', '--json=short',
                                    self.copied(folder, unit, *drop_ins))
        return {row['name']: row['set'] for row in json.loads(said)}

    def test_compute_unit_privileges_by_kind(self):
        unit = ETC / 'systemd' / 'blockattach-compute.service'
        guests = self.settings(unit)
        self.assertTrue(guests['User=/DynamicUser='])
        self.assertTrue(all(holds for name, holds in guests.items()
                            if name.startswith('CapabilityBoundingSet=')))
        machine = self.settings(unit, unit.with_name(f'{unit.name}.d') / 'kind-host.conf')
        self.assertFalse(machine['User=/DynamicUser='])
        self.assertFalse(any(holds for name, holds in machine.items()
                             if name.startswith('CapabilityBoundingSet=')))
        self.assertLessEqual(OWN_MOUNTS, set(machine))
        self.assertEqual(set(), {name for name in OWN_MOUNTS if machine[name]})

    def test_container_files_accepted_by_hadolint(self):
        files = sorted((ETC / 'container').rglob('Containerfile'))
        self.assertEqual(2, len(files))
        for file in files:
            with self.subTest(file=file):
                self.run_program('hadolint', str(file))

    def test_compose_file_valid_by_schema(self):
        self.run_program('check-jsonschema', '--builtin-schema', 'vendor.compose-spec',
                         str(ETC / 'container' / 'compose.yaml'))

    def test_log_rotation_accepted_by_logrotate(self):
        example = (ETC / 'logrotate.d' / 'blockattach').read_text()
        with tempfile.TemporaryDirectory(prefix='blockattach-') as folder:
            # The service account does not exist here. logrotate requires that others cannot write
            # the file.
            copy = pathlib.Path(folder, 'blockattach')
            copy.write_text(example.replace('    su blockattach blockattach\n', ''))
            copy.chmod(0o644)
            said = self.run_program('logrotate', '--debug', '--state', f'{folder}/state',
                                    str(copy))
        self.assertNotIn('error', said)
