"""Plugin for devstack: shellcheck, its phases, and the configuration that it writes."""
import configparser
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from blockattach.tests.fixtures import exhaustive
from blockattach.tests.fixtures import polling
from blockattach.tests.rules import sources
from blockattach.tests.rules import test_debian_guide

PLUGIN = sources.ROOT / 'devstack'
TESTS = PLUGIN / 'tests'
SHELL = ('override-defaults', 'plugin.sh', 'settings', 'lib/*', 'tests/*.bash', 'tests/*.bats')
# Files that are no shell code: lists of packages, and a Python script.
OTHERS = {'files/debs/blockattach', 'files/rpms/blockattach', 'remove_lio_exports.py'}
UNKNOWN = 'Ignoring unknown option'
# Variables of local.conf, and the backends that they configure.
WAYS = (({}, ['lvm-1']),
        ({'BLOCKATTACH_TARGET': 'tgt', 'BLOCKATTACH_BACKENDS': 'fast,slow',
          'BLOCKATTACH_LVM_TYPE': 'thick'}, ['fast', 'slow']),
        ({'ENABLED_SERVICES': 'key,n-api,g-api,mysql,rabbit,tls-proxy',
          'SERVICE_PROTOCOL': 'https', 'SERVICE_IP_VERSION': '6'}, ['lvm-1']),
        ({'ENABLED_SERVICES': 'key,mysql,rabbit'}, ['lvm-1']))


def shell_files():
    """Return the shell files relative to the plugin."""
    return sorted(str(path.relative_to(PLUGIN)) for pattern in SHELL
                  for path in PLUGIN.glob(pattern))


def run(*command, **variables):
    """Run a command with these variables as its local.conf."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(('BLOCKATTACH_', 'OS_'))}
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False, timeout=polling.LIMIT, cwd=sources.ROOT,
                          env={**kept, **variables})


@exhaustive.only
class DevstackTest(unittest.TestCase):

    def program(self, name):
        """Return the name of a program. Skip the test if it is not installed, or fail it in CI."""
        if shutil.which(name) is None:
            self.assertNotEqual('true', os.environ.get('CI'), f'{name} is not installed')
            self.skipTest(f'{name} is not installed')
        return name

    def succeed(self, *command, **variables):
        """Run a command that succeeds, and return its output."""
        done = run(*command, **variables)
        said = done.stdout + done.stderr
        self.assertEqual(0, done.returncode, said)
        return said

    def configured(self, folder, **variables):
        """Run the plugin and return the path of the configuration that it writes."""
        self.succeed('bash', TESTS / 'play.bash', 'stack post-config', SANDBOX=folder,
                     STAND_IN_DATABASE_URL=f'sqlite:///{folder}/database', **variables)
        return pathlib.Path(folder, 'etc', 'blockattach.conf')

    def test_plugin_passes_shellcheck(self):
        found = shell_files()
        self.assertEqual(OTHERS | set(found), {
            str(path.relative_to(PLUGIN)) for path in PLUGIN.rglob('*') if path.is_file()})
        self.succeed(self.program('shellcheck'), '-x', *(PLUGIN / name for name in found))

    def test_plugin_phases(self):
        self.succeed(self.program('bats'), TESTS)

    def test_service_accepts_configuration_of_plugin(self):
        for variables, backends in WAYS:
            with self.subTest(variables), tempfile.TemporaryDirectory(
                    prefix='blockattach-') as folder:
                written = self.configured(folder, **variables)
                parser = configparser.ConfigParser(interpolation=None, default_section='')
                parser.read(written)
                self.assertLessEqual(set(backends), set(parser.sections()))
                self.assertEqual([], list(test_debian_guide.unread(parser, backends)))
                self.assertNotIn(UNKNOWN, self.sync(written))

    def test_unknown_options_of_plugin_found(self):
        with tempfile.TemporaryDirectory(prefix='blockattach-') as folder:
            written = self.configured(folder)
            right = written.read_text('utf-8')
            for group, name in (('nova', 'region_name'), ('lvm-1', 'volume_group')):
                with self.subTest(group=group):
                    before, section, after = right.partition(f'[{group}]\n')
                    wrong = before + section + after.replace(f'\n{name} =', f'\nx{name} =', 1)
                    self.assertNotEqual(right, wrong)
                    written.write_text(wrong, 'utf-8')
                    self.assertIn(UNKNOWN, self.sync(written))

    def sync(self, configuration):
        """Create the tables with the command of post-config and return its output."""
        return self.succeed(sys.executable, '-m', 'blockattach.cmd.manage', '--config-file',
                            configuration, 'db', 'sync')

    def test_tempest_options_equal_those_of_tempest_run(self):
        with tempfile.TemporaryDirectory(prefix='blockattach-') as folder:
            self.succeed('bash', TESTS / 'play.bash', 'stack test-config', SANDBOX=folder)
            parser = configparser.ConfigParser(interpolation=None)
            parser.read(pathlib.Path(folder, 'tempest.conf'))
        said = self.succeed(sys.executable, sources.ROOT / 'lab' / 'tempest' / 'options.py')
        lines = [line.split('\t') for line in said.splitlines()]
        self.assertGreater(len(lines), 10)
        for group, name, value in lines:
            # This configuration has a single backend.
            if name != 'multi_backend':
                with self.subTest(option=f'[{group}] {name}'):
                    self.assertEqual(value, parser[group][name])

    def test_remove_lio_exports_without_lio_does_nothing(self):
        if os.path.isdir('/sys/kernel/config/target/iscsi'):
            self.skipTest('LIO is loaded on this machine, and other programs may use it')
        with tempfile.TemporaryDirectory(prefix='blockattach-') as folder:
            said = self.succeed(
                sys.executable, sources.ROOT / 'devstack' / 'remove_lio_exports.py',
                '--config-file', self.configured(folder))
        self.assertIn('LIO offers nothing', said)
