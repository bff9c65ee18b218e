"""Tests that are common to the migrations of each database."""
import fcntl
import pathlib
import tempfile

import sqlalchemy as sa
from alembic import autogenerate
from alembic.runtime import migration

from blockattach.platform import errors
from blockattach.tests.db import base
from blockattach.tests.db import upgrading
from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import forks
from blockattach.tests.fixtures import polling


class MigrationTestCase(base.DatabaseTestCase):
    """Test case of ``MIGRATIONS`` in ``MODULE``, which create the tables of ``METADATA``."""

    MIGRATED = False
    MODULE = None
    METADATA = None

    def setUp(self):
        super().setUp()
        self.migrations = self.MODULE.MIGRATIONS
        self.engine = self.database.engine

    def test_version_of_empty_database_is_none(self):
        self.assertEqual((None, None), self.migrations.version(self.engine))

    def test_check_of_empty_database_names_upgrade_command(self):
        with self.assertRaisesRegex(errors.ConfigurationError, f'run {self.migrations.command}$'):
            self.migrations.check(self.engine)

    def test_upgraded_schema_equals_models(self):
        self.migrations.upgrade(self.engine)
        self.assertEqual(self.migrations.expected(), self.migrations.version(self.engine))
        self.migrations.check(self.engine)
        self.assertEqual([], self.differences())

    def differences(self):
        with self.database.reader() as connection:
            context = migration.MigrationContext.configure(connection, opts={
                'compare_type': True, 'compare_server_default': True,
                'version_table': self.migrations.table})
            return autogenerate.compare_metadata(context, self.METADATA)

    def test_missing_index_found_by_comparison(self):
        self.migrations.upgrade(self.engine)
        table = next(table for table in self.METADATA.sorted_tables if table.indexes)
        index = min(index.name for index in table.indexes)
        with self.database.writer() as connection:
            connection.execute(sa.text(f'DROP INDEX {index}' + (
                f' ON {table.name}' if self.KIND == database.MYSQL else '')))
        [found] = self.differences()
        self.assertEqual('add_index', found[0])

    def test_newer_schema_rejected(self):
        self.migrations.upgrade(self.engine)
        table = self.migrations.table
        expanded = self.migrations.expected().expand
        for newer in (f"UPDATE {table} SET version_num = '9999' WHERE version_num = '{expanded}'",
                      f"INSERT INTO {table} (version_num) VALUES ('c9999')"):
            with self.database.writer() as connection:
                connection.execute(sa.text(newer))
            for act in (self.migrations.check, self.migrations.upgrade, self.migrations.expand,
                        self.migrations.contract):
                with self.assertRaisesRegex(errors.ConfigurationError, 'newer release'):
                    act(self.engine)

    def be_at(self, *revisions):
        """Replace the revisions that are recorded in the database."""
        with self.database.writer() as connection:
            connection.execute(sa.text(f'DELETE FROM {self.migrations.table}'))
            for revision in filter(None, revisions):
                connection.execute(sa.text(
                    f"INSERT INTO {self.migrations.table} (version_num) VALUES ('{revision}')"))

    def test_last_development_version_with_same_schema_upgraded(self):
        self.migrations.upgrade(self.engine)
        self.be_at(*self.migrations.last_development)
        with self.assertRaisesRegex(errors.ConfigurationError, f'run {self.migrations.command}$'):
            self.migrations.check(self.engine)
        self.migrations.upgrade(self.engine)
        self.migrations.check(self.engine)
        self.assertEqual(self.migrations.expected(), self.migrations.version(self.engine))

    def test_last_development_version_with_other_schema_refused(self):
        self.migrations.upgrade(self.engine)
        table, other = sorted((table for table in self.METADATA.tables.values() if table.indexes),
                              key=lambda table: table.name)[:2]
        index = min(index.name for index in table.indexes)
        with self.database.writer() as connection:
            connection.execute(sa.text(f'DROP INDEX {index}' + (
                f' ON {table.name}' if self.KIND == database.MYSQL else '')))
            connection.execute(sa.text(f'ALTER TABLE {other.name} ADD COLUMN colour INTEGER'))
        self.be_at(*self.migrations.last_development)
        with self.assertRaises(errors.ConfigurationError) as refused:
            self.migrations.upgrade(self.engine)
        self.assertIn(f'differs from that of this release in {table.name}, {other.name},',
                      str(refused.exception))
        self.assertEqual(self.migrations.last_development, self.migrations.version(self.engine))

    def test_older_development_version_refused(self):
        self.migrations.upgrade(self.engine)
        for older in (('0001',), ('0001', 'c0001')):
            self.be_at(*older)
            for upgrade in (self.migrations.upgrade, self.migrations.expand):
                with self.assertRaisesRegex(errors.ConfigurationError,
                                            'development revision 0001.* create a new database$'):
                    upgrade(self.engine)
            self.assertEqual(older[0], self.migrations.version(self.engine).expand)

    def test_second_upgrade_changes_nothing(self):
        self.migrations.upgrade(self.engine)
        self.migrations.upgrade(self.engine)
        self.assertEqual(self.migrations.expected(), self.migrations.version(self.engine))
        self.assertEqual([], self.differences())

    def test_concurrent_upgrades_migrate_once(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        with (folder / 'held').open('wb') as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            processes = [self.start_upgrade(folder, number) for number in range(4)]
            polling.until(lambda: all(upgrading.READY in process.text()
                                      or process.poll() is not None for process in processes))
        for process in processes:
            self.assertEqual(0, process.wait(), process.text())
        self.assertEqual(self.migrations.expected(), self.migrations.version(self.engine))
        self.assertEqual([], self.differences())

    def start_upgrade(self, folder, number):
        """Start a process that connects and waits until the test lets all processes upgrade."""
        process = forks.Fork(
            [upgrading.__name__, self.MODULE.__name__, self.fixture.url, str(folder / 'held')],
            folder / f'said-{number}')
        self.addCleanup(process.kill)
        return process

    def test_mysql_tables_are_innodb_with_binary_collation(self):
        if self.KIND != database.MYSQL:
            self.skipTest('only MySQL has engines and collations')
        self.migrations.upgrade(self.engine)
        with self.database.reader() as connection:
            found = connection.execute(sa.text(
                'SELECT table_name, engine, table_collation FROM information_schema.tables '
                'WHERE table_schema = database() AND table_name <> :version'),
                {'version': self.migrations.table}).all()
        self.assertEqual({(name, 'InnoDB', 'utf8mb4_bin') for name in self.METADATA.tables},
                         {tuple(row) for row in found})
