"""Empty module names, patches of internal names, and paths of one machine."""
import ast
import pathlib
import re
import unittest

from blockattach.tests.rules import sources

EMPTY_NAMES = ('utils', 'helpers', 'common', 'misc')
PATCHERS = ('patch', 'MockPatch', 'MonkeyPatch')
OBJECT_PATCHERS = ('patch.object', 'MockPatchObject', 'patch.multiple', 'patch.dict')

# The patterns are split, so that this file does not match them.
HOMES = re.compile('|'.join(('/ho' + r'me/\w+/', '/Use' + r'rs/\w+/', '(?<![\\w$}])/ro' + 'ot/')))
REGISTRIES = re.compile('|'.join((
    'py' + r'pi\.org', 'python' + r'hosted\.org', 'deb\\.' + 'debian', 'archive\\.' + 'ubuntu',
    'npm' + r'js\.', 'docker' + r'\.io', 'qu' + r'ay\.io', 'gh' + r'cr\.io',
    'index' + '-url')))


def patched(module):
    """Yield each place where a test patches an internal name."""
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        called, first = module.dotted(node.func), node.args[0]
        if called.endswith(OBJECT_PATCHERS):
            place = module.dotted(first)
        elif called.endswith(PATCHERS) and isinstance(first, ast.Constant):
            place = str(first.value)
        else:
            continue
        if place.startswith(f'{sources.PACKAGE}.'):
            yield f'{module.at(node)}: {place}'


def places(text):
    """Yield the lines that contain a path of this machine or a package registry."""
    here = re.escape(str(sources.ROOT)) + r'(?![\w-])'
    home = re.escape(str(pathlib.Path.home())) + '/'
    of_machine = re.compile(rf'(?<![\w.$}}-])(?:{here}|{home})')
    for number, line in enumerate(text.splitlines(), 1):
        for pattern in (of_machine, HOMES, REGISTRIES):
            if pattern.search(line):
                yield f'{number}: {line.strip()}'
                break


class NamesTest(unittest.TestCase):

    def test_module_names_not_empty_words(self):
        self.assertEqual([], [module.path for module in sources.modules()
                              if set(pathlib.PurePath(module.path).with_suffix('').parts)
                              & set(EMPTY_NAMES)])

    def test_tests_patch_no_internal_name(self):
        self.assertEqual([], [found for module in sources.modules() for found in patched(module)])

    def test_patches_are_found(self):
        for text in ("mock.patch('blockattach.platform.db.engine.x')\n",
                     "fixtures.MockPatch('blockattach.platform.db.engine.x')\n",
                     'from blockattach.platform.db import engine\n'
                     'mock.patch.object(engine, "x")\n'):
            with self.subTest(text):
                self.assertEqual(1, len(list(patched(sources.parse(text)))))

    def test_files_name_no_path_of_one_machine(self):
        self.assertEqual([], [f'{name}:{line}' for name, text in sources.texts()
                              for line in places(text)])

    def test_paths_of_one_machine_found(self):
        for text in (f"path = '{sources.ROOT}/x'\n", f'see {pathlib.Path.home()}/x\n',
                     'pip --index' + '-url=x\n', 'https://py' + 'pi.org/\n'):
            with self.subTest(text):
                self.assertEqual(1, len(list(places(text))))
