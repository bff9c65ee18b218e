"""Refusals: a start fails with one line, a volume with its status and a message."""
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile

from blockattach.storage.drivers.targets import tgtd
from blockattach.testing import stack
from blockattach.tests.functional import base

SEARCH = '/usr/local/sbin:/usr/sbin:/sbin'


def tgtd_path():
    return shutil.which('tgtd') or shutil.which('tgtd', path=SEARCH)


class StartTest(base.StackTestCase):
    """Refused starts of the service: exit status 1 and one line."""

    def refused(self, **options):
        """Return the line that a refused service prints."""
        made = base.ForkedStack(**options)
        self.addCleanup(made.remove)
        with self.assertRaises(stack.StackRefused) as caught:
            made.start()
        self.addCleanup(made.stop)
        self.assertEqual(1, caught.exception.status, caught.exception.words)
        lines = [line for line in caught.exception.words.splitlines()
                 if line.startswith('blockattach-all: ')]
        self.assertEqual(1, len(lines), caught.exception.words)
        self.assertNotIn('Traceback', caught.exception.words)
        return lines[0]

    def test_a_state_directory_has_one_service(self):
        first = self.a_stack()
        line = self.refused(state_dir=first.state_dir)
        self.assertIn('another blockattach-all uses the state directory', line)
        self.assertIn(first.state_dir, line)
        self.assertEqual(200, base.Api(first.endpoint).ask('GET', '/volumes')[0])

    def test_a_refused_one_leaves_the_other_alone(self):
        self.outside_program(tgtd_path(), 'tgtd')
        first = self.a_stack('file')
        target = tgtd.Tgtd(first.state_dir, ('127.0.0.1',), 0)
        pid = target.client().pid()
        self.refused(backend='file', state_dir=first.state_dir)
        self.assertEqual(pid, target.client().pid())

    def test_a_port_has_one_service(self):
        with socket.create_server(('127.0.0.1', 0)) as other:
            port = other.getsockname()[1]
            line = self.refused(port=port)
        self.assertIn(f'cannot listen on 127.0.0.1:{port}', line)

    def test_the_state_directory_is_a_file(self):
        with tempfile.NamedTemporaryFile(prefix='blockattach-') as file:
            self.assertIn(f'cannot create the state directory {file.name}',
                          self.refused(state_dir=file.name))

    def test_the_state_directory_is_not_ours(self):
        if os.geteuid() == 0:
            self.skipTest('root may write anywhere')
        with tempfile.TemporaryDirectory(prefix='blockattach-') as folder:
            os.chmod(folder, 0o500)
            self.assertIn(folder, self.refused(state_dir=folder))

    def test_tgtd_is_missing(self):
        """The program is hidden in a mount namespace, or not installed."""
        program = tgtd_path()
        hidden = [] if program is None else [
            'unshare', '--user', '--map-root-user', '--mount', 'sh', '-c',
            'mount --bind /dev/null "$0" && exec "$@"', program]
        if hidden and not self.can_run([*hidden, 'true']):
            self.skipTest('tgtd is installed and cannot be masked: no mount namespace')
        with tempfile.TemporaryDirectory(prefix='blockattach-') as folder:
            done = subprocess.run(
                [*hidden, sys.executable, '-m', 'blockattach.cmd.allinone', '--state-dir', folder,
                 '--listen', '127.0.0.1:0'],
                capture_output=True, text=True, timeout=stack.START_SECONDS, check=False)
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertIn('blockattach-all: tgtd is not installed; install the Debian package tgt',
                      done.stderr)
        self.assertNotIn('Traceback', done.stdout + done.stderr)

    def can_run(self, command):
        """Return True if a command exists and succeeds."""
        return shutil.which(command[0]) is not None and not subprocess.run(
            command, capture_output=True, timeout=base.SECONDS, check=False).returncode


class CreationTest(base.StackTestCase):
    """Failed creations of volumes."""

    def create(self, api, **wanted):
        return api.ask('POST', '/volumes', {'volume': {'size': 1, **wanted}})

    def failed(self, api, **wanted):
        """Create a volume that fails after the request was accepted, and return its user messages.
        """
        status, made = self.create(api, **wanted)
        self.assertEqual(202, status, made)
        volume_id = made['volume']['id']
        self.assertEqual('error', self.settled(api, volume_id))
        logged = base.wait_for(lambda: [
            message['user_message'] for message in api.list(
                'messages', f'/messages?resource_uuid={volume_id}')])
        self.assertEqual(202, api.ask('DELETE', f'/volumes/{volume_id}')[0])
        self.assertTrue(base.wait_for(
            lambda: api.ask('GET', f'/volumes/{volume_id}')[0] == 404))
        return '\n'.join(logged)

    def test_create_invalid_request_rejected_at_once(self):
        api = base.Api(self.a_stack().endpoint)
        status, answer = self.create(api, volume_type='no-such-type')
        self.assertEqual(404, status, answer)
        self.assertIn('no-such-type', answer['itemNotFound']['message'])
        status, answer = self.create(api, size=0)
        self.assertEqual(400, status, answer)
        self.assertEqual([], api.list('volumes'))

    def test_no_pool_is_large_enough(self):
        self.assertIn('1000000 GiB required',
                      self.failed(base.Api(self.a_stack().endpoint), size=1000000))

    def test_no_pool_can_do_what_the_type_asks(self):
        api = base.Api(self.a_stack().endpoint)
        status, made = api.ask('POST', '/types', {'volume_type': {
            'name': 'elsewhere',
            'extra_specs': {'multiattach': '<is> True', 'storage_protocol': 'FC'}}})
        self.assertEqual(200, status, made)
        self.assertIn('storage_protocol is iSCSI (required: FC)',
                      self.failed(api, volume_type='elsewhere'))

    def test_no_room_on_the_disk(self):
        """A full disk refuses the file, although the pool had room. A limit of the file size
        stands for it.
        """
        self.outside_program(tgtd_path(), 'tgtd')
        service = self.a_stack('file')
        folder = os.path.join(service.state_dir, 'volumes', 'file')
        limit = resource.prlimit(service.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(service.pid, resource.RLIMIT_FSIZE, (2 ** 29, limit[1]))
        api = base.Api(service.endpoint)
        self.assertIn('File too large', self.failed(api))
        self.assertEqual([], os.listdir(folder))
        resource.prlimit(service.pid, resource.RLIMIT_FSIZE, limit)
        self.assertEqual([f'volume-{self.a_volume(api)}'], os.listdir(folder))
