"""Example driver of the documents, which is out of tree and found by its entry point."""
import ast
import os
import pathlib
import shutil
import subprocess
import sys
import tomllib
import unittest

from blockattach.tests.conformance import settings
from blockattach.tests.fixtures import polling
from blockattach.tests.rules import sources

EXAMPLE = pathlib.Path('doc/source/contributor/example_driver')
TEST = 'test_directory_store'
_MOST_LINES = 10
_LOAD = """
import sys
from blockattach.storage.drivers import loading
from blockattach.testing import backend
loaded = loading.load_backend(backend.settings(sys.argv[1], store='directory', target='fake'))
loaded.store.check()
[pool] = loaded.pools()
print(type(loaded.store).__module__, pool.capabilities['driver_capabilities'])
"""


class ExampleTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        source = sources.ROOT / EXAMPLE
        if not source.is_dir():
            self.skipTest('the documents are not installed')
        self.place = pathlib.Path(settings.folder(self))
        shutil.copytree(source, self.place, dirs_exist_ok=True)
        self.install()

    def install(self):
        """Install the project as pip does, with its package and its entry points."""
        project = tomllib.loads((self.place / 'pyproject.toml').read_text())['project']
        info = self.place / f'directory_store-{project["version"]}.dist-info'
        info.mkdir()
        (info / 'METADATA').write_text(
            f'Metadata-Version: 2.1\nName: {project["name"]}\nVersion: {project["version"]}\n')
        (info / 'entry_points.txt').write_text(''.join(
            f'[{group}]\n' + ''.join(f'{name} = {place}\n' for name, place in points.items())
            for group, points in project['entry-points'].items()))

    def python(self, *words):
        paths = [str(self.place), os.environ.get('PYTHONPATH') or str(sources.ROOT)]
        return subprocess.run(
            [sys.executable, *words], cwd=self.place, capture_output=True, text=True,
            stdin=subprocess.DEVNULL, timeout=polling.LIMIT, check=False,
            # The cache of entry points must not outlive the test.
            env={**os.environ, 'PYTHONPATH': os.pathsep.join(paths),
                 'XDG_CACHE_HOME': str(self.place / 'cache')})

    def test_example_test_module_is_short(self):
        text = (self.place / f'{TEST}.py').read_text()
        self.assertLessEqual(len([line for line in text.splitlines() if line]), _MOST_LINES)
        ast.parse(text)

    def test_example_driver_loaded_by_entry_point(self):
        done = self.python('-c', _LOAD, str(self.place / 'state'))
        self.assertEqual("directory_store ['discard', 'host_reservations', 'live_resize']\n",
                         done.stdout, done.stderr)

    def test_example_driver_passes_conformance_command(self):
        done = self.python(os.path.join(os.path.dirname(sys.executable),
                                        'blockattach-conformance'), TEST)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        head, counts, declared, *_ = done.stdout.splitlines()
        self.assertEqual('DirectoryStore', head)
        self.assertRegex(counts, r'^  \d+ behaviors: \d+ proved, .* 4 skipped, 0 failed$')
        self.assertEqual('  declared: discard; proved: discard', declared)
        self.assertIn('    proved        a created volume reads as zeros\n', done.stdout)
        self.assertIn('    skipped       check says what the operator must change: ', done.stdout)

    def test_report_names_failed_behavior(self):
        path = self.place / 'directory_store' / '__init__.py'
        path.write_text(path.read_text().replace('.st_blocks * 512', '.st_size'))
        done = self.python('-m', 'blockattach.conformance', TEST)
        self.assertEqual(1, done.returncode, done.stdout + done.stderr)
        self.assertIn('  declared and not proved: discard\n', done.stdout)
        self.assertIn('    failed        discard gives the room back', done.stdout)
