"""Health checks of a process, including checks that fail or hang."""
import os
import tempfile
import threading
import unittest

from blockattach.platform import errors
from blockattach.platform.conf import health as health_conf
from blockattach.platform.health import monitor
from blockattach.platform.health import report
from blockattach.tests.fixtures import clock
from blockattach.tests.fixtures import polling

SECONDS = polling.LIMIT


class MonitorTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.path = os.path.join(folder.name, 'x.health')
        self.clock = clock.ManualClock()
        self.wrong = {'database': None, 'bus': None}

    def watching(self, **more):
        settings = health_conf.HealthSettings(interval=5, file=self.path)
        made = monitor.Monitor('blockattach-x', settings, self.clock)
        for name in self.wrong:
            made.add(name, lambda name=name: self.wrong[name])
        for name, check in more.items():
            made.add(name, check)
        self.addCleanup(made.stop)
        return made

    def passes(self, condition):
        """Advance the clock until a condition holds."""
        polling.until(lambda: self.clock.advance(5) or condition())

    def test_checks_fail_before_first_run(self):
        made = self.watching()
        self.assertTrue(all(made.findings().values()))
        made.look()
        self.assertEqual({'database': None, 'bus': None}, made.findings())

    def test_failed_check_reported_and_logged(self):
        made = self.watching(broken=lambda: 1 / 0)
        self.wrong['bus'] = 'away'
        with self.assertLogs('blockattach.platform.health.monitor', 'WARNING') as logged:
            made.look()
            made.look()
        self.assertEqual({'database': None, 'bus': 'away',
                          'broken': 'the check failed: ZeroDivisionError'}, made.findings())
        self.assertEqual(2, len(logged.output))

    def test_hanging_check_reported(self):
        never, entered = threading.Event(), threading.Event()
        self.addCleanup(never.set)

        def hang():
            entered.set()
            never.wait(SECONDS)

        made = self.watching(hangs=hang)
        made.start()
        self.assertTrue(entered.wait(SECONDS))
        self.passes(lambda: made.findings()['hangs'].startswith('has not answered for '))
        self.passes(lambda: (made.findings()['database'], made.findings()['bus'])
                    == (None, None))
        made.stop()

    def test_health_file_has_findings(self):
        made = self.watching()
        made.start()
        self.passes(lambda: report.read(self.path).state is report.State.READY)
        reported = report.read(self.path)
        self.assertEqual(('blockattach-x', os.getpid(), 5, {}),
                         (reported.process, reported.pid, reported.interval, reported.wrong))
        self.wrong['database'] = 'away'
        self.passes(lambda: report.read(self.path).wrong == {'database': 'away'})
        self.assertIs(report.State.NOT_READY, report.read(self.path).state)
        self.wrong['database'] = None
        self.passes(lambda: report.read(self.path).state is report.State.READY)
        before = report.read(self.path).time
        self.passes(lambda: report.read(self.path).time > before)
        made.stopping()
        self.passes(lambda: report.read(self.path).state is report.State.STOPPING)

    def test_unwritable_health_file_refused(self):
        settings = health_conf.HealthSettings(file=os.path.join(self.folder, 'none', 'x'))
        made = monitor.Monitor('blockattach-x', settings, self.clock)
        with self.assertRaisesRegex(errors.ConfigurationError, 'cannot write .*none/x'):
            made.start()

    def test_changed_interval_applied(self):
        made = self.watching()
        made.start()
        made.every(50)
        self.passes(lambda: report.read(self.path).interval == 50)
