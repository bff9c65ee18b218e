"""Files, functions and lists of imports stay small enough to be read at one go."""
import unittest

from blockattach.tests.rules import sources

check_sizes = sources.load_tool('check_sizes')

COUNTED = '''"""A module.

Of one function.
"""
import os  # counted

LONG = """one

three"""
"""What it is."""


def f(
    value,
):
    """Return it."""
    # Why.
    return (value,
            "a text")
'''


class SizesTest(unittest.TestCase):

    def test_files_and_functions_within_limits(self):
        self.assertEqual([], [str(finding) for finding in check_sizes.findings(sources.ROOT)])

    def test_long_file_found(self):
        self.assertEqual(1, self._count('a = 1\n' * (check_sizes.FILE_LINES + 1)))
        self.assertEqual(0, self._count('a = 1\n' * check_sizes.FILE_LINES))

    def test_long_function_found(self):
        line = '    a = 1\n'
        self.assertEqual(1, self._count('def f():\n' + line * check_sizes.FUNCTION_LINES))
        self.assertEqual(0, self._count('def f():\n' + line * (check_sizes.FUNCTION_LINES - 1)))

    def test_long_script_function_found(self):
        line = '  a = 1;\n'
        for head in ('export async function f(a,\n b) {\n', '  f(a) {\n', '  static f() {\n'):
            end = f'{" " * (len(head) - len(head.lstrip()))}}}\n'
            body = line * (check_sizes.FUNCTION_LINES - head.count('\n') - 1)
            with self.subTest(head):
                self.assertEqual(1, self._count(head + line + body + end, 'a.js'))
                self.assertEqual(0, self._count(head + body + end, 'a.js'))

    def test_module_with_too_many_imports_found(self):
        lines = [f'from blockattach.storage.db import m{number}\n'
                 for number in range(check_sizes.INTERNAL_IMPORTS + 1)]
        self.assertEqual(1, self._count(''.join(lines)))
        self.assertEqual(0, self._count(''.join(lines[1:])))
        self.assertEqual(0, self._count(''.join(lines), 'blockattach/storage/api/routes.py'))

    def test_code_lines_counted(self):
        self.assertEqual(8, check_sizes.code_lines(COUNTED))
        self.assertEqual(0, check_sizes.code_lines('"""Nothing else."""\n'))
        self.assertEqual(0, check_sizes.code_lines(''))

    def test_and_tool_code_not_counted(self):
        self.assertEqual({'api': 2, 'log.py': 1}, check_sizes.count([
            ('api/a.py', 'a = 1\n'), ('api/resources/b.py', 'b = 1\n'), ('log.py', 'c = 1\n'),
            ('tests/d.py', 'd = 1\n'), ('testing/e.py', 'e = 1\n'),
            ('conformance/f.py', 'f = 1\n')]))

    def _count(self, text, name='blockattach/example.py'):
        return len(list(check_sizes.check(name, text)))
