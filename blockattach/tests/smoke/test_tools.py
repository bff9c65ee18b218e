"""Commands of a checkout, run from start to end.

Of the commands in the README, `tools/quickstart` runs without its installation step, which would
change the environment of the tests that run beside it. `tools/run-tests` runs these tests.
"""
import email
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.request
import zipfile

import openstack

from blockattach.testing import initiator
from blockattach.tests.fixtures import exhaustive
from blockattach.tests.fixtures import polling
from blockattach.tests.fixtures import servers
from blockattach.tests.functional import base
from blockattach.tests.rules import sources

TOOLS = sources.ROOT / 'tools'
DEVCLOUD = TOOLS / 'demo' / 'devcloud'
LEFT_OUT = shutil.ignore_patterns(
    '.venv', '.venv-cinder', '.venv-lowest', '.stestr', '.tox', '.hypothesis', '*_cache',
    '__pycache__', 'build', 'dist', '*.egg-info', '.devcloud')
# pbr warns about missing optional files of a source distribution, and setuptools if Python writes
# no bytecode.
EXPECTED_WARNINGS = re.compile(
    r'no (?:previously-included )?files (?:found )?matching|byte-compiling is disabled')


def run(*command, **options):
    """Run a command without the caller's environment variables for OpenStack clients."""
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        timeout=polling.LIMIT, **{'env': environment(), **options})


def environment(**variables):
    """Return the environment without variables that select a cloud."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith('OS_')}
    return {**kept, **variables}


class ToolTestCase(base.StackTestCase):

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.enterContext(
            tempfile.TemporaryDirectory(prefix='blockattach-')))

    def succeed(self, *command, **options):
        """Run a command that succeeds, and return its output."""
        done = run(*command, **options)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return done.stdout


class QuickstartTest(ToolTestCase):

    def test_quickstart_arguments_checked_before_install(self):
        said = self.succeed(TOOLS / 'quickstart', '--help')
        for option in ('--exit', '--state-dir DIR', '--port PORT'):
            self.assertIn(option, said)
        for arguments in (['--story'], ['--exit', 'now'], ['--port']):
            with self.subTest(arguments):
                done = run(TOOLS / 'quickstart', *arguments)
                self.assertEqual(2, done.returncode)
                self.assertNotIn('Installing', done.stderr)

    def test_quickstart_plays_all_steps(self):
        self.outside_program(initiator.available(), initiator.PROGRAM)
        said = self.succeed(sys.executable, TOOLS / 'demo' / 'quickstart', '--exit',
                            '--state-dir', self.folder / 'state',
                            '--port', str(servers.free_port()))
        steps = re.findall(r'^\[(\d)/(\d)\] ', said, re.M)
        self.assertEqual([(str(number), '9') for number in range(1, 10)], steps)
        self.assertIn('The demonstration took', said)


@exhaustive.only
class DevcloudTest(ToolTestCase):

    def devcloud(self, *arguments):
        return self.succeed(sys.executable, DEVCLOUD, *arguments,
                            '--state-dir', self.folder / 'cloud')

    def test_up_and_down(self):
        self.addCleanup(run, sys.executable, DEVCLOUD, 'down',
                        '--state-dir', self.folder / 'cloud')
        self.devcloud('up')
        scratch = json.loads((self.folder / 'cloud' / 'record.json').read_text())['scratch']
        self.assertIn('volume-2', self.devcloud('status'))
        shown = (self.folder / 'cloud' / 'openrc').read_text()
        words = dict(re.findall(r"^export '?OS_(\w+)='?([^'\n]*)'?$", shown, re.M))
        cloud = openstack.connection.Connection(
            auth_type='password', region_name=words['REGION_NAME'], auth={
                name.lower(): words[name] for name in (
                    'AUTH_URL', 'USERNAME', 'PASSWORD', 'PROJECT_NAME', 'USER_DOMAIN_NAME',
                    'PROJECT_DOMAIN_NAME')})
        self.check_types(cloud, environment(**{f'OS_{name}': value
                                               for name, value in words.items()}))
        volume = cloud.block_storage.create_volume(size=1)
        polling.until(lambda: cloud.block_storage.get_volume(volume.id).status == 'available')
        self.devcloud('down')
        self.assertFalse((self.folder / 'cloud').exists())
        self.assertFalse(os.path.exists(scratch))


    def check_types(self, cloud, account):
        """Check that the script of devstack creates missing types and keeps the others."""
        for said in ('Volume type disks-2 created\n', ''):
            self.assertEqual(said, self.succeed(sys.executable, DEVCLOUD / 'volume_types.py',
                                                '--backend', 'disks-2', env=account))
        made = {one.name: one.extra_specs for one in cloud.block_storage.types()}
        self.assertEqual({'multiattach': '<is> True'}, made['multiattach'])
        self.assertEqual({'volume_backend_name': 'disks-2'}, made['disks-2'])


MAP_PLACE = 'blockattach/storage/api/attachment_map/'
MAP_PARTS = {path.relative_to(sources.ROOT).as_posix()
             for path in (sources.ROOT / MAP_PLACE).iterdir() if path.is_file()}


@exhaustive.only
class WheelTest(ToolTestCase):

    def build(self):
        """Build source distribution and wheel from a copy of the checkout. Return their paths."""
        if not (sources.ROOT / '.git').is_dir():
            raise unittest.SkipTest('not a git clone, from which pbr gets the list of files')
        source = self.folder / 'source'
        shutil.copytree(sources.ROOT, source, ignore=LEFT_OUT, symlinks=True)
        self.succeed('git', '-C', source, 'config', 'remote.origin.url',
                     'https://me:secret@git.example.org/some/blockattach.git')
        done = run(sys.executable, '-m', 'build', '--outdir', self.folder, source,
                   env=environment(SKIP_GENERATE_AUTHORS='1', SKIP_WRITE_GIT_CHANGELOG='1'))
        said = done.stdout + done.stderr
        self.assertEqual(0, done.returncode, said)
        self.assertEqual([], [line for line in said.splitlines()
                              if re.search(r'\bwarning\b|deprecat', line, re.I)
                              and not EXPECTED_WARNINGS.search(line)])
        [archive], [wheel] = self.folder.glob('*.tar.gz'), self.folder.glob('*.whl')
        return archive, wheel

    def install(self, wheel):
        """Install the wheel into an empty environment and return the folder of its programs."""
        known = self.folder / 'constraints.txt'
        # The constraints pin the versions of this environment. The wheel decides what is needed.
        known.write_text(self.succeed(sys.executable, '-m', 'pip', 'freeze',
                                      '--exclude-editable'))
        empty = self.folder / 'empty'
        self.succeed(sys.executable, '-m', 'venv', '--without-pip', empty)
        self.succeed(sys.executable, '-m', 'pip', '--python', empty / 'bin' / 'python', 'install',
                     '--no-compile', '--constraint', known, wheel)
        return empty / 'bin'

    def test_a_wheel_serves_where_nothing_else_is(self):
        archive, wheel = self.build()
        self.succeed(sys.executable, '-m', 'twine', 'check', '--strict', archive, wheel)
        with zipfile.ZipFile(wheel) as files:
            names = files.namelist()
            [place] = [name for name in names if name.endswith('.dist-info/METADATA')]
            metadata = email.message_from_bytes(files.read(place))
        self.assertEqual(['Source, https://git.example.org/some/blockattach'],
                         metadata.get_all('Project-URL'))
        self.assertNotIn('test', metadata.get_all('Provides-Extra'))
        self.assertEqual([], [line for line in metadata.get_all('Requires-Dist')
                              if re.search(r'stestr|twine|extra == .test', line)])
        self.assertEqual([], [name for name in names
                              if name.startswith(('blockattach/tests', 'lab/'))])
        self.assertIn('blockattach/testing/stack.py', names)
        self.assertEqual(MAP_PARTS, {name for name in names if name.startswith(MAP_PLACE)})
        programs = self.install(wheel)
        with subprocess.Popen(
                [programs / 'blockattach-all', '--state-dir', self.folder / 'state', '--listen',
                 f'{servers.LOOPBACK}:0', '--backend', 'fake'],
                stdout=subprocess.PIPE, text=True, cwd=self.folder,
                stderr=subprocess.DEVNULL, env=environment(PYTHONPATH='')) as service:
            self.addCleanup(service.kill)
            url = re.search(r'serves at (\S+)/v3', service.stdout.readline())[1]
            with urllib.request.urlopen(f'{url}/v3/volumes', timeout=polling.LIMIT) as answer:
                self.assertEqual({'volumes': []}, json.load(answer))
            service.terminate()
            self.assertEqual(0, service.wait(polling.LIMIT))
        done = run(programs / 'python', '-c', 'import blockattach.tests', cwd=self.folder,
                   env=environment(PYTHONPATH=''))
        self.assertIn('ModuleNotFoundError', done.stderr)
