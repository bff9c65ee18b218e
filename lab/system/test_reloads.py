"""Invalid files in a running process: the former content stays, and health reports the file."""
import os
import pathlib
import signal

from blockattach.platform.health import report
from blockattach.tests.functional import base
from lab.system import test_process_instances as instances

BROKEN = (
    ('no group and no option', 'Failed to parse'),
    ('[DEFAULT\n', 'Failed to parse'),
    ('[scheduler]\nwaiting_interval = soon', '[scheduler] waiting_interval'),
    ('[DEFAULT]\ndebug = perhaps', 'perhaps'),
    ('[DEFAULT]\nlog_config_append = /no/such/file', '/no/such/file'),
    ('[DEFAULT]\nauth_strategy = keystone', '[DEFAULT] auth_strategy'))
"""Invalid text appended to a valid file, and a part of the resulting error."""
LOG_CONFIG = """[loggers]
keys = root
[handlers]
keys = all, errors
[formatters]
keys = plain
[logger_root]
level = INFO
handlers = all, errors
[handler_all]
class = handlers.WatchedFileHandler
formatter = plain
args = ({all!r},)
[handler_errors]
class = handlers.WatchedFileHandler
level = ERROR
formatter = plain
args = ({errors!r},)
[formatter_plain]
format = %(levelname)s %(message)s
"""


class ReloadsTest(instances.ProcessTestCase):

    def configure(self, default='', volume='', last=''):
        super().configure(default, volume, last)
        file = pathlib.Path(self.file)
        self.good = file.read_text().replace(
            f'interval = {instances.HEALTH_SECONDS}', 'interval = 1')
        file.write_text(self.good)

    def wait_for(self, condition, process):
        self.assertTrue(base.wait_for(
            lambda: condition() or process.poll() is not None, instances.SECONDS))
        self.assertIsNone(process.poll(), process.text())

    def fault(self, name):
        """Return the error of the health check ``files``."""
        return self.reported(name).wrong.get('files')

    def test_broken_configuration_keeps_process_and_is_shown_until_good(self):
        process = self.serving('scheduler')
        for number, (text, words) in enumerate(BROKEN, 1):
            with self.subTest(text):
                pathlib.Path(self.file).write_text(f'{self.good}\n{text}\n')
                process.send_signal(signal.SIGHUP)
                self.wait_for(lambda number=number: process.text().count(
                    'ERROR blockattach.wiring.configuration Failed to reload') == number, process)
                self.wait_for(lambda words=words: words in (
                    self.fault('scheduler') or ''), process)
                self.assertIs(report.State.READY, self.reported('scheduler').state)
                pathlib.Path(self.file).write_text(self.good)
                self.wait_for(lambda: self.fault('scheduler') is None, process)
        self.assertNotIn('Traceback', process.text())
        process.send_signal(signal.SIGHUP)
        self.wait_for(lambda: 'Configuration reloaded' in process.text(), process)
        self.assertEqual(0, self.ended(process, signal.SIGTERM)[0])

    def test_broken_log_path_keeps_process_and_former_log(self):
        folder = pathlib.Path(self.folder, 'log')
        folder.mkdir()
        file, aside = folder / 'api.log', pathlib.Path(self.folder, 'aside')
        self.configure(default=f'log_file = {file}')
        process = self.serving('api')
        for number, (break_path, repair) in enumerate((
                (lambda: file.mkdir(), lambda: file.rmdir()),
                (lambda: folder.rmdir(), lambda: folder.mkdir())), 1):
            with self.subTest(number):
                former = aside.with_suffix(f'.{number}')
                os.rename(file, former)
                break_path()
                process.send_signal(signal.SIGHUP)
                self.wait_for(lambda former=former: 'Failed to reopen the log file'
                              in former.read_text(), process)
                self.assertEqual(200, self.ask('/v3/p/volumes')[0])
                self.wait_for(lambda: str(file) in (self.fault('api') or ''), process)
                repair()
                self.wait_for(lambda: self.fault('api') is None, process)
                self.assertEqual(200, self.ask('/v3/p/volumes')[0])
                self.wait_for(lambda: file.is_file() and '/v3/p/volumes' in file.read_text(),
                              process)
        self.assertEqual(0, self.ended(process, signal.SIGTERM)[0])

    def test_log_configuration_that_cannot_be_used_keeps_former_log(self):
        settings, lines, failures = (pathlib.Path(self.folder, name) for name in (
            'logging.conf', 'all.log', 'errors.log'))
        good = LOG_CONFIG.format(all=str(lines), errors=str(failures))
        settings.write_text(good)
        self.configure(default=f'log_config_append = {settings}')
        process = self.serving('api')
        settings.write_text(good.replace(str(failures), '/no/such/folder/errors.log'))
        process.send_signal(signal.SIGHUP)
        self.wait_for(lambda: '/no/such/folder' in (self.fault('api') or ''), process)
        self.assertIn('ERROR Failed to reload', lines.read_text())
        self.assertIn('ERROR Failed to reload', failures.read_text())
        settings.write_text(good)
        process.send_signal(signal.SIGHUP)
        self.wait_for(lambda: 'INFO Configuration reloaded' in lines.read_text(), process)
        # The level of each file is kept, and a broken path is reported as before the reload.
        self.assertNotIn('INFO', failures.read_text())
        former = pathlib.Path(self.folder, 'former')
        os.rename(lines, former)
        lines.mkdir()
        self.assertEqual(200, self.ask('/v3/p/volumes')[0])
        self.wait_for(lambda: str(lines) in (self.fault('api') or ''), process)
        self.assertIn('/v3/p/volumes', former.read_text())

    def test_broken_keys_and_policy_are_shown_until_good(self):
        policy = pathlib.Path(self.folder, 'policy.yaml')
        policy.write_text('{}')
        self.configure(last=f'[oslo_policy]\npolicy_file = {policy}')
        process = self.serving('api')
        for file in (pathlib.Path(self.folder, 'state', 'seal.key'), policy):
            with self.subTest(file.name):
                good = file.read_text()
                file.write_text('[')
                self.wait_for(lambda file=file: str(file) in (self.fault('api') or ''), process)
                self.assertEqual(200, self.ask('/v3/p/volumes')[0])
                file.write_text(good)
                self.wait_for(lambda: self.fault('api') is None, process)
