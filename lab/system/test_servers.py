"""Own servers of tests: they start, keep their data after a crash, and are removed completely."""
import contextlib
import os
import socket
import sqlite3
import threading
import unittest
from concurrent import futures

import kombu
import requests
import sqlalchemy as sa

from blockattach.tests.fixtures import keystone
from blockattach.tests.fixtures import servers
from blockattach.tests.functional import base


def made(kind):
    """Create an own server. Without its programs the test is skipped, or fails in CI."""
    try:
        return servers.EXPECTED[kind].own()
    except servers.CannotStart as exc:
        if os.environ.get('CI') == 'true':
            raise
        raise unittest.SkipTest(str(exc)) from exc


class ServersTest(unittest.TestCase):

    def check_leaves_nothing(self, server):
        server.close()
        self.assertFalse(server.directory.exists())
        # Child processes of the server may take longer to end.
        self.assertTrue(base.wait_for(lambda: self.is_refused(server.port)))

    def is_refused(self, port):
        try:
            socket.create_connection((servers.LOOPBACK, port), timeout=5).close()
        except ConnectionRefusedError:
            return True
        return False

    def check_keeps_rows(self, kind):
        server = made(kind)
        self.addCleanup(server.close)
        server.start()
        engine = sa.create_engine(server.url, isolation_level='AUTOCOMMIT', poolclass=sa.NullPool)
        with engine.connect() as connection:
            connection.exec_driver_sql('CREATE DATABASE kept')
        for end in (server.stop, server.kill):
            end()
            with self.assertRaises(sa.exc.OperationalError):
                engine.connect()
            server.start()
            with engine.connect() as connection, self.assertRaises(sa.exc.DBAPIError):
                connection.exec_driver_sql('CREATE DATABASE kept')
        self.check_leaves_nothing(server)

    def test_mariadb(self):
        self.check_keeps_rows(servers.MYSQL)

    def test_postgresql(self):
        self.check_keeps_rows(servers.POSTGRESQL)

    def test_rabbitmq(self):
        server = made(servers.RABBITMQ)
        self.addCleanup(server.close)
        url = server.url.replace('rabbit://', 'amqp://', 1)
        for end in (server.stop, server.kill):
            server.start()
            with kombu.Connection(url, connect_timeout=30) as broker:
                kombu.Queue('kept', channel=broker.channel(), durable=True).queue_declare()
            end()
        server.start()
        with kombu.Connection(url, connect_timeout=30) as broker:
            kombu.Queue('kept', channel=broker.channel()).queue_declare(passive=True)
        self.check_leaves_nothing(server)


class KeystoneTest(unittest.TestCase):

    CLIENTS = 32

    def test_many_logins_at_the_same_moment(self):
        try:
            server = self.enterContext(keystone.Keystone())
        except servers.CannotStart as exc:
            if os.environ.get('CI') == 'true':
                raise
            self.skipTest(str(exc))
        for _ in range(8):
            # The first login of a day writes to the database.
            with contextlib.closing(sqlite3.connect(
                    server.directory / 'keystone.sqlite', timeout=base.SECONDS)) as rows, rows:
                rows.execute('UPDATE user SET last_active_at = NULL')
            self.assertEqual([201] * self.CLIENTS, self.log_in(server))

    def log_in(self, server):
        """Return the status codes of concurrent logins."""
        login = server.login()['auth']
        person = {'name': login['username'], 'password': login['password'],
                  'domain': {'id': login['user_domain_id']}}
        scope = {'project': {'name': login['project_name'],
                             'domain': {'id': login['project_domain_id']}}}
        body = {'auth': {'scope': scope, 'identity': {
            'methods': ['password'], 'password': {'user': person}}}}
        together = threading.Barrier(self.CLIENTS)

        def one(_):
            together.wait()
            return requests.post(f'{server.url}/auth/tokens', json=body,
                                 timeout=base.SECONDS).status_code

        with futures.ThreadPoolExecutor(self.CLIENTS) as pool:
            return list(pool.map(one, range(self.CLIENTS)))


class ExpectedTest(unittest.TestCase):

    def test_silence_says_where_nobody_is(self):
        port = servers.free_port()
        variable = servers.EXPECTED[servers.MYSQL].variable
        before = os.environ.get(variable)
        os.environ[variable] = f'mysql+pymysql://root@127.0.0.1:{port}/'
        try:
            self.assertIn(f'no mysql at 127.0.0.1:{port}', servers.why_silent(servers.MYSQL))
        finally:
            del os.environ[variable]
            if before is not None:
                os.environ[variable] = before
