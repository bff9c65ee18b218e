"""The checks of a process: what they find, and that one that hangs is a finding too."""
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
        """Let time pass until this is so."""
        polling.until(lambda: self.clock.advance(5) or condition())

    def test_before_a_look_nothing_is_well(self):
        made = self.watching()
        self.assertTrue(all(made.findings().values()))
        made.look()
        self.assertEqual({'database': None, 'bus': None}, made.findings())

    def test_a_check_that_fails(self):
        made = self.watching(broken=lambda: 1 / 0)
        self.wrong['bus'] = 'away'
        with self.assertLogs('blockattach.platform.health.monitor', 'WARNING') as logged:
            made.look()
            made.look()
        self.assertEqual({'database': None, 'bus': 'away',
                          'broken': 'the check failed: ZeroDivisionError'}, made.findings())
        self.assertEqual(2, len(logged.output))

    def test_a_check_that_hangs(self):
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

    def test_the_file_says_what_was_found(self):
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

    def test_a_file_that_cannot_be_written(self):
        settings = health_conf.HealthSettings(file=os.path.join(self.folder, 'none', 'x'))
        made = monitor.Monitor('blockattach-x', settings, self.clock)
        with self.assertRaisesRegex(errors.ConfigurationError, 'cannot write .*none/x'):
            made.start()

    def test_another_interval_is_taken_over(self):
        made = self.watching()
        made.start()
        made.every(50)
        self.passes(lambda: report.read(self.path).interval == 50)
