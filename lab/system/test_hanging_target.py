"""Hanging target: it is reported, its pools are not used, and the service recovers by itself."""
import json
import os
import pathlib
import signal
import tempfile

from blockattach.storage.drivers.targets import tgtd
from blockattach.testing import stack
from blockattach.tests.functional import base
from blockattach.tests.functional import test_manage
from lab.system import by_hand
from lab.system import test_metrics

SECONDS = 120
NOT_ALL_ASKED = 1
WRONG = 'the target does not answer'
SETTINGS = """
[volume]
reconcile_interval = 1
[health]
interval = 1
file = {file}
[metrics]
port = {port}
"""


class HangingTargetTest(test_manage.ManageTestCase):

    def setUp(self):
        super().setUp()
        self.outside_program(tgtd.program(), 'tgtd')
        folder = tempfile.TemporaryDirectory(prefix='blockattach-')
        self.addCleanup(folder.cleanup)
        self.health_file = pathlib.Path(folder.name, 'health')
        self.metrics = stack.free_port()
        self.service = self.a_stack('file', settings=SETTINGS.format(
            file=self.health_file, port=self.metrics))
        self.state_dir = self.service.state_dir
        self.api = base.Api(self.service.endpoint)
        self.site = by_hand.Site(self, self.service)
        self.volume_id, _ = self.site.attach('one')
        self.pid = self.service.target().client().pid()
        self.addCleanup(self.go_on)

    def environment(self):
        return {**super().environment(), 'OS_SERVICE__HOST': 'localhost',
                'OS_VOLUME__ENABLED_BACKENDS': 'file',
                'OS_FILE__TARGET_PORT': str(self.service.target_port)}

    def go_on(self):
        os.kill(self.pid, signal.SIGCONT)

    def shown(self):
        """Return the reports of each place about the backend, with None for no error."""
        [service] = [one for one in self.api.list('services', '/os-services')
                     if one['binary'] == 'cinder-volume']
        scraped = test_metrics.Scraped(self.metrics)
        return {'service list': service['backend_state'],
                'pools': self.api.list('pools', '/scheduler-stats/get_pools?detail=true')[0][
                    'capabilities'].get('backend_state_reason'),
                'health file': json.loads(self.health_file.read_text())['wrong'].get(
                    'backend file'),
                'metrics': scraped.sum('check_failed', check='backend file')}

    def test_hanging_target_reported_and_recovers(self):
        whole = {'service list': 'up', 'pools': None, 'health file': None, 'metrics': 0}
        self.assertTrue(base.wait_for(lambda: self.shown() == whole, SECONDS), self.shown())
        os.kill(self.pid, signal.SIGSTOP)
        hangs = {'service list': 'down', 'pools': WRONG, 'health file': WRONG, 'metrics': 1}
        self.assertTrue(base.wait_for(lambda: self.shown() == hangs, SECONDS), self.shown())
        self.the_commands_blame_the_target()
        self.go_on()
        self.assertTrue(base.wait_for(lambda: self.shown() == whole, SECONDS), self.shown())
        log = self.service.log_text()
        self.assertEqual(1, log.count('Target process stalled'))
        self.assertNotIn('Target process died', log)
        self.assertNotIn('Traceback', log)
        self.check(0, 'attachments', 'check')

    def the_commands_blame_the_target(self):
        self.check(NOT_ALL_ASKED, 'attachments', 'check')
        self.assertIn('The target of localhost@file does not respond, its rows are compared '
                      'without the target: ', self.said)
        self.assertIn('No violations.\n', self.said)
        self.check(1, 'reconcile', '--dry-run')
        [line] = self.errors
        self.assertIn('cannot query the target of localhost@file', line)
        self.assertIn('([file] target', line)
        self.assertNotIn('[database]', line)
