"""State report of a process."""
import os
import pathlib
import tempfile
import threading
import unittest

from oslo_config import cfg
from oslo_reports import opts as report_options

from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform.telemetry import acts
from blockattach.platform.telemetry import state_report
from blockattach.tests.fixtures import polling

SECONDS = 60
SECRETS = ('hunter2', 'correct-horse', 'battery-staple', 'tr0ub4dor')


class StateReportTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix='blockattach-')
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.conf = cfg.ConfigOpts()
        report_options.set_defaults(self.conf)
        self.conf.register_opts([
            cfg.StrOpt('connection', secret=True, default=f'mysql://u:{SECRETS[0]}@db/x'),
            cfg.StrOpt('collector', default=f'http://u:{SECRETS[1]}@collector:4318/'),
            cfg.StrOpt('connection_parameters', default=f'password={SECRETS[2]}')],
            group='database')
        self.conf([], default_config_files=[], default_config_dirs=[])
        self.conf.set_override('log_dir', self.folder, group=state_report.GROUP)
        self.telemetry = acts.Telemetry()
        self.report = state_report.StateReport('blockattach-volume', self.conf, self.telemetry)

    def written(self):
        """Return the content of the report file, or an empty text."""
        return ''.join(path.read_text('utf-8') for path in pathlib.Path(self.folder).glob(
            f'blockattach-volume_{os.getpid()}_gurumeditation_*'))

    def test_report_has_operations_and_added_sections(self):
        context.RequestContext(request_id='req-4711')
        self.report.add('Locks', lambda: {'volumes': ['v1 alone']})
        with self.telemetry.backend('disks', 'target', 'grant'):
            report_text = self.report.text()
        for text in ('State of blockattach-volume', 'MainThread', 'test_report_has_operations',
                     'backend_call', 'verb = grant', 'request_id = req-4711', 'v1 alone',
                     'collector = http'):
            with self.subTest(text):
                self.assertIn(text, report_text)

    def test_report_has_no_secret(self):
        password = SECRETS[3]
        self.report.add('Bus', lambda: {'url': f'rabbit://guest:{password}@broker:5672/'})
        report_text = self.report.text()
        self.assertIn('rabbit://guest:***@broker:5672/', report_text)
        self.assertEqual([], [secret for secret in SECRETS if secret in report_text])

    def test_report_keeps_sections_beside_failed_one(self):
        def fail():
            raise OSError('the disk is on fire')

        self.report.add('One', fail)
        self.report.add('Two', lambda: {'state': 'fine'})
        report_text = self.report.text()
        self.assertIn('failed to report = the disk is on fire', report_text)
        self.assertIn('state = fine', report_text)

    def test_report_written_while_threads_hang(self):
        lock = threading.Lock()
        with lock:
            waiting = threading.Thread(target=lock.acquire, name='hangs', daemon=True)
            waiting.start()
            self.report.ask()
            polling.until(lambda: '= hangs' in self.written())
        waiting.join()

    def test_report_written_on_touched_file(self):
        path = os.path.join(self.folder, 'report')
        self.conf.set_override('file_event_handler', path, group=state_report.GROUP)
        with self.assertRaisesRegex(errors.ConfigurationError, f'cannot watch {path}'):
            self.report.start()
        with open(path, 'w', encoding='utf-8'):
            pass
        self.report.start()
        # Later than now, whatever the clock of the file system.
        os.utime(path, (2 ** 33, 2 ** 33))
        polling.until(self.written)
