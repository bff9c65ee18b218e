"""Commands, which handle signals before heavy imports and have complete pages."""
import re
import subprocess
import sys
import unittest

from blockattach.tests.rules import sources
from blockattach.tests.rules import test_packaging
from blockattach.wiring import options

# Modules that take long to import, and so must not be imported before signals are handled.
HEAVY = ('alembic', 'httptools', 'kombu', 'oslo_config', 'oslo_db', 'oslo_log', 'oslo_messaging',
         'oslo_policy', 'sqlalchemy', 'stevedore', 'webob')
# Options that oslo.log reloads by itself.
OF_LIBRARIES = {'[DEFAULT] debug', '[DEFAULT] log_config_append'}
DOCUMENTS = sources.ROOT / 'doc' / 'source'
PAGE = DOCUMENTS / 'admin' / 'processes.rst'
# Runs in a separate process, because it changes the log levels.
MANUAL_PAGES = """
import runpy
for page, name, *_ in runpy.run_path('doc/source/conf.py')['man_pages']:
    print(name, page)
"""


def commands():
    """Return name and module of each console script of the service."""
    return [(name, place.partition(':')[0]) for group, name, place in test_packaging.entry_points()
            if group == 'console_scripts' and place.startswith('blockattach.cmd.')]


class CommandsTest(unittest.TestCase):

    def test_commands_handle_signals_before_heavy_imports(self):
        for name, module in commands():
            with self.subTest(command=name):
                done = subprocess.run(
                    [sys.executable, '-c', f'import sys, {module}; print(*sys.modules)'],
                    capture_output=True, text=True, check=True)
                self.assertEqual(set(), set(HEAVY).intersection(done.stdout.split()))

    def test_every_command_documented(self):
        for name, _ in commands():
            with self.subTest(command=name):
                self.assertIn(f'   * - ``{name}``', PAGE.read_text())

    def test_every_command_has_manual_page(self):
        done = subprocess.run([sys.executable, '-c', MANUAL_PAGES], cwd=sources.ROOT,
                              capture_output=True, text=True, check=True)
        pages = dict(line.split() for line in done.stdout.splitlines())
        self.assertEqual({name for name, _ in commands()}, set(pages))
        for name, page in pages.items():
            with self.subTest(command=name):
                lines = sources.built(f'doc/source/{page}.rst').splitlines()
                self.assertIn((name, '=' * len(name)), zip(lines, lines[1:], strict=False))

    def test_mutable_options_documented(self):
        described = set(re.findall(r'^   \* - ``(\[\w+\] \w+)``$', PAGE.read_text(), re.M))
        ours = {f'[{group}] {option.dest}' for group, found in options.list_opts()
                for option in found if option.mutable}
        self.assertEqual(ours | OF_LIBRARIES, described)
