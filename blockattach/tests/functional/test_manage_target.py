"""Command ``blockattach-manage target`` on a real tgtd that outlived its volume manager."""
import os
import tempfile

from blockattach.platform import units
from blockattach.storage.domain import connection
from blockattach.storage.drivers.targets import tgt
from blockattach.storage.drivers.targets import tgtd
from blockattach.testing import scsi
from blockattach.tests.conformance import settings
from blockattach.tests.functional import test_manage

VOLUME = '6f0c1b6e-0000-4000-8000-000000000001'

class TargetTest(test_manage.ManageTestCase):

    def setUp(self):
        super().setUp()
        self.outside_program(tgtd.program(), 'tgtd')
        folder = tempfile.TemporaryDirectory(prefix='blockattach-')
        self.addCleanup(folder.cleanup)
        self.state_dir = folder.name
        self.target = tgt.TgtTarget(settings.settings(folder.name))
        self.addCleanup(self.target.stop)

    def log_in(self):
        """Log a host in to a volume."""
        device = os.path.join(self.state_dir, 'volume')
        with open(device, 'wb') as file:
            file.truncate(units.GIB)
        grant = connection.Grant(VOLUME, 'iqn.2026-01.org.example:host',
                                 connection.AccessMode.RW, connection.Credential('user', 'secret'))
        export = connection.Export(VOLUME, 'volume', device, 1)
        made = self.target.grant(export, grant)
        session = scsi.Session(grant.initiator, {
            'target_portal': made.portals[0], 'target_iqn': made.target_name,
            'target_lun': made.lun, 'auth_username': 'user', 'auth_password': 'secret'})
        self.addCleanup(session.close)

    def test_target_stop_without_tgtd_succeeds(self):
        self.check(0, 'target', 'stop')
        self.assertEqual('No tgtd is running.\n', self.said)
        self.assertEqual([], os.listdir(self.state_dir))

    def test_target_stop_with_unusable_state_path_refused(self):
        with tempfile.NamedTemporaryFile() as file:
            self.state_dir = file.name
            self.refused('cannot find tgtd', 'target', 'stop')
            self.assertIn('[DEFAULT] state_path', self.errors[0])

    def test_target_stop_ends_unused_tgtd(self):
        self.target.start()
        pid = tgtd.Tgtd(self.state_dir, (), 0).pid()
        self.check(0, 'target', 'stop')
        self.assertEqual(f'tgtd (process {pid}) stopped.\n', self.said)
        self.assertFalse(self.target.has_process())
        self.check(0, 'target', 'stop')
        self.assertEqual('No tgtd is running.\n', self.said)

    def test_target_stop_of_tgtd_in_use_needs_force(self):
        self.outside_program(scsi.available(), 'libiscsi')
        self.target.start()
        self.log_in()
        self.refused('hosts are logged in, sessions: 1', 'target', 'stop')
        self.assertTrue(self.target.running())
        self.check(0, 'target', 'stop', '--force')
        self.assertFalse(self.target.has_process())
