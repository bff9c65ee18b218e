"""Migrations: from empty to the tables of the models, once, however many ask at once."""
import tempfile
import unittest

from oslo_db import exception as db_exception

from blockattach.compute.store import models as compute_models
from blockattach.compute.store import schema
from blockattach.platform import errors
from blockattach.storage.db import models
from blockattach.storage.db.schema import migrate
from blockattach.storage.db.services import pools
from blockattach.storage.db.types import volume_types
from blockattach.storage.db.volumes import volume_queries
from blockattach.tests.db import base
from blockattach.tests.db import migrating
from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import next_release

# With the package of the next release.
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
from blockattach.storage.db.schema import migrate
from blockattach.storage.db import models
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
        elif name == 'migrate.version':
            print(*filter(None, migrate.version(opened)))
        elif name == 'online_migrations.remaining':
            print(sum(online_migrations.remaining(rows).values()))
        elif name == 'online_migrations.run':
            online_migrations.run(rows)
        else:
            getattr(migrate, name.partition('.')[2])(opened)
    except (exception.DBError, sa.exc.SQLAlchemyError):
        print('refused')
"""


@base.on_every_database
class MigrationTest(migrating.MigrationTestCase):
    MODULE = migrate
    METADATA = models.metadata

    def test_what_is_empty_is_not_contracted(self):
        with self.assertRaises(errors.ConfigurationError):
            migrate.contract(self.database.engine)
        self.assertEqual((None, None), migrate.version(self.database.engine))

    def test_there_is_a_type_for_volumes_whose_type_nobody_names(self):
        migrate.upgrade(self.database.engine)
        kind = volume_types.get_by_name(self.database, '__DEFAULT__')
        self.assertEqual(('Default Volume Type', True, {}),
                         (kind.description, kind.is_public, kind.extra_specs))

    def test_a_second_upgrade_leaves_what_the_first_has_written(self):
        migrate.upgrade(self.database.engine)
        kind = volume_types.get_by_name(self.database, '__DEFAULT__')
        migrate.upgrade(self.database.engine)
        self.assertEqual(kind, volume_types.get_by_name(self.database, '__DEFAULT__'))


@base.on_sqlite_and_servers_in_turn
class ComputeMigrationTest(migrating.MigrationTestCase):
    """The database of servers, which a consumer has."""

    MODULE = schema
    METADATA = compute_models.metadata


@base.on_sqlite_and_servers_in_turn
class BothMigrationsTest(base.DatabaseTestCase):
    """Nothing is confused where one database has both."""

    def test_each_knows_its_own(self):
        schema.MIGRATIONS.upgrade(self.database.engine)
        for module in (migrate, schema):
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
        """What functions of the next release print, called one after the other."""
        ran = next_release.run(self.code, '-c', CALLS, self.fixture.url, *calls)
        self.assertEqual(0, ran.returncode, ran.stderr)
        return ran.stdout.split()


@base.on_sqlite_and_servers_in_turn
class NextReleaseTest(NextReleaseTestCase):
    """Tables and rows of this release, brought to the next one."""

    def setUp(self):
        super().setUp()
        migrate.upgrade(self.database.engine)

    def test_what_this_release_has_written_stays(self):
        before = make.volume(self.database)
        self.assertEqual(['1001'], self.done('migrate.expand', 'migrate.version'))
        self.assertEqual(before, volume_queries.get(self.database, before.id))
        # A process of this release that runs on goes on.
        make.volume(self.database)
        self.assertEqual(['2'], self.done('online_migrations.remaining'))
        self.assertRaises(errors.ConfigurationError, migrate.check, self.database.engine)

    def test_the_database_itself_refuses_what_was_not_migrated(self):
        """Should the question not have been asked."""
        make.volume(self.database)
        self.done('migrate.expand')
        self.assertEqual(['refused', '1001'],
                         self.done('migrate.contract', 'migrate.version'))
        self.assertEqual(['0', '1001', 'c1001', 'same'], self.done(
            'online_migrations.run', 'online_migrations.remaining', 'migrate.contract',
            'migrate.version', 'compare'))


@base.on_sqlite_and_servers_in_turn
class EmptyNextReleaseTest(NextReleaseTestCase):

    def test_an_empty_database_is_contracted_too(self):
        self.assertEqual(['1001', 'c1001', 'same'],
                         self.done('migrate.upgrade', 'migrate.version', 'compare'))


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


class SqlTest(unittest.TestCase):
    """The statements, for an administrator to run by hand."""

    def test_each_kind_gets_statements_of_its_own(self):
        for url, word in (('mysql+pymysql://somewhere/%2F', 'MEDIUMTEXT'),
                          ('postgresql://somewhere/x', 'WITHOUT TIME ZONE'),
                          ('sqlite://', 'strftime')):
            with self.subTest(url):
                text = migrate.sql(url)
                self.assertIn(word, text)
                for table in models.metadata.tables:
                    self.assertIn(f'CREATE TABLE {table} (', text)
