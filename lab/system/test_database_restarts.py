"""Restart or crash of a database server under running processes.

Each test has a server of its own.
"""
import threading
import unittest
import uuid
from concurrent import futures

import sqlalchemy as sa

from blockattach.platform import clock
from blockattach.platform import errors
from blockattach.platform import secrets
from blockattach.storage.db import schema
from blockattach.storage.db import storage_db
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.db.attachments import attachments
from blockattach.storage.db.volumes import volume_queries
from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import servers
from lab.system import test_servers

WORKERS = 4
SECONDS = 120
BETWEEN_TRIES = 0.05


class RestartTest(unittest.TestCase):

    def begin(self, kind):
        """Start a server, and create a database with a volume."""
        self.server = test_servers.made(kind)
        self.addCleanup(self.server.close)
        self.server.start()
        server = sa.create_engine(self.server.url, isolation_level='AUTOCOMMIT',
                                  poolclass=sa.NullPool)
        with server.connect() as connection:
            connection.exec_driver_sql('CREATE DATABASE blockattach')
        url = sa.make_url(self.server.url).set(database='blockattach')
        self.time = clock.Clock()
        self.database = storage_db.Database(
            database.open_engine(url.render_as_string(hide_password=False)),
            secrets.Sealer([secrets.new_key()]), self.time)
        self.addCleanup(self.database.close)
        schema.upgrade(self.database.engine)
        self.volume = make.volume(self.database, multiattach=True)

    def reserve(self):
        return attachments.reserve(self.database, attachments.Wish(
            self.volume.id, self.volume.project_id, str(uuid.uuid4())), 60)

    def fill_pool(self):
        """Open several connections, so that they are idle in the pool."""
        barrier = threading.Barrier(WORKERS)

        def look():
            with self.database.reader() as connection:
                connection.execute(sa.select(1))
                barrier.wait(SECONDS)

        with futures.ThreadPoolExecutor(WORKERS) as pool:
            for one in [pool.submit(look) for _ in range(WORKERS)]:
                one.result(SECONDS)
        self.assertGreaterEqual(self.database.connections()[1], WORKERS)

    def check_restart(self, kind):
        self.begin(kind)
        self.fill_pool()
        self.server.stop()
        for act in (self.reserve, lambda: volume_queries.get(self.database, self.volume.id)):
            with self.assertRaises(errors.DatabaseUnavailable):
                act()
        self.server.start()
        # Every connection of the pool is stale, and is replaced without an error.
        self.fill_pool()
        made = self.reserve()
        self.assertEqual([made], attachment_queries.of_volume(self.database, self.volume.id))

    def test_mariadb_is_restarted(self):
        self.check_restart(servers.MYSQL)

    def test_postgresql_is_restarted(self):
        self.check_restart(servers.POSTGRESQL)

    def check_death(self, kind):
        """Kill the server during writes. Acknowledged writes must survive."""
        self.begin(kind)
        made, uncertain, end = [], [], threading.Event()

        def work():
            while not end.is_set():
                try:
                    made.append(self.reserve().id)
                except errors.DatabaseUnavailable:
                    self.time.wait(end, BETWEEN_TRIES)
                except errors.OutcomeUnknown as exc:
                    uncertain.append(exc)

        with futures.ThreadPoolExecutor(WORKERS) as pool:
            working = [pool.submit(work) for _ in range(WORKERS)]
            try:
                self.wait_for(lambda: len(made) > WORKERS)
                self.server.kill()
                self.server.start()
                again = len(made)
                self.wait_for(lambda: len(made) > again + WORKERS)
            finally:
                end.set()
            for one in working:
                one.result(SECONDS)
        found = {row.id for row in attachment_queries.of_volume(self.database, self.volume.id)}
        self.assertEqual(len(made), len(set(made)))
        self.assertLessEqual(set(made), found)
        self.assertLessEqual(len(found - set(made)), len(uncertain))

    def wait_for(self, condition):
        deadline = self.time.monotonic() + SECONDS
        never = threading.Event()
        while not condition():
            self.assertLess(self.time.monotonic(), deadline)
            self.time.wait(never, BETWEEN_TRIES)

    def test_mariadb_dies(self):
        self.check_death(servers.MYSQL)

    def test_postgresql_dies(self):
        self.check_death(servers.POSTGRESQL)
