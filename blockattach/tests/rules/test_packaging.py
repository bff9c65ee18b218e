"""Entry points, options and generated documents of the package."""
import configparser
import importlib
import pathlib
import subprocess
import sys
import unittest

from blockattach.tests.rules import sources
from blockattach.wiring import options


def entry_points():
    """Yield group, name and place of each entry point in setup.cfg."""
    parser = configparser.ConfigParser(delimiters=('=',))
    parser.optionxform = str
    parser.read(sources.ROOT / 'setup.cfg', encoding='utf-8')
    for group, lines in parser['entry_points'].items():
        for line in lines.strip().splitlines():
            name, _, place = (part.strip() for part in line.partition('='))
            yield group, name, place


class PackagingTest(unittest.TestCase):

    def test_entry_points_loadable(self):
        for group, name, place in entry_points():
            with self.subTest(group=group, name=name):
                module, _, attribute = place.partition(':')
                found = importlib.import_module(module)
                # The entry point of an openstackclient plugin is a module.
                self.assertTrue(not attribute or callable(getattr(found, attribute)))

    def test_option_modules_in_sample(self):
        listed = {option.dest for _, group in options.list_opts() for option in group}
        for module in sources.modules('blockattach/storage/conf/'):
            name = module.path.removesuffix('.py').replace('/', '.')
            own = getattr(importlib.import_module(name), 'list_opts', None)
            if own is None or own is options.list_opts:
                continue
            with self.subTest(name):
                self.assertEqual(set(), {option.dest for _, group in own() for option in group}
                                 - listed)

    def test_options_have_help(self):
        self.assertEqual([], [f'[{group}] {option.dest}' for group, opts in options.list_opts()
                              for option in opts if not option.help])

    def test_committed_generated_files_match_generators(self):
        """To repair a failure, run tox -e gen (or python tools/docs) and commit the files."""
        done = subprocess.run([sys.executable, 'tools/docs', '--check'], cwd=sources.ROOT,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False)
        self.assertEqual('', done.stdout)
        self.assertEqual(0, done.returncode, done.stderr)

    def test_git_ignores_built_documents_only(self):
        documents = sources.documents()
        for name in documents.BUILT:
            with self.subTest(name):
                folder = f'{pathlib.PurePath(name).parent}/'
                self.assertTrue(sources.is_ignored(name) or sources.is_ignored(folder))
        self.assertEqual([], [name for name in documents.COMMITTED if sources.is_ignored(name)])
