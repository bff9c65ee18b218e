"""Native threads: no import, in any order, applies a monkey patch."""
import ast
import json
import subprocess
import sys
import unittest

from blockattach.tests.rules import sources

# Program for a fresh interpreter. It omits the tests, programs that run when they are imported,
# and alembic's scripts, which only alembic can load.
WALK = """
import importlib, json, pkgutil, socket, sys, threading, time
import blockattach

SKIPPED = ('blockattach.tests', 'blockattach.platform.db.alembic',
           'blockattach.storage.db.schema.migrations',
           'blockattach.compute.store.migrations')
names = ['blockattach']
for module in pkgutil.walk_packages(blockattach.__path__, 'blockattach.',
                                    onerror=lambda name: None):
    if not module.name.startswith(SKIPPED) and not module.name.endswith('.__main__'):
        names.append(module.name)
failed = {}
for name in names:
    try:
        importlib.import_module(name)
    except Exception as error:
        failed[name] = f'{type(error).__name__}: {error}'
import oslo_messaging
from oslo_service import backend
patched = []
if sys.modules.get('eventlet') is not None:
    from eventlet import patcher
    patched = [name for name in ('os', 'select', 'socket', 'thread', 'time')
               if patcher.is_monkey_patched(name)]
json.dump({
    'imported': names,
    'failed': failed,
    'backend': backend.get_backend_type().name,
    'patched': patched,
    'homes': sorted({socket.socket.__module__, threading.Thread.__module__,
                     type(threading.Lock()).__module__, threading.Thread.start.__module__,
                     time.sleep.__module__}),
}, sys.stdout)
"""

ONE_IMPORT = """
import sys
import blockattach
import oslo_messaging
from oslo_service import backend
sys.stdout.write(backend.get_backend_type().name)
"""


GREEN = ('eventlet', 'gevent', 'greenlet')


def greens(module):
    """Yield each place where a module uses green threads or patches other modules."""
    for node in ast.walk(module.tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or '']
        elif isinstance(node, ast.Attribute | ast.Name):
            names = [getattr(node, 'attr', None) or node.id]
        for name in names:
            if name.partition('.')[0] in GREEN or 'monkey' in name:
                yield f'{module.at(node)}: {name}'


def run(program: str) -> str:
    """Run a program in a separate interpreter and return its output."""
    done = subprocess.run([sys.executable, '-W', 'ignore', '-c', program], check=False,
                          capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(done.stderr)
    return done.stdout


class ThreadsTest(unittest.TestCase):
    """Choice of native threads at import of the package."""

    def test_every_module_keeps_native_threads(self) -> None:
        self.maxDiff = None
        seen = json.loads(run(WALK))
        self.assertEqual({}, seen['failed'])
        self.assertIn('blockattach.platform.rpc.transport', seen['imported'])
        self.assertEqual('THREADING', seen['backend'])
        self.assertEqual([], seen['patched'])
        self.assertEqual(['_thread', 'socket', 'threading', 'time'], seen['homes'])

    def test_oslo_messaging_uses_threading_backend(self) -> None:
        self.assertEqual('THREADING', run(ONE_IMPORT))

    def test_product_requests_no_green_threads(self) -> None:
        self.assertEqual([], [found for module in sources.product() for found in greens(module)])

    def test_request_of_green_threads_found(self) -> None:
        for text in ('import eventlet\n', 'import gevent.monkey\n', 'from eventlet import green\n',
                     'from x import y\ny.monkey_patch()\n', 'monkey_patch()\n'):
            with self.subTest(text):
                self.assertTrue(list(greens(sources.parse(text))))
