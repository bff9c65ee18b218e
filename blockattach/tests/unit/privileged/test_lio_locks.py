"""Lock of a volume among the processes that share LIO."""
import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import unittest

from blockattach.storage.privileged import lio_reservations
from blockattach.tests.fixtures import lio_kernel
from blockattach.tests.fixtures import polling

HOLDER = """
import sys
from rtslib_fb import node
from blockattach.storage.privileged import lio_reservations
node.CFSNode.configfs_dir = sys.argv[1]
with lio_reservations.alone(sys.argv[2]):
    print('held', flush=True)
    sys.stdin.read()
"""
WAIT = polling.LIMIT


class LocksTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        playing = contextlib.ExitStack()
        self.addCleanup(playing.close)
        folder = playing.enter_context(tempfile.TemporaryDirectory())
        self.kernel = lio_kernel.FakeLio()
        playing.enter_context(self.kernel.installed())
        with open(f'{self.kernel.root}/dbroot', 'w', encoding='utf-8') as file:
            file.write(folder)

    def held_elsewhere(self, name):
        process = subprocess.Popen([sys.executable, '-c', HOLDER, self.kernel.root, name],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        def end():
            process.kill()
            process.communicate()
        self.addCleanup(end)
        self.assertEqual('held', process.stdout.readline().strip())
        return process

    def waiter(self, name):
        """Return an event that is set once a thread has acquired the lock."""
        had = threading.Event()

        def take():
            with lio_reservations.alone(name):
                had.set()
        thread = threading.Thread(target=take, daemon=True)
        # What it has open, the next test would count.
        self.addCleanup(thread.join, WAIT)
        thread.start()
        return had

    def test_lock_released_by_death_of_process(self):
        holder = self.held_elsewhere('one')
        self.assertTrue(self.waiter('two').wait(WAIT))
        had = self.waiter('one')
        self.assertFalse(had.wait(0.2))
        holder.kill()
        self.assertTrue(had.wait(WAIT))

    def test_lock_excludes_thread_and_leaves_no_open_file(self):
        before = len(os.listdir('/proc/self/fd'))
        with lio_reservations.alone('one'):
            had = self.waiter('one')
            self.assertFalse(had.wait(0.1))
        self.assertTrue(had.wait(WAIT))
        with lio_reservations.alone('one'):
            pass
        self.assertEqual(before, len(os.listdir('/proc/self/fd')))
