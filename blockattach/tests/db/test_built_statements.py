"""Statements compiled once, which have the effect of SQLAlchemy's own."""
import datetime
from concurrent import futures

import sqlalchemy as sa
from oslo_db import exception as oslo_db_exception

from blockattach.platform.conf import database as database_conf
from blockattach.platform.db import clock
from blockattach.platform.db import opening
from blockattach.platform.db import statements
from blockattach.storage.db import models
from blockattach.storage.db import storage_db
from blockattach.tests.db import base
from blockattach.tests.fixtures import polling

_pools = models.pools
NAME = 'host@disks#pool'
NOW = datetime.datetime(2026, 3, 1, 12, 30, 15, 250000)
ROW = {'name': NAME, 'host': 'host@disks', 'availability_zone': 'nova', 'allocated_gb': 1,
       'capabilities': '{}', 'total_gb': 10.5, 'free_gb': None, 'provisioned_gb': 0.0,
       'limit_gb': 21.0, 'thin': True, 'multiattach': False, 'reported_at': NOW}


@base.on_sqlite_and_servers_in_turn
class BuiltTest(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.other = self.fixture.open()
        with self.database.writer() as connection:
            statements.insert(connection, _pools, ROW)

    ONE = statements.Statement(lambda dialect: _pools.select().where(
        _pools.c.name == statements.value('name'), _pools.c.host.in_(('host@disks', 'elsewhere'))))

    def read(self, database):
        with database.reader() as connection:
            return self.ONE.first(connection, name=NAME)

    def test_compiled_select_returns_stored_values(self):
        found = self.read(self.database)
        self.assertEqual(ROW, {name: getattr(found, name) for name in ROW})
        self.assertIs(True, found.thin)
        with self.database.reader() as connection:
            self.assertEqual(tuple(connection.execute(_pools.select()).one()), found)

    def test_compiled_select_without_match_returns_none(self):
        with self.database.reader() as connection:
            self.assertIsNone(self.ONE.first(connection, name='nobody'))
            self.assertEqual([], self.ONE.rows(connection, name='nobody'))

    def test_update_without_change_counts_matched_row(self):
        with self.database.writer() as connection:
            for _ in range(2):
                self.assertEqual(1, statements.update(
                    connection, _pools, {'name': NAME}, {'free_gb': 2.5, 'thin': False}))
            self.assertEqual(0, statements.update(
                connection, _pools, {'name': NAME, 'allocated_gb': 2}, {'free_gb': 1.0}))
        found = self.read(self.other)
        self.assertEqual((2.5, False), (found.free_gb, found.thin))

    def test_following_statements_need_match_of_first(self):
        more = {**ROW, 'name': 'more'}
        for name, found in (('nobody', False), (NAME, True)):
            with self.database.writer() as connection:
                self.assertEqual(found, statements.together(
                    connection, statements.updating(_pools, {'name': name}, {'allocated_gb': 5}),
                    statements.inserting(_pools, more)) > 0)
            with self.database.reader() as connection:
                self.assertEqual(found, self.ONE.first(connection, name='more') is not None)
        with self.assertRaises(oslo_db_exception.DBDuplicateEntry), \
                self.database.writer() as connection:
            statements.together(
                connection, statements.updating(_pools, {'name': NAME}, {'allocated_gb': 6}),
                statements.inserting(_pools, more))
        self.assertEqual(5, self.read(self.database).allocated_gb)
        with self.database.reader() as connection:
            found = self.ONE.first(connection, name='more')
        self.assertEqual(more, {name: getattr(found, name) for name in more})

    def test_later_time_computed_by_database_clock(self):
        with self.database.writer() as connection:
            statements.update(connection, _pools, {'name': NAME},
                              {'reported_at': clock.Later(60.0)})
            later, = connection.execute(sa.select(sa.and_(
                _pools.c.reported_at > clock.now(50), _pools.c.reported_at < clock.now(61)))).one()
        self.assertTrue(later)

    def test_duplicate_insert_rolls_back_transaction(self):
        with self.assertRaises(oslo_db_exception.DBDuplicateEntry), \
                self.database.writer() as connection:
            statements.update(connection, _pools, {'name': NAME}, {'allocated_gb': 7})
            statements.insert(connection, _pools, ROW)
        self.assertEqual(1, self.read(self.database).allocated_gb)

    def test_second_read_sees_writes_of_others(self):
        """A read leaves no transaction open on the pooled connection."""
        for number in range(2, 5):
            with self.other.writer() as connection:
                statements.update(connection, _pools, {'name': NAME}, {'allocated_gb': number})
            self.assertEqual(number, self.read(self.database).allocated_gb)

    def test_failed_transaction_rolled_back(self):
        with self.assertRaises(ZeroDivisionError), self.database.writer() as connection:
            statements.update(connection, _pools, {'name': NAME}, {'allocated_gb': 9})
            raise ZeroDivisionError
        for database in (self.database, self.other):
            self.assertEqual(1, self.read(database).allocated_gb)


@base.on_every_server
class ReadersTest(base.DatabaseTestCase):
    """Reader connections."""

    def setUp(self):
        super().setUp()
        settings = database_conf.DatabaseSettings(self.fixture.url, max_pool_size=2)
        self.looking = storage_db.Database(
            opening.open_engine(settings), self.database.sealer, self.database.clock,
            readers=opening.open_readers(settings))
        self.addCleanup(self.looking.close)
        with self.database.writer() as connection:
            statements.insert(connection, _pools, ROW)

    def test_reader_statements_see_latest_commit(self):
        with self.looking.reader() as connection:
            for number in range(2, 5):
                with self.looking.writer() as writing:
                    statements.update(writing, _pools, {'name': NAME}, {'allocated_gb': number})
                self.assertEqual(number, BuiltTest.ONE.first(
                    connection, name=NAME).allocated_gb)
                self.assertEqual(number, connection.execute(
                    sa.select(_pools.c.allocated_gb)).scalar_one())
        self.assertEqual((0, 2), self.looking.connections())

    def test_reader_connection_blocks_no_ddl(self):
        with self.looking.reader() as connection:
            self.assertIsNotNone(BuiltTest.ONE.first(connection, name=NAME))
            # ALTER TABLE waits for every transaction that has read the table.
            with self.database.writer() as other:
                other.exec_driver_sql('ALTER TABLE pools ADD COLUMN more INTEGER')
                other.exec_driver_sql('ALTER TABLE pools DROP COLUMN more')


@base.on_every_server
class ByItselfTest(base.DatabaseTestCase):
    """Transaction sent to the server in one round trip."""

    MORE = {**ROW, 'name': 'more'}

    def setUp(self):
        super().setUp()
        self.other = self.fixture.open()
        with self.database.writer() as connection:
            statements.insert(connection, _pools, ROW)
        self.assertIsNone(self.database.wrong())
        if not self.database.takes_as_one:
            self.skipTest('MySQL has no compound statements')

    def change(self, *steps):
        return self.database.change(lambda connection: self.fail('no COMMIT was lost'), *steps)

    def stored(self):
        return {row.name: row.allocated_gb for row in statements.Statement(
            lambda dialect: _pools.select()).rows(self.other)}

    def update(self, name, number):
        return statements.updating(_pools, {'name': name}, {'allocated_gb': number})

    def test_compound_statement_stores_all(self):
        for number in (5, 6, 7):
            self.assertEqual(1, self.change(self.update(NAME, number)))
            self.assertEqual({NAME: number}, self.stored())
        self.assertLess(0, self.change(self.update(NAME, 8),
                                       statements.inserting(_pools, self.MORE)))
        self.assertEqual({NAME: 8, 'more': 1}, self.stored())

    def test_compound_statement_without_match_stores_nothing(self):
        self.assertEqual(0, self.change(self.update('nobody', 5),
                                        statements.inserting(_pools, self.MORE)))
        self.assertEqual(0, self.change(self.update('nobody', 5)))
        self.assertEqual({NAME: 1}, self.stored())

    def test_compound_statement_with_failure_stores_nothing(self):
        for _ in range(3):
            with self.assertRaises(oslo_db_exception.DBDuplicateEntry):
                self.change(self.update(NAME, 5), statements.inserting(_pools, ROW))
            # No connection has an open transaction.
            self.assertEqual({NAME: 1}, self.stored())
            self.assertEqual(1, self.change(self.update(NAME, 1)))

    def test_compound_statement_waits_for_row_lock(self):
        """The statement waits and is not rejected for the write of the other transaction."""
        with futures.ThreadPoolExecutor(1) as pool, self.other.writer() as connection:
            statements.update(connection, _pools, {'name': NAME}, {'allocated_gb': 2})
            late = pool.submit(self.change, self.update(NAME, 3))
            polling.until(lambda: self.database.connections()[0] == 1, 'it is asked')
            connection.commit()
            self.assertEqual(1, late.result(polling.LIMIT))
        self.assertEqual({NAME: 3}, self.stored())
