"""Documents name existing options by their groups, and every package in the source map."""
import importlib.metadata
import re
import unittest

from blockattach.storage.conf import backend
from blockattach.tests.rules import sources
from blockattach.wiring import options

DOCUMENTS = sources.ROOT / 'doc' / 'source'
PAGES = ('README.rst', 'doc/source/')
HISTORY = 'doc/source/contributor/decisions/'
# Other modules of oslo.service import eventlet.
LIBRARY = re.compile(r'oslo\.(?!service)|oslo\.service\.(?!wsgi)|keystonemiddleware|castellan')
OPTION = re.compile(r'\[(\w+)\]\s+([a-z]\w+)\b(?!\])')
OF_OTHERS = {
    # Options of Cinder, on pages that give their names here.
    ('DEFAULT', 'host'), ('DEFAULT', 'enabled_backends'),
    # Options of Nova, Keystone and Tempest.
    ('service_user', 'send_service_user_token'), ('token', 'allow_expired_window'),
    ('blockattach', 'service_role')}
PACKAGE = re.compile(r'``(\w+)``')


def known_options():
    """Return the options of each group, including those of installed libraries."""
    found = {}
    listed = [*options.list_opts(), *(
        group for entry in importlib.metadata.entry_points(group='oslo.config.opts')
        if LIBRARY.match(entry.name) for group in entry.load()())]
    for group, opts in listed:
        found.setdefault(str(group or 'DEFAULT'), set()).update(one.dest for one in opts)
    return found


class DocumentsTest(unittest.TestCase):

    def test_options_named_by_documents_exist(self):
        known, of_backends = known_options(), {one.dest for one in backend.OPTS}
        wrong = []
        for path, text in sources.texts('.rst'):
            if not path.startswith(PAGES) or path.startswith(HISTORY):
                continue
            for group, name in OPTION.findall(text):
                # The groups of backends have any name in the documents.
                if name not in known.get(group, of_backends) and (
                        group, name) not in OF_OTHERS:
                    wrong.append(f'{path}: [{group}] {name}')
        self.assertEqual([], wrong)

    def test_source_map_names_every_package(self):
        text = (DOCUMENTS / 'contributor' / 'map.rst').read_text('utf-8')
        named = {name for line in re.findall(r'^   \* - (``.*)$', text, re.M)
                 for name in PACKAGE.findall(line)}
        for wing in ('', 'platform', 'storage', 'compute'):
            there = {path.stem for path in (sources.ROOT / 'blockattach' / wing).iterdir()
                     if path.suffix == '.py' or (path / '__init__.py').is_file()}
            self.assertEqual(set(), there - named - {'__init__', 'platform', 'storage', 'compute'})
