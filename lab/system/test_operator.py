"""Operation of a service: signals, a lost key and invalid configuration files."""
import os
import signal
import subprocess
import sys
import tempfile
import urllib.request

from blockattach.testing import stack
from blockattach.tests.functional import base


class SignalsTest(base.StackTestCase):

    def setUp(self):
        super().setUp()
        self.service = self.a_stack()
        self.process = self.service.pid

    def test_the_policy_is_read_anew_and_work_goes_on(self):
        api = base.Api(self.service.endpoint)
        volume_id = self.a_volume(api)
        os.kill(self.process, signal.SIGHUP)
        self.assertTrue(base.wait_for(lambda: 'Policy reloaded' in self.service.log_text()))
        self.assertTrue(self.service.running())
        self.assertEqual(200, api.ask('GET', f'/volumes/{volume_id}')[0])

    def test_ctrl_c_ends_it_in_order(self):
        os.kill(self.process, signal.SIGINT)
        self.assertTrue(base.wait_for(lambda: not self.service.running()))
        self.assertNotIn('Traceback', self.service.log_text())
        self.assertIn('Volume service stopped', self.service.log_text())


class OptionsTest(base.StackTestCase):

    def test_how_many_attachments_a_project_may_have(self):
        api = base.Api(self.a_stack(settings='[quota]\nquota_attachments = 1').endpoint)
        body = {'attachment': {'volume_uuid': self.a_volume(api, volume_type='multiattach')}}
        self.assertEqual([200, 413], [api.ask('POST', '/attachments', body)[0] for _ in range(2)])


class RefusedStartTest(base.StackTestCase):
    """A refused start prints one line with a remedy, and leaves no process running."""

    def setUp(self):
        super().setUp()
        self.service = self.a_stack()
        self.state_dir = self.service.state_dir

    def refused(self, settings=''):
        made = base.ForkedStack(state_dir=self.state_dir, settings=settings)
        self.addCleanup(made.remove)
        with self.assertRaises(stack.StackRefused) as caught:
            made.start()
        words = caught.exception.words
        self.assertEqual(1, caught.exception.status, words)
        self.assertNotIn('Traceback', words)
        line, = [line for line in words.splitlines() if line.startswith('blockattach-all: ')]
        return line

    def test_the_key_of_the_credentials_is_lost(self):
        api = base.Api(self.service.endpoint)
        self.assertEqual(200, api.ask('POST', '/attachments', {'attachment': {
            'volume_uuid': self.a_volume(api), 'instance_uuid': base.instance('one'),
            'connector': base.connector('one')}})[0])
        self.service.stop()
        key = os.path.join(self.state_dir, 'seal.key')
        os.rename(key, f'{key}.safe')
        for _ in range(2):
            self.assertIn(f'Restore {key}', self.refused())
            self.assertFalse(os.path.exists(key))
        os.replace(f'{key}.safe', key)
        self.service.start()
        self.assertEqual(1, len(api.list('attachments')))

    def test_a_file_that_is_no_database(self):
        self.service.stop()
        with open(os.path.join(self.state_dir, 'blockattach.sqlite'), 'wb') as file:
            file.write(b'not a database' * 1000)
        self.assertIn('cannot use the database: file is not a database', self.refused())

    def test_wrong_settings(self):
        self.service.stop()
        for settings, words in (
                ('garbage', 'Failed to parse'),
                ('[api]\nthreads = many', 'threads'),
                ('[database]\nconnection = geheim', 'cannot use the database'),
                ('[DEFAULT]\ntransport_url = nothing://u:geheim@h/', 'transport_url = nothing:'),
                ('[oslo_policy]\npolicy_file = /dev/null/x\n[api]\nauth_strategy = keystone',
                 'auth_strategy')):
            with self.subTest(settings=settings):
                line = self.refused(settings)
                self.assertIn(words, line)
                self.assertNotIn('geheim', line)


class ListenTest(base.StackTestCase):

    def serve(self, address):
        """Start a service on an address, and return its first line of output and its log."""
        folder = tempfile.TemporaryDirectory(prefix='blockattach-')
        self.addCleanup(folder.cleanup)
        started = subprocess.Popen(
            [sys.executable, '-m', 'blockattach.cmd.allinone', '--state-dir', folder.name,
             '--listen', address, '--backend', 'fake', '--log-file', f'{folder.name}/log'],
            stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, started)
        line = started.stdout.readline()
        with open(f'{folder.name}/log', encoding='utf-8') as log:
            return line, log.read()

    def end(self, started):
        """Stop a service, which must end cleanly although its standard output is closed."""
        started.stdout.close()
        started.terminate()
        try:
            self.assertEqual(0, started.wait(stack.STOP_SECONDS))
        finally:
            started.kill()

    def test_an_address_of_ipv6(self):
        line, log = self.serve('[::1]:0')
        url = line.split()[3]
        self.assertRegex(url, r'^http://\[::1\]:[1-9][0-9]*/v3$')
        with urllib.request.urlopen(f'{url}/volumes', timeout=base.SECONDS) as answer:
            self.assertEqual(200, answer.status)
        self.assertNotIn('WARNING', log)

    def test_an_address_that_strangers_reach_is_not_listened_on(self):
        with tempfile.TemporaryDirectory(prefix='blockattach-') as folder:
            done = subprocess.run(
                [sys.executable, '-m', 'blockattach.cmd.allinone', '--state-dir', folder,
                 '--listen', '0.0.0.0:0', '--backend', 'fake', '--log-file', f'{folder}/log'],
                capture_output=True, text=True, timeout=stack.START_SECONDS, check=False)
        self.assertEqual((1, ''), (done.returncode, done.stdout), done.stderr)
        line, = done.stderr.splitlines()
        self.assertIn('cannot listen on 0.0.0.0 without authentication', line)
