"""Error classes: their documented tree, codes and fields."""
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
    """Return the parent of each class as the docstrings of the modules draw it."""
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

    def test_documented_tree_matches_classes(self):
        actual = {name: kind.__base__.__name__ for name, kind in CLASSES.items()
                  if kind is not errors.BlockattachError}
        picture = drawn()
        picture.pop('BlockattachError', None)
        self.assertEqual(actual, picture)

    def test_each_class_has_own_code(self):
        codes = {}
        for name, kind in CLASSES.items():
            self.assertIn('code', vars(kind), f'{name} has the code of its parent')
            self.assertRegex(kind.code, r'^[a-z_]+(\.[a-z_]+)?$', name)
            codes.setdefault(kind.code, []).append(name)
        self.assertEqual({}, {code: names for code, names in codes.items() if len(names) > 1})


class FieldsTest(unittest.TestCase):

    def test_fields_fill_text(self):
        for name, kind in CLASSES.items():
            with self.subTest(name):
                made = kind(**FIELDS)
                self.assertEqual(FIELDS, made.kwargs)
                self.assertEqual(kind.text % FIELDS, str(made))
                self.assertEqual((str(made),), made.args)

    def test_error_rebuilt_from_args_and_kwargs(self):
        for name, kind in CLASSES.items():
            with self.subTest(name):
                made = kind(**FIELDS)
                again = kind(*made.args, **made.kwargs)
                self.assertEqual((str(made), made.kwargs), (str(again), again.kwargs))

    def test_error_with_whole_text(self):
        self.assertEqual('100% said', str(errors.BackendRefused('100% said')))

    def test_missing_field_raises_key_error(self):
        self.assertRaises(KeyError, errors.VolumeNotFound)

    def test_uncertain_error_classes(self):
        self.assertEqual({'BackendUncertain', 'DatabaseNotWritable', 'DatabaseUnavailable',
                          'GlanceUnavailable', 'OutcomeUnknown', 'ServiceUnreachable',
                          'StorageUnavailable'},
                         {name for name, kind in CLASSES.items() if not kind.final})
