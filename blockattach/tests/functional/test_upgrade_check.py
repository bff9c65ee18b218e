"""Command ``blockattach-status upgrade check`` before, during and after an upgrade."""
import json
import pathlib
import tempfile

import sqlalchemy as sa
from cryptography import fernet

from blockattach.cmd import upgrade_checks
from blockattach.platform import clock
from blockattach.platform.secrets import key_file
from blockattach.storage.db import storage_db
from blockattach.storage.db.services import services
from blockattach.storage.domain import binaries
from blockattach.storage.rpc import history
from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import exhaustive
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import next_release
from blockattach.tests.functional import base
from blockattach.tests.functional import commands

LATER = ('Sealing_keys', 'Online_data_migrations', 'Schema_contraction')
BEFORE = history.RELEASES[-1].name


class CheckTestCase(base.StackTestCase):
    """Test case that runs the command on a database of its own.

    ``settings`` are environment variables by the name of the option. ``code`` is as in
    `commands.run`.
    """

    kind = database.SQLITE
    code = None

    def setUp(self):
        super().setUp()
        self.outside_program(database.why_missing(self.kind) is None, self.kind)
        self.fixture = database.DatabaseFixture(self.kind, migrated=False)
        self.addCleanup(self.fixture.close)
        self.state = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.settings = {'DATABASE__CONNECTION': self.fixture.url,
                         'DEFAULT__STATE_PATH': str(self.state)}

    def run_command(self, name, *arguments):
        done = commands.run(name, arguments, {
            f'OS_{option}': value for option, value in self.settings.items()}, code=self.code)
        self.assertNotIn('Traceback', done.output + done.errors)
        return done

    def manage(self, *arguments):
        done = self.run_command('blockattach-manage', *arguments)
        self.assertEqual(0, done.status, done)

    def check(self, status, **expected):
        """Check the exit status, and the details of each check that is no success."""
        done = self.run_command('blockattach-status', 'upgrade', 'check', '--json')
        found = {one['check']: one for one in json.loads(done.output)['checks']}
        self.assertEqual([name for name, _ in upgrade_checks.CHECKS], list(found))
        wrong = {name: one['details'] for name, one in found.items() if one['result']}
        self.assertEqual(status, done.status, wrong)
        self.assertEqual(status, max(one['result'] for one in found.values()))
        named = {name.replace('_', ' '): words for name, words in expected.items()}
        self.assertEqual(set(named), set(wrong), wrong)
        for name, words in named.items():
            self.assertIn(words, wrong[name])

    def configure(self, text):
        """Write the configuration file of the state path and return its path."""
        file = self.state / 'blockattach.conf'
        file.write_text(text, 'utf-8')
        self.settings['DEFAULT__STATE_PATH'] = str(self.state)
        return str(file)

    def check_file(self, status, text, name, words):
        file = self.configure(text)
        done = self.run_command('blockattach-status', '--config-file', file, 'upgrade', 'check',
                                '--json')
        self.assertEqual(status, done.status, done)
        found = {one['check']: one['details'] for one in json.loads(done.output)['checks']}
        self.assertIn(words, found[name])

    def rows(self):
        """Open the database as a process that uses the same files."""
        opened = storage_db.Database(database.open_engine(self.fixture.url),
                                 key_file.KeyFile(str(self.state / 'seal.key')), clock.Clock())
        self.addCleanup(opened.close)
        return opened

    def change(self, rows, statement):
        with rows.writer() as connection:
            connection.execute(sa.text(statement))


class UpgradeTest(CheckTestCase):
    """Upgrade to the next release."""

    def setUp(self):
        super().setUp()
        self.manage('db', 'sync')
        rows = self.rows()
        make.volume(rows)
        services.register(rows, binaries.VOLUME, 'storage-1@disks', 'nova', 'instance', BEFORE)
        self.code = next_release.make(str(self.state / 'next'))

    @exhaustive.only
    def test_upgrade_check_at_each_step_of_upgrade(self):
        later = dict.fromkeys(LATER, 'requires the expanded schema')
        self.check(2, Schema='blockattach-manage db sync --expand', **later)
        self.manage('db', 'sync', '--expand')
        begun = {'Services_of_older_releases': 'storage-1@disks',
                 'Online_data_migrations': f'1 for {next_release.ONLINE_MIGRATION}',
                 'Schema_contraction': 'db sync --contract'}
        self.check(2, RPC_release='does not name that release', **begun)
        self.settings['RPC__RELEASE'] = BEFORE
        self.check(1, **begun)
        refused = self.run_command('blockattach-manage', 'db', 'sync', '--contract')
        self.assertEqual(1, refused.status)
        self.assertIn('1 rows remain for the online data migration '
                      f'{next_release.ONLINE_MIGRATION}', refused.errors)
        services.register(self.rows(), binaries.VOLUME, 'storage-1@disks', 'nova', 'next instance',
                          next_release.NAME)
        del begun['Services_of_older_releases']
        self.check(1, RPC_release='set the option to auto', **begun)
        del self.settings['RPC__RELEASE']
        self.manage('db', 'online_data_migrations')
        del begun['Online_data_migrations']
        self.check(1, **begun)
        self.manage('db', 'sync', '--contract')
        self.check(0)
        said = self.run_command('blockattach-status', 'upgrade', 'check')
        self.assertEqual(0, said.status)
        self.assertEqual(len(upgrade_checks.CHECKS), said.output.count('Result: Success'))

    def test_renamed_option_is_failure_after_upgrade(self):
        self.manage('db', 'sync')
        self.check_file(2, '[rpc]\nthreads = 3\n', 'Option names',
                        'threads has been renamed to rpc_threads')


class FindingsTest(CheckTestCase):
    """Up-to-date installation with a single finding."""

    def setUp(self):
        super().setUp()
        self.manage('db', 'sync')
        self.check(0)

    def test_schema_of_newer_release_is_failure(self):
        self.change(self.rows(), "UPDATE alembic_version SET version_num = '9999' "
                                 "WHERE version_num = '1000'")
        later = dict.fromkeys(LATER, 'requires the expanded schema')
        self.check(2, Schema='at revision 9999 of a newer release', **later)

    def test_outdated_compute_database_is_failure(self):
        self.settings['COMPUTE__CONNECTION'] = f'sqlite:///{self.state}/servers.sqlite'
        self.check(2, Compute_schema='run blockattach-manage compute_db sync')
        self.manage('compute_db', 'sync')
        self.check(0)
        self.settings['COMPUTE__CONNECTION'] = f'sqlite:///{self.state}/nowhere/servers.sqlite'
        self.check(2, Compute_schema='[compute] connection')

    def test_unknown_rpc_release_is_failure(self):
        self.settings['RPC__RELEASE'] = '7.0'
        self.check(2, RPC_release="'7.0'")

    def test_wrong_or_missing_sealing_key_is_failure(self):
        rows = self.rows()
        make.attachment(rows, make.volume(rows), with_connector=make.connector('iqn.1'))
        self.check(0)
        file = self.state / 'seal.key'
        file.write_bytes(fernet.Fernet.generate_key())
        self.check(2, Sealing_keys='blockattach-manage secrets check')
        file.unlink()
        self.check(2, Sealing_keys=f'{file} does not exist')
        self.assertFalse(file.exists(), 'the check must not create the missing key')

    def test_unknown_options_listed_one_a_line_below_their_file(self):
        text = '[volume]\nenabled_backends = disks\n[disks]\nvolume_dirr = /x\nfoo_zzz = 1\n'
        file = self.configure(text)
        lines = ['[disks] volume_dirr is unknown (did you mean volumes_dir?)',
                 '[disks] foo_zzz is unknown']
        self.check_file(1, text, 'Option names', '\n'.join([f'{file}:', *lines]))
        said = self.run_command('blockattach-status', '--config-file', str(file), 'upgrade',
                                'check')
        shown = [line.strip('| ') for line in said.output.splitlines()]
        self.assertLessEqual(set(lines), set(shown))
        self.assertNotIn('Ignoring unknown option', said.errors)

    def test_option_that_stops_start_is_a_failure(self):
        text = '[DEFAULT]\nauth_strategy = keystone\n'
        file = self.configure(text)
        self.check_file(2, text, 'Option names',
                        f'[DEFAULT] auth_strategy in {file} (set [api] auth_strategy instead)')

    def test_unknown_policy_is_warning(self):
        file = self.state / 'policy.yaml'
        file.write_text('"volume:creat": "role:admin or rule:mine"\n"mine": "role:x"\n', 'utf-8')
        self.settings['OSLO_POLICY__POLICY_FILE'] = str(file)
        self.check(1, Policy_file=f'volume:creat in {file} is not a policy '
                                  '(did you mean volume:create?)')
        file.write_text('"volume:create": [', 'utf-8')
        self.check(2, Policy_file=str(file))

    def test_json_policy_file_is_failure(self):
        (self.state / 'policy.json').write_text('{}', 'utf-8')
        self.settings['OSLO_POLICY__POLICY_FILE'] = str(self.state / 'policy.json')
        self.check(2, Policy_file='JSON-formatted')

    def test_classic_queues_and_second_transport_are_warnings(self):
        self.settings['DEFAULT__TRANSPORT_URL'] = 'rabbit://host/?rabbit_quorum_queue=false'
        self.check(1, Message_bus='Disabled options: rabbit_quorum_queue. Classic')
        self.settings['DEFAULT__TRANSPORT_URL'] = 'rabbit://host/'
        self.settings['RPC__SECOND_TRANSPORT_URL'] = 'rabbit://other/'
        self.check(1, Message_bus='second_transport_url is still set')

    def test_bus_without_broker_passes(self):
        self.settings['DEFAULT__TRANSPORT_URL'] = 'http://'
        self.check(0)

    def test_failed_check_exits_with_255_and_one_line(self):
        for option, value, words in (
                ('DATABASE__CONNECTION', 'sqlite:////nowhere/at/all', 'cannot use the database'),
                ('RPC__THREADS', 'many', '[rpc] threads')):
            with self.subTest(option):
                before = dict(self.settings)
                self.settings[option] = value
                done = self.run_command('blockattach-status', 'upgrade', 'check')
                self.settings = before
                self.assertEqual((255, ''), (done.status, done.output))
                [line] = done.errors.splitlines()
                self.assertIn(words, line)


class MysqlTest(CheckTestCase):

    kind = database.MYSQL

    def test_character_set_and_inproc_bus_are_failures(self):
        self.manage('db', 'sync')
        self.check(0)
        self.change(self.rows(), 'ALTER TABLE messages CONVERT TO CHARACTER SET latin1')
        self.settings['DEFAULT__TRANSPORT_URL'] = 'inproc://one/'
        self.check(2, Database_character_set='messages', Message_bus='Separate processes need')


class PostgresqlTest(CheckTestCase):

    kind = database.POSTGRESQL

    def test_upgrade_check_passes_on_postgresql(self):
        self.manage('db', 'sync')
        self.check(0)
