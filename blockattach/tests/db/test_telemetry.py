"""Metrics of the database."""
from oslo_db import exception as db_exception

from blockattach.platform.telemetry import counting
from blockattach.storage import errors
from blockattach.storage.db import storage_db
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import attachment_lifecycle as lifecycle
from blockattach.tests.db import base
from blockattach.tests.fixtures import make


@storage_db.retried
def unlucky(database, times):
    """Fail with a deadlock while ``times`` has elements, and return 'done' then."""
    with database.writer():
        if times:
            times.pop()
            raise db_exception.DBDeadlock
    return 'done'


@base.on_sqlite_and_servers_in_turn
class TelemetryTest(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.volume = make.volume(self.database)
        self.telemetry = self.database.telemetry
        self.telemetry.counts = counting.Counts(self.telemetry.readings)

    def count(self, kind, outcome):
        return self.telemetry.counts.registry.get_sample_value(
            'blockattach_database_transaction_seconds_count',
            {'kind': kind, 'outcome': outcome}) or 0

    def test_transactions_counted_by_outcome(self):
        volume_queries.get(self.database, self.volume.id)
        self.assertEqual((1, 0), (self.count('read', 'ok'), self.count('write', 'ok')))
        make.attachment(self.database, self.volume, lifecycle.State.RESERVED)
        self.assertEqual(1, self.count('write', 'ok'))
        with self.assertRaises(errors.InvalidVolume):
            volumes.start_delete(self.database, self.volume, 60)
        self.assertEqual((1, 1), (self.count('write', 'ok'), self.count('write', 'refused')))

    def test_aborted_transaction_counted_and_retried(self):
        self.assertEqual('done', unlucky(self.database, [1, 2]))
        self.assertEqual((2, 1), (self.count('write', 'failed'), self.count('write', 'ok')))
        self.assertEqual(2, self.telemetry.counts.registry.get_sample_value(
            'blockattach_database_retries_total', {'verb': 'test_telemetry.unlucky'}))

    def test_connections_counted_in_use_and_idle(self):
        before = self.database.connections()
        with self.database.reader():
            busy, idle = self.database.connections()
            self.assertEqual(before[0] + 1, busy)
        self.assertEqual((before[0], sum((busy, idle))), (
            self.database.connections()[0], sum(self.database.connections())))
