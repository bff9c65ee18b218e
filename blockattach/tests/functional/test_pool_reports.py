"""Concurrent reports of the same pools, of which the last measurement counts."""
import threading

from blockattach.storage.db.services import pools
from blockattach.storage.volume import stats
from blockattach.tests.functional import instances

LONG_AGO = 86400


class Measured:
    """Backend whose first measurement is held back until the test releases it."""

    def __init__(self, backend):
        self._backend = backend
        self.made, self.go_on = threading.Event(), threading.Event()

    def pools(self):
        found = self._backend.pools()
        if not self.made.is_set():
            self.made.set()
            assert self.go_on.wait(instances.WAIT_SECONDS)
        return found


class PoolReportsTest(instances.WorldTestCase):

    def test_older_measurement_does_not_overwrite_later_one(self):
        world = self.world
        backend = Measured(world.backend)
        reporter = stats.PoolReporter(world.database, backend, instances.HOST, 'nova',
                                      world.schedulers)
        older = self.begin(reporter.report)
        self.assertTrue(backend.made.wait(instances.WAIT_SECONDS))
        world.volume()
        reporter.report(again=True)
        later = self.provisioned()
        backend.go_on.set()
        older.result(instances.WAIT_SECONDS)
        self.assertEqual((1, 1), (later, self.provisioned()))
        self.assertIsNone(reporter.wrong())

    def provisioned(self):
        """Return the provisioned GiB that the schedulers see."""
        pool, = pools.list_all(self.world.database, LONG_AGO)
        return pool.capabilities['provisioned_capacity_gb']
