"""The tree of errors: drawn as it is, and each known by a code."""
import importlib
import inspect
import re
import sys
import unittest

from blockattach.storage import errors

CLASSES = {name: value for module in errors.MODULES
           for name, value in vars(importlib.import_module(module)).items()
           if inspect.isclass(value) and issubclass(value, errors.BlockattachError)}
FIELDS = {name: f'<{name}>' for name in (
    set(re.findall(r'%\((\w+)\)s', ''.join(
        inspect.getsource(sys.modules[name]) for name in errors.MODULES))))}


def drawn():
    """Class to parent, as the pictures at the top of the modules show it."""
    found, path = {}, {}
    for line in ''.join(sys.modules[name].__doc__ for name in errors.MODULES).splitlines():
        match = re.match(r'^    (?P<lines>[│├└─ ]*)(?P<names>[A-Z].*)$', line)
        if not match:
            continue
        depth = len(match['lines']) // 4
        names = re.match(r'(?:[A-Z]\w+(?:, ?)?)+', match['names'])
        for name in re.findall(r'\w+', names[0]) if names else ():
            if name in CLASSES:
                found[name] = path.get(depth - 1)
                path[depth] = name
    return found


class TreeTest(unittest.TestCase):

    def test_every_class_is_drawn_where_it_stands(self):
        actual = {name: kind.__base__.__name__ for name, kind in CLASSES.items()
                  if kind is not errors.BlockattachError}
        picture = drawn()
        picture.pop('BlockattachError', None)
        self.assertEqual(actual, picture)

    def test_every_class_has_a_code_of_its_own(self):
        codes = {}
        for name, kind in CLASSES.items():
            self.assertIn('code', vars(kind), f'{name} has the code of its parent')
            self.assertRegex(kind.code, r'^[a-z_]+(\.[a-z_]+)?$', name)
            codes.setdefault(kind.code, []).append(name)
        self.assertEqual({}, {code: names for code, names in codes.items() if len(names) > 1})


class FieldsTest(unittest.TestCase):

    def test_fields_fill_the_text_and_survive(self):
        for name, kind in CLASSES.items():
            with self.subTest(name):
                made = kind(**FIELDS)
                self.assertEqual(FIELDS, made.kwargs)
                self.assertEqual(kind.text % FIELDS, str(made))
                self.assertEqual((str(made),), made.args)

    def test_it_can_be_rebuilt_from_what_the_bus_carries(self):
        for name, kind in CLASSES.items():
            with self.subTest(name):
                made = kind(**FIELDS)
                again = kind(*made.args, **made.kwargs)
                self.assertEqual((str(made), made.kwargs), (str(again), again.kwargs))

    def test_a_text_may_be_given_whole(self):
        self.assertEqual('100% said', str(errors.BackendRefused('100% said')))

    def test_a_missing_field_is_a_mistake_of_ours(self):
        self.assertRaises(KeyError, errors.VolumeNotFound)

    def test_what_is_uncertain(self):
        self.assertEqual({'BackendUncertain', 'DatabaseNotWritable', 'DatabaseUnavailable',
                          'GlanceUnavailable', 'OutcomeUnknown', 'ServiceUnreachable',
                          'StorageUnavailable'},
                         {name for name, kind in CLASSES.items() if not kind.final})
