"""Creation, upgrade and refusal of the compute database."""
import os
import subprocess
import sys
import tempfile
import unittest

from blockattach.tests.fixtures import exhaustive
from blockattach.tests.fixtures import next_release
from blockattach.tests.fixtures import servers
from blockattach.tests.functional import commands

SYNC = 'run blockattach-manage compute_db sync'


class ComputeDatabaseTest(unittest.TestCase):
    """Test case whose ``url`` is that of the compute database.

    None means the file in the state folder.
    """

    def setUp(self):
        super().setUp()
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix='blockattach-'))
        self.url = None

    def environment(self):
        found = {'OS_DEFAULT__STATE_PATH': self.folder,
                 'OS_DEFAULT__TRANSPORT_URL': 'inproc://compute-database/',
                 'OS_COMPUTE__PORT': str(servers.free_port()),
                 'OS_BLOCK_STORAGE__ENDPOINT_OVERRIDE': 'http://127.0.0.1:1/v3'}
        return found | ({'OS_COMPUTE__CONNECTION': self.url} if self.url else {})

    def manage(self, verb, code=None):
        """Run `blockattach-manage compute_db` and return its output."""
        done = commands.run('blockattach-manage', ('compute_db', verb), self.environment(),
                            code=code)
        self.assertEqual(0, done.status, done.errors)
        return done.output

    def refused(self, words, name='blockattach-compute-api', arguments=(), code=None):
        """Check that a process fails with one line that names the option."""
        done = commands.run(name, arguments, self.environment(), code=code)
        self.assertEqual(1, done.status, done.errors)
        self.assertNotIn('Traceback', done.errors)
        [line] = [line for line in done.errors.splitlines() if line.startswith(name)]
        self.assertIn(words, line)
        self.assertIn('[compute] connection', line)

    def serve(self):
        """Start a compute API and stop it once it has started."""
        process = subprocess.Popen(
            [sys.executable, '-W', 'ignore', '-m', 'blockattach.cmd.compute_api'], text=True,
            stderr=subprocess.PIPE, env={**os.environ, **self.environment()})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stderr.close)
        said = []
        for line in process.stderr:
            said.append(line)
            if 'Process started' in line:
                process.terminate()
        self.assertEqual(0, process.wait(), said)
        self.assertIn('Process started', ''.join(said))

    def test_default_database_created_at_start(self):
        self.serve()
        self.assertEqual('1000\n', self.manage('version'))
        self.serve()

    def test_configured_database_created_by_sync(self):
        self.url = f'sqlite:///{self.folder}/servers.sqlite'
        self.assertEqual('None\n', self.manage('version'))
        self.refused(SYNC)
        for _ in range(2):
            self.manage('sync')
            self.assertEqual('1000\n', self.manage('version'))
        self.serve()

    @exhaustive.only
    def test_sync_upgrades_default_database(self):
        """The start does not upgrade the file, because other processes may have it open."""
        code = next_release.make(
            self.enterContext(tempfile.TemporaryDirectory(prefix='blockattach-')))
        self.manage('sync')
        self.refused(SYNC, code=code)
        self.manage('sync', code)
        self.assertEqual('1001\n', self.manage('version', code))
        for refused in ({}, {'name': 'blockattach-manage', 'arguments': ('compute_db', 'sync')}):
            self.refused('belongs to a newer release: revision 1001', **refused)

    def test_unusable_database_stops_start(self):
        self.url = f'sqlite:///{self.folder}/nowhere/servers.sqlite'
        self.refused('cannot use the database: unable to open database file')
        self.url = 'mysql+nothing://127.0.0.1/servers'
        self.refused('cannot use the database')
