"""Time comes from `blockattach.platform.clock` and, in SQL, from `db.engine.clock`.

A test can control a clock that is passed as an argument, but not a global one. Sleeping is
forbidden, because it takes too long or not long enough. Code waits for a condition instead.
"""
import ast
import unittest

from blockattach.tests.rules import sources

CLOCKS = ('blockattach/platform/clock.py', 'blockattach/platform/db/clock.py',
          'blockattachclient/clock.py', 'blockattach_tempest_plugin/clock.py')

FORBIDDEN = (
    'time.time', 'time.time_ns', 'time.monotonic', 'time.monotonic_ns', 'time.perf_counter',
    'time.sleep', 'datetime.datetime.now', 'datetime.datetime.utcnow', 'datetime.datetime.today',
    'datetime.date.today', 'oslo_utils.timeutils', 'sqlalchemy.func.now',
    'sqlalchemy.func.current_timestamp', 'sqlalchemy.sql.func.now')
WORDS = ('CURRENT_TIMESTAMP',)


def sources_of_time(module):
    """Yield each place where a module reads another clock or sleeps."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute | ast.Name):
            name = module.imported(node)
            if name in FORBIDDEN:
                yield f'{module.at(node)}: {name}'
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            for word in WORDS:
                if word in node.value:
                    yield f'{module.at(node)}: {word}'


class TimeTest(unittest.TestCase):

    def test_only_clocks_read_time(self):
        excepted = (*CLOCKS, 'blockattach/tests/rules/test_time.py')
        self.assertEqual([], [found for module in sources.modules() if module.path not in excepted
                              for found in sources_of_time(module)])

    def test_other_clocks_are_found(self):
        for text in ('import time\ntime.monotonic()\n', 'from time import sleep\nsleep(1)\n',
                     'import datetime\ndatetime.datetime.now()\n',
                     'from datetime import datetime\ndatetime.now()\n',
                     'from oslo_utils import timeutils\ntimeutils.utcnow()\n',
                     'import sqlalchemy as sa\nsa.func.now()\n',
                     'import time\nhand_over(time.time)\n'):
            with self.subTest(text):
                self.assertNotEqual([], list(sources_of_time(sources.parse(text))))

    def test_injected_clock_passes(self):
        module = sources.parse('def wait(time):\n    return time.monotonic()\n')
        self.assertEqual([], list(sources_of_time(module)))
