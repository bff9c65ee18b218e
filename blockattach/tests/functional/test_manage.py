"""Output and exit status of ``blockattach-manage``."""
import datetime
import functools
import importlib.util
import json
import os
import pathlib
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import unittest

import sqlalchemy as sa

from blockattach.platform import clock
from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.platform.secrets import key_file
from blockattach.storage.db import storage_db
from blockattach.storage.db import work
from blockattach.storage.db import work_ends
from blockattach.storage.db.services import pools
from blockattach.storage.db.services import services
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import binaries
from blockattach.storage.domain import volume_lifecycle
from blockattach.storage.rpc import history
from blockattach.tests.fixtures import clock as clocks
from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import exhaustive
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import next_release
from blockattach.tests.fixtures import polling
from blockattach.tests.functional import base
from blockattach.tests.functional import commands

SECONDS = polling.LIMIT
LONG_AGO = datetime.datetime(2020, 1, 1)


def fail_at(point, error):
    """Raise an error at a failpoint from now on."""
    failpoints.arm(point, functools.partial(_meet, error))


def _meet(error):
    raise error


class ManageTestCase(base.StackTestCase):
    """Test case that runs the command on ``state_dir``, with ``code`` as in `commands.run`."""

    database_url = None
    code = None

    def manage(self, *arguments, prepare=None):
        """Run the command and return its exit status, after checking for no traceback."""
        done = commands.run('blockattach-manage', arguments, self.environment(), prepare,
                            self.code)
        self.assertNotIn('Traceback', done.errors)
        self.said = done.output
        self.all_errors = done.errors.splitlines()
        self.errors = [line for line in done.errors.splitlines()
                       if line.startswith('blockattach-manage')]
        return done.status

    def environment(self):
        found = {'OS_DEFAULT__STATE_PATH': self.state_dir}
        if self.database_url:
            found['OS_DATABASE__CONNECTION'] = self.database_url
        return found

    def check(self, status, *arguments, **more):
        self.assertEqual(status, self.manage(*arguments, **more), (self.said, self.errors))

    def refused(self, words, *arguments):
        """Check that the command fails with one line and exit status 1."""
        self.check(1, *arguments)
        [line] = self.errors
        self.assertIn(words, line)
        self.assertEqual('', self.said)


class DriverTest(ManageTestCase):

    @unittest.skipIf(importlib.util.find_spec('MySQLdb'), 'mysqlclient is installed')
    def test_missing_database_driver_names_url_to_use(self):
        self.state_dir = self.enterContext(tempfile.TemporaryDirectory(prefix='blockattach-'))
        self.database_url = 'mysql://u:geheim@127.0.0.1:1/x'
        self.refused('start the URL with mysql+pymysql://', 'db', 'version')


class UnknownOptionTest(ManageTestCase):

    def test_unknown_option_logged_at_start(self):
        self.state_dir = self.enterContext(tempfile.TemporaryDirectory(prefix='blockattach-'))
        file = pathlib.Path(self.state_dir, 'blockattach.conf')
        file.write_text('[volume]\nenabled_backends = a\n[a]\nvolume_dirr = /x\n', 'utf-8')
        self.check(0, '--config-file', str(file), 'db', 'version')
        [line] = [line for line in self.all_errors if 'WARNING' in line]
        self.assertIn(f'path={file} group=a option=volume_dirr nearest=volumes_dir', line)
        # A line without a request has no request id in brackets.
        self.assertRegex(line, r' WARNING blockattach\.wiring\.configuration Ignoring unknown '
                               'option')


class FailureTest(ManageTestCase):
    """Errors that a command meets during its work."""

    def setUp(self):
        super().setUp()
        self.state_dir = self.enterContext(tempfile.TemporaryDirectory(prefix='blockattach-'))
        self.check(0, 'db', 'sync')

    def meet(self, error):
        """Return the error lines of a command that meets the error.

        No line may blame the database.
        """
        done = commands.run('blockattach-manage', ('attachments', 'derive', '--counts'),
                            self.environment(),
                            functools.partial(fail_at, 'db.derived.counts.before', error))
        self.assertEqual((1, ''), (done.status, done.output))
        self.assertNotIn('[database]', done.errors)
        return done.errors.splitlines()

    def test_known_error_printed_in_one_line(self):
        for error in (errors.ServiceUnreachable(topic='cinder-scheduler', seconds=60),
                      errors.OutcomeUnknown(), errors.BackendUncertain(reason='no answer')):
            with self.subTest(error):
                self.assertEqual([f'blockattach-manage: {error}'], self.meet(error))

    def test_unforeseen_error_printed_with_traceback(self):
        """A missing module other than the database driver is not blamed on the database."""
        for error in (ImportError("No module named 'castellan'"), OSError('fell over')):
            with self.subTest(error):
                lines = self.meet(error)
                self.assertIn('Traceback (most recent call last):', lines)
                self.assertEqual(f'{type(error).__name__}: {error}', lines[-1])


class RowsTestCase(ManageTestCase):
    """Test case with a database without tables."""

    def setUp(self):
        super().setUp()
        self.fixture = database.DatabaseFixture(migrated=False)
        self.addCleanup(self.fixture.close)
        self.state_dir = str(self.fixture.path.parent)

    def rows(self, time=None):
        """Open the database as a process that uses the same files."""
        opened = storage_db.Database(
            database.open_engine(self.fixture.url),
            key_file.KeyFile(f'{self.state_dir}/seal.key'), time or clock.Clock())
        self.addCleanup(opened.close)
        return opened


class UpgradeTest(RowsTestCase):
    """Upgrade to a next release that has an online migration and a contraction."""

    VOLUMES = 3

    def setUp(self):
        super().setUp()
        self.check(0, 'db', 'version')
        self.assertEqual('None\n', self.said)
        self.refused('run blockattach-manage db sync', 'db', 'sync', '--contract')
        self.check(0, 'db', 'sync')
        self.is_at('1000')
        opened = self.rows()
        for _ in range(self.VOLUMES):
            make.volume(opened)
        services.register(opened, binaries.VOLUME, 'storage-1@disks', 'nova', 'instance',
                          history.RELEASES[-1].name)
        self.opened = opened
        self.code = next_release.make(
            self.enterContext(tempfile.TemporaryDirectory(prefix='blockattach-')))

    def is_at(self, version):
        self.check(0, 'db', 'version')
        self.assertEqual(f'{version}\n', self.said)

    def stop_the_older(self):
        with self.opened.writer() as connection:
            connection.execute(sa.text("UPDATE services SET reported_at = '2020-01-01'"))

    @exhaustive.only
    def test_upgrade_with_older_service_needs_each_step(self):
        name = next_release.ONLINE_MIGRATION
        self.check(0, 'db', 'sync', '--expand')
        self.is_at('1001')
        self.refused(f'{self.VOLUMES} rows remain for the online data migration {name}', 'db',
                     'sync', '--contract')
        self.assertIn('storage-1@disks (release 1.0)', self.errors[0])
        self.check(0, 'db', 'sync')
        self.assertRegex(self.said, 'was expanded but not contracted: .*storage-1@disks')
        self.check(1, 'db', 'online_data_migrations', '--max-count', '2')
        self.assertRegex(self.said, rf'{name} +2 +2 +1\n')
        # As in Nova and Cinder, status 1 means that rows were migrated, so there may be more.
        self.check(1, 'db', 'online_data_migrations', '--max-count', '2')
        self.check(0, 'db', 'online_data_migrations', '--max-count', '2')
        self.check(0, 'db', 'online_data_migrations')
        self.refused('storage-1@disks', 'db', 'sync', '--contract')
        self.stop_the_older()
        self.check(0, 'db', 'sync', '--contract')
        self.check(0, 'db', 'sync')
        self.is_at('1001, contracted to c1001')

    def test_upgrade_without_services_needs_one_sync(self):
        """`db sync` expands, migrates the data and contracts in one call."""
        self.stop_the_older()
        self.check(0, 'db', 'sync')
        self.assertEqual('', self.said)
        self.is_at('1001, contracted to c1001')

    def test_failed_online_migration_exits_with_2(self):
        self.check(0, 'db', 'sync', '--expand')
        self.opened.close()
        with sqlite3.connect(self.fixture.path) as broken:
            broken.execute('CREATE TRIGGER broken BEFORE UPDATE ON volumes '
                           "BEGIN SELECT RAISE(ABORT, 'broken'); END")
        broken.close()
        done = commands.run('blockattach-manage', ('db', 'online_data_migrations'),
                            self.environment(), code=self.code)
        self.assertEqual(2, done.status)
        self.assertIn(f'migration {next_release.ONLINE_MIGRATION} failed', done.errors)


class DatabaseTest(RowsTestCase):

    def listed(self):
        """Return status, state, backend state and reason of each service by its host."""
        self.check(0, 'service', 'list')
        head, *rows = (re.split(' {2,}', line.strip()) for line in self.said.splitlines()
                       if not line.startswith('-'))
        self.assertEqual(['BINARY', 'HOST', 'CLUSTER', 'ZONE', 'STATUS', 'STATE',
                          'BACKEND STATE', 'LAST HEARTBEAT', 'REASON'], head)
        return {row[1]: (row[3], row[4], row[5], *row[7:]) for row in rows}

    def test_service_list_and_remove(self):
        self.check(0, 'db', 'sync')
        self.assertEqual({}, self.listed())
        rows, disks, tapes = self.rows(), 'storage-1@disks', 'storage-1@tapes'
        for host in (disks, tapes):
            services.register(rows, binaries.VOLUME, host, 'nova', 'instance')
            pools.report(rows, host, [(f'{host}#pool', {})], 'nova')
        services.set_disabled(rows, binaries.VOLUME, disks, True, 'new disks')
        services.set_frozen(rows, tapes, True)
        self.assertEqual({disks: ('disabled', 'up', 'up', 'new disks'),
                          tapes: ('frozen', 'up', 'up')}, self.listed())
        pools.report(rows, tapes, [(f'{tapes}#pool', {'backend_state': 'down'})], 'nova')
        self.assertEqual(('frozen', 'up', 'down'), self.listed()[tapes])
        self.refused(f'{binaries.VOLUME} on {tapes} is still sending heartbeats', 'service',
                     'remove', binaries.VOLUME, tapes)
        self.refused('could not be found', 'service', 'remove', binaries.SCHEDULER, tapes)
        with rows.writer() as connection:
            connection.execute(sa.text("UPDATE services SET reported_at = '2020-01-01 00:00:00' "
                                       f"WHERE host = '{tapes}'"))
        self.assertEqual(('frozen', 'down', 'down'), self.listed()[tapes])
        self.check(0, 'service', 'remove', binaries.VOLUME, tapes)
        self.refused('could not be found', 'service', 'remove', binaries.VOLUME, tapes)
        self.assertEqual({disks}, set(self.listed()))
        self.assertEqual([f'{disks}#pool'], [pool.name for pool in pools.list_all(rows, 60)])

    def test_interrupted_service_remove_repeatable(self):
        self.check(0, 'db', 'sync')
        rows, disks = self.rows(), 'storage-1@disks'
        for point in ('db.pools.forget.before', 'db.pools.forget.after',
                      'db.services.remove.before', 'db.services.remove.after'):
            with self.subTest(point):
                services.register(rows, binaries.VOLUME, disks, 'nova', 'instance')
                pools.report(rows, disks, [(f'{disks}#pool', {})], 'nova')
                with rows.writer() as connection:
                    connection.execute(sa.text("UPDATE services SET reported_at = '2020-01-01'"))
                remove = 'service', 'remove', binaries.VOLUME, disks
                cut_off = self.environment() | {'OS_FAILPOINTS__ARMED': f'{point}=kill'}
                self.assertEqual(-signal.SIGKILL, commands.run(
                    'blockattach-manage', remove, cut_off).status)
                self.manage(*remove)
                self.assertEqual({}, self.listed())
                self.assertEqual([], pools.list_all(rows, 60))

    def test_online_migrations_with_invalid_count_or_schema_rejected(self):
        for number in ('0', '-1', 'many'):
            self.check(127, 'db', 'online_data_migrations', '--max-count', number)
        self.assertIn('--max-count must be at least 1', self.errors[0])
        self.check(2, 'db', 'online_data_migrations')
        self.assertIn('run blockattach-manage db sync', self.errors[0])
        self.check(0, 'db', 'sync')
        self.check(0, 'db', 'online_data_migrations')

    def test_purge_by_age_and_max_rows(self):
        self.refused('run blockattach-manage db sync', 'db', 'purge', '30')
        self.check(0, 'db', 'sync')
        manual = clocks.ManualClock(LONG_AGO)
        rows = self.rows(manual)
        for _ in range(4):
            volume = make.volume(rows)
            deleting = volumes.start_delete(rows, volume, 60)
            work_ends.finish(rows, volumes.deletion(volume.id, deleting.generation))
        self.check(0, 'db', 'purge', '30', '--dry-run')
        self.assertEqual(['TABLE    WOULD BE PURGED', 'volumes  4'], self.said.splitlines())
        days = (clock.Clock().utcnow() - LONG_AGO).days
        self.check(0, 'db', 'purge', str(days + 10))
        self.assertEqual(['TABLE  PURGED'], self.said.splitlines())
        self.check(0, 'db', 'purge', '30', '--max-rows', '1')
        self.assertEqual(['TABLE    PURGED', 'volumes  1'], self.said.splitlines())
        self.check(0, 'db', 'purge', '30', '--batch', '2')
        self.assertEqual(['TABLE    PURGED', 'volumes  3'], self.said.splitlines())
        self.refused('--max-rows must be at least 1', 'db', 'purge', '30', '--max-rows', '0')
        self.refused('--batch must be at least 1', 'db', 'purge', '30', '--batch', '0')
        for age in ('-1', '1000000', '99999999999'):
            self.refused('age_in_days must be at least 0', 'db', 'purge', age)

    def test_work_list_and_cancel(self):
        self.refused('run blockattach-manage db sync', 'work', 'list')
        self.check(0, 'db', 'sync')
        rows = self.rows()
        waiting = make.volume(rows, own_status=volume_lifecycle.OwnStatus.CREATING)
        going = make.volume(rows)
        deleting = volumes.start_delete(rows, going, 60)
        self.check(0, 'work', 'list', '--format', 'json')
        found = {one['resource_id']: one for one in json.loads(self.said)}
        self.assertEqual({waiting.id: ('create', None), going.id: ('delete', deleting.host)},
                         {name: (one['verb'], one['host']) for name, one in found.items()})
        self.check(0, 'work', 'list', '--host', deleting.host)
        head, line = self.said.splitlines()
        self.assertRegex(head, '^ID +WORK +RESOURCE +HOST +STATE +SECONDS LEFT')
        self.assertRegex(line, f'volume.delete +{going.id} +{deleting.host} +waiting')
        self.check(0, 'work', 'cancel', found[waiting.id]['id'])
        self.assertIn(f'volume.create of {waiting.id}', self.said)
        self.assertEqual('error', volume_queries.get(rows, waiting.id).status)
        self.assertTrue(work.claim(rows, volumes.deletion(
            going.id, deleting.generation, 'one/1'), deleting.host, 60))
        self.refused('one/1 is running the work', 'work', 'cancel', found[going.id]['id'])
        self.refused('could not be found', 'work', 'cancel', found[waiting.id]['id'])

    def test_invalid_arguments_exit_with_2(self):
        for arguments in (('db', 'sync', '--expand', '--contract'), ('db', 'purge'),
                          ('db', 'purge', 'long'), ('db', 'purge', '30', '--max-rows', 'many'),
                          ('secrets', 'rotate', '--prepare', '--finish'), ('db', 'vanish'), ()):
            self.check(2, *arguments)

    @exhaustive.only
    def test_console_script_returns_exit_status(self):
        script = pathlib.Path(sys.executable).with_name('blockattach-manage')
        for status, arguments in ((1, ('db', 'purge', '30')),
                                  (2, ('db', 'online_data_migrations')),
                                  (2, ('db',)), (0, ('db', 'sync'))):
            done = subprocess.run([script, *arguments], capture_output=True, timeout=SECONDS,
                                  check=False, env={**os.environ, **self.environment()})
            self.assertEqual(status, done.returncode, done.stderr)

    def test_commands_on_mysql_and_postgresql(self):
        """Both database servers get the same messages."""
        for kind in (database.MYSQL, database.POSTGRESQL):
            self.outside_program(database.why_missing(kind) is None, kind)
            with self.subTest(kind), database.DatabaseFixture(kind, migrated=False) as fixture:
                self.database_url = fixture.url
                self.refused('run blockattach-manage db sync', 'db', 'purge', '30')
                self.check(0, 'db', 'sync')
                self.check(0, 'db', 'sync', '--contract')
                self.check(0, 'db', 'online_data_migrations')
                self.check(0, 'db', 'purge', '30')
                self.check(0, 'secrets', 'check')
