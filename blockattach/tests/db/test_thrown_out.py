"""Transactions that the database aborts, which are retried as a whole."""
import uuid
from concurrent import futures

import sqlalchemy as sa

from blockattach.platform.db import clock
from blockattach.platform.db import engine
from blockattach.storage.conf import quota as quota_conf
from blockattach.storage.db import models
from blockattach.storage.db import quotas
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.db.attachments import attachments
from blockattach.storage.db.services import pools
from blockattach.storage.db.volumes import volume_queries
from blockattach.tests.db import base
from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import polling

SECONDS = polling.LIMIT
WEIGHT = 200
"""Number of rows above that of any verb, since a deadlock aborts the smaller transaction."""


class Case(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.other = self.fixture.open()
        self.thrown_out = []

    def wait_until_it_waits(self, running):
        """Wait until the verb waits for a lock. Fail if it ends before that."""
        watcher = self.fixture.open()
        polling.until(lambda: running.done() or self.waits_for_a_lock(watcher),
                      tick=base.BETWEEN_LOOKS)
        self.assertFalse(running.done(), 'the verb did not wait for a lock')

    def meet(self, verb, takes, then):
        """Run a verb that waits for a lock of another transaction, and return its result.

        :param takes: the statement with which the other transaction takes the lock
        :param then: function that continues the other transaction once the verb waits
        """
        with futures.ThreadPoolExecutor(1) as threads, self.other.engine.connect() as other:
            self.prepare(other)
            other.execute(takes)
            running = threads.submit(verb)
            try:
                self.wait_until_it_waits(running)
                then(other)
            finally:
                other.rollback()
            return running.result(SECONDS)

    def prepare(self, other):
        """Prepare the other transaction before it takes the lock."""

    def reserve(self, held):
        return lambda: attachments.reserve(self.database, attachments.Wish(
            held.id, held.project_id), 0)

    def assert_reserved_once(self, held, made):
        self.assertEqual([made], attachment_queries.of_volume(self.database, held.id))
        self.assertEqual('reserved', volume_queries.get(self.database, held.id).status)


class DeadlockTest(Case):
    """Deadlocks of MariaDB, which roll back the transaction even beyond a savepoint."""

    KIND = database.MYSQL
    DEADLOCK = 1213

    def setUp(self):
        super().setUp()
        sa.event.listen(self.database.engine, 'handle_error', lambda failure: (
            self.thrown_out.append(failure.original_exception.args[0])))

    def prepare(self, other):
        now = self.database.clock.utcnow()
        other.execute(models.messages.insert(), [
            {'id': str(uuid.uuid4()), 'project_id': 'p', 'event_id': 'e', 'user_message': 'm',
             'message_level': 'ERROR', 'resource_type': 'VOLUME', 'expires_at': now,
             'created_at': now} for _ in range(WEIGHT)])

    def wants(self, held):
        """Return a step of the other transaction that locks the volume, which the verb holds."""
        return lambda other: other.execute(
            models.volumes.select().where(models.volumes.c.id == held.id).with_for_update())

    def test_deadlocked_first_reserve_of_project_retried(self):
        held = make.volume(self.database)
        self.database.quota = quota_conf.QuotaSettings(quota_attachments=5)
        made = self.meet(
            self.reserve(held),
            models.quotas.insert().values(project_id=held.project_id,
                                         resource=quotas.LOCK, hard_limit=4),
            self.wants(held))
        self.assertEqual([self.DEADLOCK], self.thrown_out)
        self.assert_reserved_once(held, made)
        with self.database.reader() as connection:
            self.assertEqual([0], connection.execute(
                sa.select(models.quotas.c.hard_limit)).scalars().all())

    def test_deadlocked_first_pool_report_retried(self):
        placed = make.volume(self.database, size_gb=7)
        host, _, _ = make.POOL.partition('#')
        with self.database.writer() as connection:
            connection.execute(models.pools.delete())
        row = {column.name: None for column in models.pools.c}
        row |= {'name': make.POOL, 'host': host, 'availability_zone': make.ZONE,
                'capabilities': '{}', 'provisioned_gb': 0, 'thin': False, 'multiattach': False,
                'allocated_gb': 1, 'reported_at': clock.now()}
        # The report of the first pool precedes the deadlock, so the retry has to write it again.
        names = (f'{host}#a', make.POOL)
        self.meet(
            lambda: pools.report(self.database, host, [(name, {}) for name in names], make.ZONE),
            models.pools.insert().values(**row), self.wants(placed))
        self.assertEqual([self.DEADLOCK], self.thrown_out)
        self.assertEqual({f'{host}#a': 0, make.POOL: 7}, {
            one.name: one.allocated_gb for one in pools.list_all(self.database, SECONDS)})


class IsolationTest(Case):
    """Stricter default isolation of PostgreSQL, which applies to other applications only.

    Transactions of the service must see the writes that were committed while they waited for a
    lock.
    """

    KIND = database.POSTGRESQL

    def setUp(self):
        super().setUp()
        with self.other.writer() as connection:
            name = connection.engine.url.database
            connection.execute(sa.text(f'ALTER DATABASE {name} SET '
                                       "default_transaction_isolation = 'repeatable read'"))
        self.addCleanup(self.forget, name)
        # The default applies to new sessions.
        self.database.close()

    def forget(self, name):
        # The database is reused by other tests.
        with self.other.writer() as connection:
            connection.execute(sa.text(f'ALTER DATABASE {name} '
                                       'RESET default_transaction_isolation'))

    def test_transaction_sees_volume_changed_while_waiting(self):
        held = make.volume(self.database)

        def change(other):
            other.execute(models.volumes.update().values(name='changed'))
            other.commit()
        def note(connection):
            # Read-only transactions are also rolled back.
            if connection.get_execution_options().get(engine.WRITER):
                self.thrown_out.append(connection)

        sa.event.listen(self.database.engine, 'rollback', note)
        made = self.meet(self.reserve(held),
                         models.volumes.select().where(models.volumes.c.id == held.id)
                         .with_for_update(), change)
        self.assertEqual([], self.thrown_out)
        self.assert_reserved_once(held, made)
