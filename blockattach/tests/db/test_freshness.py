"""Pooled connections, which are reused without a ping while fresh and replaced if closed."""
import sqlalchemy as sa

from blockattach.platform.db import opening
from blockattach.tests.db import base
from blockattach.tests.fixtures import clock as testing_clock
from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import polling

OTHERS = {
    'mysql': ('SELECT id FROM information_schema.processlist '
              'WHERE db = database() AND id <> connection_id()', 'KILL CONNECTION {}'),
    'postgresql': ('SELECT pid FROM pg_stat_activity '
                   'WHERE datname = current_database() AND pid <> pg_backend_pid()',
                   'SELECT pg_terminate_backend({})')}
ROUNDS = 5
SECONDS = polling.LIMIT


@base.on_every_server
class FreshnessTest(base.DatabaseTestCase):

    def end_all(self):
        """Close all other connections to this database on the server."""
        find, end = OTHERS[self.KIND]
        other = sa.create_engine(self.fixture.url, poolclass=sa.NullPool,
                                 isolation_level='AUTOCOMMIT')
        with other.connect() as connection:
            for number in connection.exec_driver_sql(find).scalars().all():
                connection.exec_driver_sql(end.format(number))
            polling.until(lambda: not connection.exec_driver_sql(find).scalars().all())

    def test_connection_closed_by_server_replaced(self):
        with self.database.reader() as one, self.database.reader() as two:
            for connection in (one, two):
                connection.execute(sa.select(1))
        self.assertEqual((0, 2), self.database.connections())
        self.end_all()
        with self.database.reader() as connection:
            self.assertEqual(1, connection.execute(sa.select(1)).scalar())
        self.end_all()
        with self.database.writer() as connection:
            self.assertEqual(1, connection.execute(sa.select(1)).scalar())

    def test_strict_mode_and_isolation_ensured(self):
        """Both are set whatever the defaults of the server are."""
        asked = {'mysql': ('SELECT @@SESSION.sql_mode', 'TRADITIONAL'),
                 'postgresql': ('SHOW transaction_isolation', 'read committed')}
        query, expected = asked[self.KIND]
        with self.database.reader() as connection:
            self.assertIn(expected, connection.exec_driver_sql(query).scalar())


class PingTest(base.DatabaseTestCase):

    KIND = database.MYSQL

    def pings(self):
        with self.database.reader() as connection:
            return int(connection.exec_driver_sql(
                "SHOW SESSION STATUS LIKE 'Com_admin_commands'").one()[1])

    def test_recently_used_connection_not_pinged(self):
        before = self.pings()
        for _ in range(ROUNDS):
            with self.database.reader() as connection:
                connection.execute(sa.select(1))
        self.assertEqual((0, 1), self.database.connections())
        self.assertEqual(before, self.pings())

    def test_idle_connection_pinged(self):
        manual = testing_clock.ManualClock()
        watched = sa.create_engine(self.fixture.url)
        self.addCleanup(watched.dispose)
        opening.check_freshness(watched, manual)

        def pings():
            with watched.connect() as connection:
                return int(connection.exec_driver_sql(
                    "SHOW SESSION STATUS LIKE 'Com_admin_commands'").one()[1])
        before = pings()
        self.assertEqual(before, pings())
        manual.advance(opening.TRUSTED_SECONDS)
        self.assertEqual(before + 1, pings())
