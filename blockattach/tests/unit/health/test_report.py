"""Health report of a process, and the command ``blockattach-status health`` that reads it."""
import datetime
import json
import os
import subprocess
import sys
import tempfile
import unittest

from blockattach.platform import clock
from blockattach.platform.health import report
from blockattach.tests.fixtures import polling

SECONDS = polling.LIMIT


class ReportTestCase(unittest.TestCase):

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.path = os.path.join(folder.name, 'blockattach-scheduler.health')

    def report(self, state=report.State.READY, seconds_ago=0, **wrong):
        return report.Report(
            'blockattach-scheduler', 4711, state,
            clock.Clock().utcnow() - datetime.timedelta(seconds=seconds_ago), 5, wrong)


class FileTest(ReportTestCase):

    def test_report_read_as_written(self):
        reported = self.report(report.State.NOT_READY, bus='cannot reach it')
        report.write(self.path, reported)
        self.assertEqual(reported, report.read(self.path))

    def test_write_leaves_only_report(self):
        for _ in range(2):
            report.write(self.path, self.report())
        self.assertEqual([os.path.basename(self.path)], os.listdir(self.folder))

    def test_write_to_missing_folder_raises(self):
        with self.assertRaises(FileNotFoundError):
            report.write(os.path.join(self.folder, 'none', 'x'), self.report())

    def test_read_of_invalid_report_raises(self):
        for text in ('', 'ready', '[]', '{}', '{"process": "x"}', 'null'):
            with self.subTest(text=text), open(self.path, 'w', encoding='utf-8') as file:
                file.write(text)
                file.flush()
                with self.assertRaises(ValueError):
                    report.read(self.path)


class StatusTest(ReportTestCase):
    """Health command as probes run it."""

    def ask(self, *arguments):
        done = subprocess.run(
            [sys.executable, '-m', 'blockattach.cmd.status', 'health', '--file', self.path,
             *arguments], text=True, capture_output=True, timeout=SECONDS, check=False)
        self.assertEqual('', done.stderr)
        return done.returncode, done.stdout

    def test_ready_process_exits_with_0(self):
        report.write(self.path, self.report())
        self.assertEqual((0, 'blockattach-scheduler is ready\n'), self.ask())

    def test_process_not_ready_is_live(self):
        report.write(self.path, self.report(report.State.NOT_READY, database='cannot reach it'))
        reported = 'database: cannot reach it\nblockattach-scheduler is not ready\n'
        self.assertEqual((1, reported), self.ask())
        self.assertEqual((0, reported), self.ask('--live'))

    def test_stopping_process_not_ready_but_live(self):
        report.write(self.path, self.report(report.State.STOPPING))
        self.assertEqual((1, 'blockattach-scheduler is stopping\n'), self.ask())
        self.assertEqual(0, self.ask('--live')[0])

    def test_old_report_neither_ready_nor_live(self):
        report.write(self.path, self.report(seconds_ago=600))
        for arguments in ((), ('--live',), ('--max-age', '599')):
            status, reported = self.ask(*arguments)
            self.assertEqual((1, True), (status, 'stopped reporting' in reported), reported)
        self.assertEqual(0, self.ask('--max-age', '6000')[0])

    def test_missing_report_exits_with_1(self):
        status, reported = self.ask()
        self.assertEqual((1, True), (status, reported.startswith(f'cannot read {self.path}')))
        with open(self.path, 'w', encoding='utf-8') as file:
            json.dump({'process': 'x'}, file)
        self.assertEqual(1, self.ask('--live')[0])
