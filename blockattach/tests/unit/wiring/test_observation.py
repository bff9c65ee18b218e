"""Readings of a process whose sources do not answer."""
import contextlib
import threading
import types
import unittest

from oslo_config import cfg

from blockattach.platform import clock
from blockattach.platform import metrics
from blockattach.tests.fixtures import polling
from blockattach.wiring import observation
from blockattach.wiring import overview

SECONDS = polling.LIMIT


class HangingDatabase:
    """Database whose reader hangs until the test releases it."""

    def __init__(self):
        self.may_answer = threading.Event()
        self.asked = 0

    def connections(self):
        return 3, 1

    @contextlib.contextmanager
    def reader(self):
        self.asked += 1
        self.may_answer.wait(SECONDS)
        raise OSError('it is gone')
        yield


class ObservationTest(unittest.TestCase):

    def test_hanging_database_omits_only_its_readings(self):
        database = HangingDatabase()
        self.addCleanup(database.may_answer.set)
        watched = observation.Observation('blockattach-api', cfg.ConfigOpts(), clock.Clock())
        checks = types.SimpleNamespace(findings=lambda: {
            'database': 'has not answered for 15 seconds', 'bus': None})
        overview.watch(database, watched)
        watched.watch(types.SimpleNamespace(broker='here', reconnects=2), checks)
        for _ in range(2):
            with self.assertLogs('blockattach.platform.telemetry.readings', 'WARNING') as logged:
                seen = watched.telemetry.readings.now()
            self.assertEqual(1, len(logged.output))
            self.assertIn('reading=overview', logged.output[0])
            self.assertNotIn(metrics.ATTACHMENTS, seen)
            self.assertEqual({('busy',): 3, ('idle',): 1}, seen[metrics.CONNECTIONS])
            self.assertEqual({('database',): 1, ('bus',): 0}, seen[metrics.CHECK])
            self.assertEqual({(): 2}, seen[metrics.BUS_RECONNECTS])
        # A second caller waits for the question that was asked.
        self.assertEqual(1, database.asked)
