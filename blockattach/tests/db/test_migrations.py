"""Migrations: schema from empty, upgrade, expand and contract."""
import tempfile
import unittest

from oslo_db import exception as db_exception

from blockattach.compute.store import models as compute_models
from blockattach.platform import errors
from blockattach.storage.db import models
from blockattach.storage.db import schema
from blockattach.storage.db.services import pools
from blockattach.storage.db.types import volume_types
from blockattach.storage.db.volumes import volume_queries
from blockattach.tests.db import base
from blockattach.tests.db import migrating
from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import next_release

# Program that runs with the package of the next release.
CALLS = """
import sys
import sqlalchemy as sa
from alembic import autogenerate
from alembic.runtime import migration
from oslo_db import exception
from blockattach.platform import clock
from blockattach.platform import secrets
from blockattach.platform.conf import database
from blockattach.storage.db import storage_db
from blockattach.platform.db import engine
from blockattach.platform.db import opening
from blockattach.storage.db import models
from blockattach.storage.db import schema
from blockattach.storage.db.schema import online_migrations

opened = opening.open_engine(database.DatabaseSettings(sys.argv[1]))
rows = storage_db.Database(opened, secrets.Sealer([secrets.new_key()]), clock.Clock())

def compare():
    with opened.connect() as connection:
        context = migration.MigrationContext.configure(connection, opts={
            'compare_type': True, 'compare_server_default': True})
        print(autogenerate.compare_metadata(context, models.metadata) or 'same')

for name in sys.argv[2:]:
    try:
        if name == 'compare':
            compare()
        elif name == 'version':
            print(*filter(None, schema.version(opened)))
        elif name == 'remaining':
            print(sum(online_migrations.remaining(rows).values()))
        elif name == 'run':
            online_migrations.run(rows)
        else:
            getattr(schema, name)(opened)
    except (exception.DBError, sa.exc.SQLAlchemyError):
        print('refused')
"""


@base.on_every_database
class MigrationTest(migrating.MigrationTestCase):
    MODULE = schema
    METADATA = models.metadata

    def test_contract_of_empty_database_rejected(self):
        with self.assertRaises(errors.ConfigurationError):
            schema.contract(self.database.engine)
        self.assertEqual((None, None), schema.version(self.database.engine))

    def test_upgrade_creates_default_volume_type(self):
        schema.upgrade(self.database.engine)
        kind = volume_types.get_by_name(self.database, '__DEFAULT__')
        self.assertEqual(('Default Volume Type', True, {}),
                         (kind.description, kind.is_public, kind.extra_specs))

    def test_second_upgrade_keeps_default_volume_type(self):
        schema.upgrade(self.database.engine)
        kind = volume_types.get_by_name(self.database, '__DEFAULT__')
        schema.upgrade(self.database.engine)
        self.assertEqual(kind, volume_types.get_by_name(self.database, '__DEFAULT__'))


@base.on_sqlite_and_servers_in_turn
class ComputeMigrationTest(migrating.MigrationTestCase):
    """Migrations of the compute database."""

    MODULE = compute_models
    METADATA = compute_models.metadata


@base.on_sqlite_and_servers_in_turn
class BothMigrationsTest(base.DatabaseTestCase):
    """Migrations of both schemas in one database."""

    def test_migrations_of_two_schemas_independent(self):
        compute_models.MIGRATIONS.upgrade(self.database.engine)
        for module in (schema, compute_models):
            self.assertEqual(module.MIGRATIONS.expected(),
                             module.MIGRATIONS.version(self.database.engine))
            module.MIGRATIONS.check(self.database.engine)


class NextReleaseTestCase(base.DatabaseTestCase):
    MIGRATED = False

    def setUp(self):
        super().setUp()
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix='blockattach-'))
        self.code = next_release.make(folder)

    def done(self, *calls):
        """Run functions of the next release in their order and return the words they print."""
        ran = next_release.run(self.code, '-c', CALLS, self.fixture.url, *calls)
        self.assertEqual(0, ran.returncode, ran.stderr)
        return ran.stdout.split()


@base.on_sqlite_and_servers_in_turn
class NextReleaseTest(NextReleaseTestCase):
    """Upgrade of the tables and rows of this release to the next one."""

    def setUp(self):
        super().setUp()
        schema.upgrade(self.database.engine)

    def test_expand_keeps_rows_of_this_release(self):
        before = make.volume(self.database)
        self.assertEqual(['1001'], self.done('expand', 'version'))
        self.assertEqual(before, volume_queries.get(self.database, before.id))
        # A process of this release still works.
        make.volume(self.database)
        self.assertEqual(['2'], self.done('remaining'))
        self.assertRaises(errors.ConfigurationError, schema.check, self.database.engine)

    def test_contract_refused_until_rows_migrated(self):
        """The database refuses the contraction itself, if nothing has checked before."""
        make.volume(self.database)
        self.done('expand')
        self.assertEqual(['refused', '1001'], self.done('contract', 'version'))
        self.assertEqual(['0', '1001', 'c1001', 'same'], self.done(
            'run', 'remaining', 'contract', 'version', 'compare'))


@base.on_sqlite_and_servers_in_turn
class EmptyNextReleaseTest(NextReleaseTestCase):

    def test_upgrade_of_empty_database_contracts(self):
        self.assertEqual(['1001', 'c1001', 'same'],
                         self.done('upgrade', 'version', 'compare'))


@base.on_every_database
class TableTest(base.DatabaseTestCase):
    """Properties of the tables that a schema comparison does not cover."""

    def test_text_columns_hold_unicode_and_compare_exactly(self):
        for name in ('Vaults \N{SNOWMAN} \N{ROCKET}', 'vaults \N{SNOWMAN} \N{ROCKET}'):
            made = volume_types.create(self.database, name, None, True, {'Key': '1', 'key': '2'})
            self.assertEqual(made, volume_types.get_by_name(self.database, name))
            self.assertEqual({'Key': '1', 'key': '2'}, made.extra_specs)

    def test_pool_sizes_stored_exactly(self):
        make.pool(self.database, total_gb=123456789.25)
        found = pools.get(self.database, make.POOL, 60)
        self.assertEqual((123456789.25, 123456789.25), (found.total_gb, found.limit_gb))

    def test_too_long_text_rejected(self):
        if self.KIND == database.SQLITE:
            self.skipTest('SQLite enforces no lengths')
        self.assertRaises(db_exception.DBError, volume_types.create, self.database, 'x' * 256,
                          None, True, {})


class SqlTest(unittest.TestCase):
    """SQL statements of the migrations for an administrator to run by hand."""

    def test_migration_sql_per_database_kind(self):
        for url, word in (('mysql+pymysql://somewhere/%2F', 'MEDIUMTEXT'),
                          ('postgresql://somewhere/x', 'WITHOUT TIME ZONE'),
                          ('sqlite://', 'strftime')):
            with self.subTest(url):
                text = schema.sql(url)
                self.assertIn(word, text)
                for table in models.metadata.tables:
                    self.assertIn(f'CREATE TABLE {table} (', text)
