"""Crash of the service, and of its tgtd, while hosts are logged in.

The agreement of rows and target after a crash at any point is tested in virtual time
(``blockattach/tests/simulation/test_kills.py``).
"""
import os
import shutil
import signal

from blockattach.storage.domain import connection
from blockattach.storage.drivers.targets import tgt
from blockattach.testing import initiator
from blockattach.testing import stack
from blockattach.tests.conformance import settings
from blockattach.tests.functional import base

AGREE_SECONDS = 10
SESSION_SECONDS = 60
HOSTS = ('steady', 'writer', 'reader')
INITIATORS = {base.instance(host): base.connector(host)['initiator'] for host in HOSTS}
# The port is fixed, since another service on this machine could take the port of a killed tgtd.
SETTINGS = """
[file]
target_port = %d
"""
SEARCH = '/usr/local/sbin:/usr/sbin:/sbin'


class CrashTest(base.StackTestCase):

    def setUp(self):
        super().setUp()
        self.outside_program(shutil.which('tgtd') or shutil.which('tgtd', path=SEARCH), 'tgtd')
        self.service = self.a_stack('file', settings=SETTINGS % stack.free_port())
        self.api = base.Api(self.service.endpoint)
        self.target = tgt.TgtTarget(settings.settings(self.service.state_dir))

    def disagreements(self):
        """Return the differences between rows, target and files, and the unfinished work."""
        volumes = self.api.list('volumes')
        rows = self.api.list('attachments')
        found = [f'volume {volume["id"]} is {volume["status"]}' for volume in volumes
                 if volume['status'] not in ('available', 'in-use', 'reserved', 'attaching')]
        wanted = {}
        for row in rows:
            if row['connection_info']:
                wanted.setdefault((row['volume_id'], INITIATORS[row['instance']]), set()).add(
                    connection.AccessMode(row['attach_mode']))
            elif row['status'] != 'reserved':
                found.append(f'attachment {row["id"]} is {row["status"]} without a connection')
            if row['status'] not in ('attached', 'attaching', 'reserved'):
                found.append(f'attachment {row["id"]} is {row["status"]}')
        wanted = {(*pair, connection.widest(modes)) for pair, modes in wanted.items()}
        actual = {(grant.volume_id, grant.initiator, grant.mode)
                  for export in self.target.exports() for grant in export.grants}
        # An unfinished file that a crash left (.volume-ID.*.new) is deleted with its volume.
        files = {name.lstrip('.').partition('.')[0] for name in os.listdir(
            os.path.join(self.service.state_dir, 'volumes', 'file'))}
        names = {f'volume-{volume["id"]}' for volume in volumes}
        return (found + [f'target grants too much: {extra}' for extra in actual - wanted]
                + [f'target grants too little: {missing}' for missing in wanted - actual]
                + [f'no volume has the file {name}' for name in files - names]
                + [f'no file has the volume {name}' for name in names - files])

    def assert_agree(self, when):
        base.wait_for(lambda: not self.disagreements(), AGREE_SECONDS)
        self.assertEqual([], self.disagreements(), when)

    def attach(self, volume_id, host, mode='rw'):
        """Attach a volume to a host and return the attachment."""
        status, made = self.api.ask('POST', '/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': base.instance(host),
            'connector': base.connector(host), 'mode': mode}})
        self.assertEqual(200, status, made)
        attachment = made['attachment']
        status, _ = self.api.ask('POST', f'/attachments/{attachment["id"]}/action',
                                 {'os-complete': None})
        self.assertEqual(204, status)
        return attachment

    def logged_in(self, host, attachment, read_only=False):
        """Return an open session of a host with a long timeout."""
        return initiator.Initiator(base.connector(host)['initiator'], SESSION_SECONDS).open(
            attachment['connection_info'], read_only)

    def kill_tgtd(self):
        """Kill the tgtd of the service."""
        with open(os.path.join(self.service.state_dir, 'tgtd', 'pid'), encoding='ascii') as file:
            os.kill(int(file.read().split()[0]), signal.SIGKILL)

    def test_a_power_cut_takes_tgtd_too(self):
        self.outside_program(initiator.available(), initiator.PROGRAM)
        volume_id = self.a_volume(self.api, volume_type='multiattach')
        writer = self.attach(volume_id, 'writer')
        reader = self.attach(volume_id, 'reader', 'ro')
        self.service.kill()
        self.kill_tgtd()
        self.service.restart()
        self.assert_agree('after the power cut')
        with self.logged_in('writer', writer) as session:
            session.write(0, 4096, 7)
        with self.logged_in('reader', reader, read_only=True) as session:
            self.assertTrue(session.read(0, 4096, 7))

    def test_its_tgtd_ends_with_it(self):
        self.assertIsNotNone(self.service.target().pid())
        self.assertTrue(self.target.running())
        self.service.stop()
        self.assertFalse(self.target.has_process())
        self.assertIsNone(self.service.target().pid())

    def test_a_session_comes_back_after_a_restart_in_order(self):
        self.outside_program(initiator.available(), initiator.PROGRAM)
        made = self.attach(self.a_volume(self.api), 'steady')
        session = self.logged_in('steady', made)
        self.addCleanup(session.close)
        session.write(0, 4096, 1)
        self.service.restart()
        session.write(4096, 4096, 2)
        self.assertTrue(session.read(0, 4096, 1))
        self.assertTrue(session.read(4096, 4096, 2))
        self.assert_agree('after the restart')
