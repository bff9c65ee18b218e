"""Passwords reach only the attaching caller and the target, also after failures.

After a lifecycle of attachments with full logging, all places that others may read are searched.
"""
import glob
import json
import os
import shutil
import stat
import urllib.error
import urllib.request

from blockattach.storage.drivers.targets import tgtd
from blockattach.testing import initiator
from blockattach.testing import stack
from blockattach.tests.functional import base

VERBOSE = """[DEFAULT]
debug = true
default_log_levels = sqlalchemy=DEBUG,oslo_messaging=DEBUG,taskflow=DEBUG
"""
PROJECT = '00000000000000000000000000000002'
STRANGER = 'ffffffffffffffffffffffffffffffff'


class SecretsTest(base.StackTestCase):

    def setUp(self):
        super().setUp()
        self.outside_program(tgtd.program(), 'tgtd')
        self.service = self.a_stack('file', settings=VERBOSE)
        self.api = base.Api(self.service.endpoint)
        self.passwords = set()
        self.arguments = set()

    def connected(self, volume_id, host, **more):
        """Attach a volume to a host, and register the password."""
        status, made = self.api.ask('POST', '/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': base.instance(host),
            'connector': base.connector(host), **more}})
        self.assertEqual(200, status, made)
        self.passwords.add(made['attachment']['connection_info']['auth_password'])
        return made['attachment']

    def see_arguments(self):
        """Record arguments and environment of all processes that are readable."""
        for path in glob.glob('/proc/[0-9]*/cmdline') + glob.glob('/proc/[0-9]*/environ'):
            try:
                with open(path, 'rb') as file:
                    self.arguments.add(file.read().decode(errors='replace'))
            except OSError:
                continue

    def as_other(self, token, path):
        """Return the text of a response to another user, or of an error."""
        request = urllib.request.Request(self.service.endpoint + path, headers={
            'X-Auth-Token': token, 'OpenStack-API-Version': 'volume 3.71'})
        try:
            with urllib.request.urlopen(request, timeout=base.SECONDS) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.read().decode()

    def live(self):
        """Attach, fail in several ways, kill tgtd, detach, and return the responses."""
        volume_id = self.a_volume(self.api, volume_type='multiattach')
        first = self.connected(volume_id, 'one')
        second = self.connected(volume_id, 'two', mode='ro')
        if initiator.available():
            host = initiator.Initiator(base.connector('one')['initiator'], base.SECONDS)
            with host.open(first['connection_info']) as session:
                self.see_arguments()
                session.write(0, 4096, 1)
        pid = self.service.target().client().pid()
        os.kill(pid, 9)
        self.connected_again(volume_id, 'three')
        self.see_arguments()
        answers = [self.api.ask('GET', path) for path in (
            '/messages', '/volumes/detail', f'/volumes/{volume_id}', '/attachments',
            '/os-services', '/scheduler-stats/get_pools?detail=true')]
        for caller in (f'r:{PROJECT}:reader', f'm:{STRANGER}:member,reader', f'g:{PROJECT}:guest'):
            answers += [self.as_other(caller, path) for path in (
                '/attachments', '/attachments/detail', f'/attachments/{first["id"]}',
                f'/volumes/{volume_id}', '/volumes/detail', '/messages')]
        answers.append(self.api.ask('DELETE', f'/attachments/{second["id"]}'))
        return answers

    def connected_again(self, volume_id, host):
        """Attach after tgtd has been killed. Attempts may fail until it is restarted."""
        failures = []

        def attempt():
            try:
                return self.connected(volume_id, host)
            except AssertionError as refusal:
                failures.append(str(refusal))
                return None

        self.assertTrue(base.wait_for(attempt), failures)

    def stored(self):
        """Return the content of all files of the state directory, except those of volumes."""
        found = {self.service.log_path: self.service.log_text().encode()}
        for folder, _, names in os.walk(self.service.state_dir):
            for name in names:
                path = os.path.join(folder, name)
                if stat.S_ISREG(os.lstat(path).st_mode) and not name.startswith('volume-'):
                    with open(path, 'rb') as file:
                        found[path] = file.read()
        return found

    def test_they_are_nowhere(self):
        answers = self.live()
        written = self.stored()
        self.service.stop()
        # A clean stop has moved the write-ahead log into the database file.
        written = [*written.values(), *self.stored().values()]
        self.assertEqual(3, len(self.passwords))
        self.assertIn('INSERT INTO grants', self.service.log_text())
        self.assertTrue(any('tgtd' in text for text in self.arguments))
        for password in self.passwords:
            self.assertNotIn(password, json.dumps(answers))
            self.assertFalse([text for text in self.arguments if password in text])
            self.assertFalse([text for text in written if password.encode() in text])

    def test_files_are_the_owners_alone(self):
        """Files are private, and an existing directory that others can read is refused."""
        self.service.stop()
        shutil.rmtree(self.service.state_dir)
        os.mkdir(self.service.state_dir)
        os.chmod(self.service.state_dir, 0o755)
        with self.assertRaisesRegex(stack.StackRefused, 'chmod 700'):
            self.service.start()
        os.chmod(self.service.state_dir, 0o700)
        self.service.start()
        self.connected(self.a_volume(self.api), 'one')
        open_to_others = [
            path for folder, folders, names in os.walk(self.service.state_dir)
            for path in (os.path.join(folder, name) for name in (*folders, *names))
            if os.lstat(path).st_mode & 0o077]
        self.assertEqual([], open_to_others)
