"""Prepared statements of MariaDB, which are parsed once per connection."""
import sqlalchemy as sa
from oslo_db import exception as oslo_db_exception

from blockattach.platform.conf import database as database_conf
from blockattach.platform.db import opening
from blockattach.platform.db import session_statements
from blockattach.platform.db import statements
from blockattach.storage.db import storage_db
from blockattach.tests.db import base
from blockattach.tests.db import test_built_statements
from blockattach.tests.fixtures import database

NAME, ROW = test_built_statements.NAME, test_built_statements.ROW
_pools = test_built_statements._pools
ONE = statements.Statement(lambda dialect: _pools.select().where(
    _pools.c.name == statements.value('name')))


class SessionStatementsTest(base.DatabaseTestCase):

    KIND = database.MYSQL

    def setUp(self):
        super().setUp()
        with self.database.reader() as connection:
            if not connection.dialect.is_mariadb:
                self.skipTest('MySQL accepts no values in EXECUTE')
        with self.database.writer() as connection:
            statements.insert(connection, _pools, ROW)

    def look(self, connection):
        self.assertEqual(ROW['allocated_gb'], ONE.first(connection, name=NAME).allocated_gb)

    def test_statement_prepared_once_per_connection(self):
        with self.database.reader() as connection:
            for _ in range(5):
                self.look(connection)
            self.assertEqual((1, 4), counted(connection))

    def test_first_statement_of_process_prepared(self):
        """The process has written nothing yet, so only its reader connections know the server."""
        one = statements.Statement(lambda dialect: _pools.select().where(
            _pools.c.name == statements.value('name'), _pools.c.thin.is_not(None)))
        fresh = self.fixture.open()
        for _ in range(5):
            self.assertIsNotNone(one.first(fresh, name=NAME))
        with fresh.reader() as connection:
            self.assertEqual((1, 4), counted(connection))

    def test_prepared_statements_disabled_by_option(self):
        settings = database_conf.DatabaseSettings(self.fixture.url, prepare_statements=False)
        other = storage_db.Database(opening.open_engine(settings), self.database.sealer,
                                self.database.clock)
        self.addCleanup(other.close)
        with other.reader() as connection:
            for _ in range(5):
                self.look(connection)
            self.assertEqual((0, 0), counted(connection))

    def test_prepared_values_equal_text_values(self):
        for number, free in enumerate((None, 2.5, 1e-7, None, 3.0)):
            text = f"'%s' ? \\ \" {number} \U0001f600"
            with self.database.writer() as connection:
                self.assertEqual(1, statements.update(
                    connection, _pools, {'name': NAME}, {'free_gb': free, 'capabilities': text}))
            with self.database.reader() as connection:
                found = ONE.first(connection, name=NAME)
            self.assertEqual((free, text), (found.free_gb, found.capabilities))

    def test_prepared_statement_errors_translated(self):
        for _ in range(3):
            with self.assertRaises(oslo_db_exception.DBDuplicateEntry), \
                    self.database.writer() as connection:
                statements.insert(connection, _pools, ROW)

    def test_prepared_statement_survives_schema_change(self):
        with self.database.reader() as connection:
            for _ in range(3):
                self.look(connection)
        with self.database.writer() as connection:
            connection.exec_driver_sql('ALTER TABLE pools ADD COLUMN more INTEGER FIRST')
            connection.exec_driver_sql('ALTER TABLE pools DROP COLUMN more')
        with self.database.reader() as connection:
            for _ in range(3):
                self.look(connection)

    def test_prepared_statements_survive_session_switch_by_proxy(self):
        """A proxy lends the session, in which an open transaction continues."""
        texts = set()
        sa.event.listen(self.database.engine, 'before_cursor_execute',
                        lambda connection, cursor, text, *rest: texts.add(text))
        with self.database.writer() as connection:
            for number in (2, 3, 4):
                statements.update(connection, _pools, {'name': NAME}, {'allocated_gb': number})
                self.assertEqual(number, ONE.first(connection, name=NAME).allocated_gb)
            for name in sorted(map(session_statements.name_of, texts)):
                connection.exec_driver_sql(f'DEALLOCATE PREPARE {name}')
            before = counted(connection)
            statements.update(connection, _pools, {'name': NAME}, {'allocated_gb': 5})
            self.assertEqual(5, ONE.first(connection, name=NAME).allocated_gb)
            # The EXECUTE of the missing statement has failed, but it is counted.
            self.assertEqual((before[0], before[1] + 1), counted(connection))
        with self.database.reader() as connection:
            self.assertEqual(5, ONE.first(connection, name=NAME).allocated_gb)

    def test_prepared_statements_limited_per_connection(self):
        many = [statements.Statement(lambda dialect, number=number: sa.select(
            sa.literal_column(str(number)).label('number')))
            for number in range(session_statements.MOST + 3)]
        with self.database.reader() as connection:
            for _ in range(3):
                self.assertEqual(list(range(len(many))),
                                 [one.first(connection).number for one in many])
            self.assertEqual((session_statements.MOST, 2 * session_statements.MOST),
                             counted(connection))


def counted(connection):
    """Return how many statements this connection has prepared and executed."""
    return tuple(int(connection.exec_driver_sql(
        f"SHOW SESSION STATUS LIKE '{name}'").one()[1])
        for name in ('Com_prepare_sql', 'Com_execute_sql'))
