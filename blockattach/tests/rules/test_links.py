"""Links of the documents to pages, files, modules and Python names."""
import importlib
import pathlib
import posixpath
import re
import unittest

from blockattach.tests.rules import sources

DIRECTIVE = re.compile(r'^\s*\.\. (?:include|literalinclude|image|figure):: (\S+)', re.MULTILINE)
DOC = re.compile(r':doc:`(?:[^`<]*<)?([^`>]+)>?`')
TOCTREE = re.compile(r'^\.\. toctree::\n(?:   :.*\n)*\n((?:   .+\n)+)', re.MULTILINE)
# Text in double backticks: a file of the repository, or a dotted name of the package.
FILE = re.compile(r'``((?:blockattach|lab|tools|doc|etc|releasenotes|\.ci)/[\w./-]+)``')
DOTTED = re.compile(r'``((?:blockattach|lab)(?:\.\w+)+)``')

# Texts that look like files of the repository, with the reason why they are none.
ELSEWHERE = {
    'doc/build/html': 'output of tox -e docs',
    'etc/blockattach/blockattach.conf': 'file of the operator',
    'blockattach.conf': 'file of the operator',
    'blockattach.conf.d': 'folder of the operator',
    'blockattach.outcome': 'label of spans',
    'blockattach.request_id': 'label of spans',
    'blockattach.scheduler.filters': 'group of entry points',
    'blockattach.scheduler.weighers': 'group of entry points',
    'blockattach.stores': 'group of entry points',
    'blockattach.targets': 'group of entry points',
}


def dead_links(name, text):
    """Yield the targets in a document that do not exist.

    :param name: path of the document from the root
    """
    folder = posixpath.dirname(name)
    pages = [(page, True) for page in DOC.findall(text)]
    for block in TOCTREE.findall(text):
        pages += [(line.strip().rpartition('<')[2].rstrip('>'), True)
                  for line in block.splitlines()]
    for target, is_page in [*pages, *((target, False) for target in DIRECTIVE.findall(text))]:
        base = 'doc/source' if target.startswith('/') else folder
        if not _exists(posixpath.join(base, (f'{target}.rst' if is_page else target).lstrip('/'))):
            yield f'{name}: {target}'
    for path in FILE.findall(text):
        if path not in ELSEWHERE and not _exists(path):
            yield f'{name}: {path}'
    for dotted in DOTTED.findall(text):
        if dotted not in ELSEWHERE and not _resolves(dotted):
            yield f'{name}: {dotted}'


def _exists(path):
    """Return True if a file or folder of the repository exists or is built."""
    path = posixpath.normpath(path)
    return (sources.ROOT / path).exists() or path in sources.documents().BUILT


def _resolves(dotted):
    """Return True if the name is a module, or an attribute in one."""
    parts = dotted.split('.')
    for length in range(len(parts), 0, -1):
        path = pathlib.Path(sources.ROOT, *parts[:length])
        if path.is_dir() or path.with_suffix('.py').exists():
            found = importlib.import_module('.'.join(parts[:length]))
            for attribute in parts[length:]:
                found = getattr(found, attribute, None)
            return found is not None
    return False


class LinksTest(unittest.TestCase):

    def test_links_of_documents_resolve(self):
        self.assertEqual([], [found for name, text in sources.texts('.rst')
                              for found in dead_links(name, text)])

    def test_dead_links_are_found(self):
        for text in (':doc:`nowhere`\n', ':doc:`words <nowhere>`\n', '.. image:: nowhere.svg\n',
                     '.. toctree::\n   :maxdepth: 1\n\n   nowhere\n', '``tools/nowhere``\n',
                     '``blockattach.nowhere``\n', '``blockattach.platform.errors.Nowhere``\n'):
            with self.subTest(text):
                self.assertEqual(1, len(list(dead_links('doc/source/example.rst', text))))

    def test_valid_links_pass(self):
        text = ('``blockattach/platform/clock.py`` ``blockattach.platform.errors.NotFound`` '
                '``blockattach.storage.domain``\n')
        self.assertEqual([], list(dead_links('doc/source/example.rst', text)))
