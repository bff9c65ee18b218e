"""Migrations: from empty to the tables of the models, once, however many ask at once."""
import datetime
import pathlib
import subprocess
import sys
import unittest

import sqlalchemy as sa
from alembic import autogenerate
from alembic import command
from alembic import config
from alembic.runtime import migration
from oslo_db import exception as db_exception

from blockattach import errors
from blockattach.db import engine
from blockattach.db import migrate
from blockattach.db import models
from blockattach.db import pools
from blockattach.db import volume_queries
from blockattach.db import volume_types
from blockattach.tests.db import base
from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import patience

MIGRATIONS = str(pathlib.Path(migrate.__file__).parent / 'migrations')
OLDER_VOLUME = {
    'id': 'an-older-volume', 'project_id': 'p', 'user_id': 'u', 'name': 'of old', 'size_gb': 1,
    'own_status': 'available', 'status': 'available', 'attach_status': 'detached',
    'multiattach': False, 'bootable': False, 'availability_zone': 'nova',
    'shared_targets': False, 'generation': 1, 'attempts': 0, 'tried': '[]', 'deleted': False,
    'created_at': datetime.datetime(2026, 1, 1)}

UPGRADE = """
import sys
from blockattach.db import migrate
from blockattach.tests.fixtures import database
engine = database.open_engine(sys.argv[1])
print('ready', flush=True)
sys.stdin.readline()
migrate.upgrade(engine)
assert migrate.version(engine) == migrate.expected()
"""


@base.on_every_database
class MigrationTest(base.DatabaseTestCase):
    MIGRATED = False

    def test_an_empty_database_has_no_version(self):
        self.assertEqual((None, None), migrate.version(self.database.engine))

    def test_the_tables_are_those_of_the_models(self):
        migrate.upgrade(self.database.engine)
        self.assertEqual(migrate.expected(), migrate.version(self.database.engine))
        self.assertEqual([], self.differences())

    def differences(self):
        with self.database.reader() as connection:
            context = migration.MigrationContext.configure(
                connection, opts={'compare_type': True, 'compare_server_default': True})
            return autogenerate.compare_metadata(context, models.metadata)

    def test_expanded_it_has_all_that_the_models_have(self):
        """What is left is only what a process of the release before could not live with."""
        migrate.expand(self.database.engine)
        self.assertEqual((migrate.expected().expand, None), migrate.version(self.database.engine))
        migrate.check(self.database.engine)
        self.assertEqual({'modify_nullable', 'remove_table'}, {
            change[0] for found in self.differences()
            for change in (found if isinstance(found, list) else [found])})
        migrate.upgrade(self.database.engine)
        self.assertIsNone(migrate.version(self.database.engine).contract)
        migrate.contract(self.database.engine)
        self.assertEqual(migrate.expected(), migrate.version(self.database.engine))
        self.assertEqual([], self.differences())

    def test_what_is_empty_is_not_contracted(self):
        with self.assertRaises(errors.ConfigurationError):
            migrate.contract(self.database.engine)
        self.assertEqual((None, None), migrate.version(self.database.engine))

    def test_a_newer_contraction_is_refused(self):
        migrate.upgrade(self.database.engine)
        with self.database.writer() as connection:
            connection.execute(sa.text("UPDATE alembic_version SET version_num = 'c9999' "
                                       "WHERE version_num LIKE 'c%'"))
        for act in (migrate.check, migrate.upgrade, migrate.expand, migrate.contract):
            with self.assertRaisesRegex(errors.ConfigurationError, 'newer release'):
                act(self.database.engine)

    def test_the_comparison_sees_a_difference(self):
        migrate.upgrade(self.database.engine)
        with self.database.writer() as connection:
            connection.execute(sa.text('DROP INDEX ix_pools_host' + (
                ' ON pools' if self.KIND == database.MYSQL else '')))
        [found] = self.differences()
        self.assertEqual('add_index', found[0])

    def test_there_is_a_type_for_volumes_whose_type_nobody_names(self):
        migrate.upgrade(self.database.engine)
        kind = volume_types.get_by_name(self.database, '__DEFAULT__')
        self.assertEqual(('Default Volume Type', True, {}),
                         (kind.description, kind.is_public, kind.extra_specs))

    def test_a_second_upgrade_changes_nothing(self):
        migrate.upgrade(self.database.engine)
        kind = volume_types.get_by_name(self.database, '__DEFAULT__')
        migrate.upgrade(self.database.engine)
        self.assertEqual(kind, volume_types.get_by_name(self.database, '__DEFAULT__'))

    def test_what_an_older_release_has_written_stays(self):
        with self.database.engine.connect() as older, engine.begin(older):
            settings = config.Config()
            settings.set_main_option('script_location', MIGRATIONS)
            settings.attributes['connection'] = older
            command.upgrade(settings, '0002')
            kind = older.execute(sa.text('SELECT id FROM volume_types')).scalar_one()
            values = {**OLDER_VOLUME, 'volume_type_id': kind}
            older.execute(sa.text(
                f'INSERT INTO volumes ({", ".join(values)}) '
                f'VALUES ({", ".join(f":{name}" for name in values)})').bindparams(**values))
        migrate.upgrade(self.database.engine)
        found = volume_queries.get(self.database, OLDER_VOLUME['id'])
        self.assertEqual(('of old', False), (found.name, found.encrypted))
        self.assertIsNone(volume_types.get(self.database, kind).encryption)

    def start_upgrade(self):
        """A process that has connected and waits for a line to go on."""
        process = subprocess.Popen(
            [sys.executable, '-W', 'ignore', '-c', UPGRADE, self.fixture.url],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def test_processes_that_start_at_once_migrate_once(self):
        processes = [self.start_upgrade() for _ in range(4)]
        for process in processes:
            self.assertEqual('ready\n', process.stdout.readline())
        for process in processes:
            process.stdin.write('go\n')
            process.stdin.flush()
        for process in processes:
            _, words = process.communicate(timeout=patience.LIMIT)
            self.assertEqual(0, process.returncode, words)
        self.assertEqual(migrate.expected(), migrate.version(self.database.engine))
        with self.database.reader() as connection:
            count = connection.execute(sa.text('SELECT count(*) FROM volume_types')).scalar()
        self.assertEqual(1, count)


@base.on_every_database
class TableTest(base.DatabaseTestCase):
    """What the servers make of the tables that a comparison does not see."""

    def test_text_holds_all_of_unicode_and_is_compared_exactly(self):
        for name in ('Vaults \N{SNOWMAN} \N{ROCKET}', 'vaults \N{SNOWMAN} \N{ROCKET}'):
            made = volume_types.create(self.database, name, None, True, {'Key': '1', 'key': '2'})
            self.assertEqual(made, volume_types.get_by_name(self.database, name))
            self.assertEqual({'Key': '1', 'key': '2'}, made.extra_specs)

    def test_sizes_of_pools_are_kept_to_the_digit(self):
        make.pool(self.database, total_gb=123456789.25)
        found = pools.get(self.database, make.POOL, 60)
        self.assertEqual((123456789.25, 123456789.25), (found.total_gb, found.limit_gb))

    def test_text_that_is_too_long_is_refused_and_not_cut(self):
        if self.KIND == database.SQLITE:
            self.skipTest('SQLite knows no lengths')
        self.assertRaises(db_exception.DBError, volume_types.create, self.database, 'x' * 256,
                          None, True, {})

    def test_every_table_is_transactional_and_counts_bytes_on_mysql(self):
        if self.KIND != database.MYSQL:
            self.skipTest('engines and collations are a matter of MySQL')
        with self.database.reader() as connection:
            found = connection.execute(sa.text(
                'SELECT table_name, engine, table_collation FROM information_schema.tables '
                "WHERE table_schema = database() AND table_name <> 'alembic_version'")).all()
        self.assertEqual({(name, 'InnoDB', 'utf8mb4_bin') for name in models.metadata.tables},
                         {tuple(row) for row in found})


class SqlTest(unittest.TestCase):
    """The statements for somebody who runs them by hand."""

    def test_each_kind_gets_statements_of_its_own(self):
        for url, word in (('mysql+pymysql://somewhere/%2F', 'MEDIUMTEXT'),
                          ('postgresql://somewhere/x', 'WITHOUT TIME ZONE'),
                          ('sqlite://', 'strftime')):
            with self.subTest(url):
                text = migrate.sql(url)
                self.assertIn(word, text)
                for table in models.metadata.tables:
                    self.assertIn(f'CREATE TABLE {table} (', text)
