"""Commands `openstack volume host session list` and `clean`.

A folder with the layout of the kernel's stands in for the sessions of the host.
"""
import json
import pathlib
import tempfile
import uuid

from blockattach.tests.functional import test_host_commands

TITLES = ['Session', 'Use', 'Volume ID', 'Devices', 'State', 'Attachments', 'Target', 'Portal']
PREFIX = 'iqn.2010-10.org.openstack:volume-'


class SessionCommandsTestCase(test_host_commands.HostCommandsTestCase):

    def setUp(self):
        super().setUp()
        self.kernel = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def session(self, number, target, devices=(), address='192.0.2.1', state='LOGGED_IN'):
        """Add an iSCSI session with the layout of the kernel."""
        folder = self.kernel / 'iscsi_session' / f'session{number}'
        folder.mkdir(parents=True)
        (folder / 'targetname').write_text(f'{target}\n')
        (folder / 'state').write_text(f'{state}\n')
        for lun, name in devices:
            (folder / 'device' / f'target{number}:0:0' / f'{number}:0:0:{lun}' / 'block'
             / name).mkdir(parents=True)
        connection = self.kernel / 'iscsi_connection' / f'connection{number}:0'
        connection.mkdir(parents=True)
        (connection / 'persistent_address').write_text(f'{address}\n')
        (connection / 'persistent_port').write_text('3260\n')

    def shown(self, *arguments):
        return json.loads(self.call('session_list', '-f', 'json', *arguments))

    def three(self):
        """Add a used session, a stale one, and one of an unknown volume.

        :returns: the id of the attachment that the first session serves
        """
        made = self.other()
        self.stale, self.gone = self.volume().id, str(uuid.uuid4())
        self.session(1, f'{PREFIX}{self.of.id}', [(1, 'sdb')])
        self.session(2, f'{PREFIX}{self.stale}', [(1, 'sdc')], state='FAILED')
        self.session(3, f'{PREFIX}{self.gone}-0123456789ab', address='2001:db8::1')
        self.session(4, 'iqn.2003-01.org.example:something-else', [(0, 'sdd')])
        return made


class ListTest(SessionCommandsTestCase):

    def test_session_list_without_sessions_is_empty(self):
        self.assertEqual([], self.shown())

    def test_session_list_shows_use(self):
        made = self.three()
        used, stale, gone = self.shown()
        self.assertEqual(TITLES, list(used))
        self.assertEqual([1, 'used', self.of.id, ['/dev/sdb'], 'LOGGED_IN', [made],
                          f'{PREFIX}{self.of.id}', '192.0.2.1:3260'], list(used.values()))
        self.assertEqual([2, 'stale', self.stale, ['/dev/sdc'], 'FAILED', []],
                         list(stale.values())[:6])
        self.assertEqual(['unknown', self.gone, [], '[2001:db8::1]:3260'], [
            gone[title] for title in ('Use', 'Volume ID', 'Devices', 'Portal')])
        self.assertEqual([2, 3], [row['Session'] for row in self.shown('--stale')])

    def test_session_list_ignores_attachments_of_other_initiator(self):
        self.three()
        self.brick.name += '-renamed'
        self.assertEqual(['stale', 'stale', 'unknown'], [row['Use'] for row in self.shown()])


class CleanTest(SessionCommandsTestCase):

    def clean(self, *arguments):
        return self.call('session_clean', *arguments)

    def ended(self):
        """Return the connection information that os-brick was asked to disconnect."""
        return self.brick.given.get('disconnect', (None, None))[1]

    def test_session_clean_ends_stale_session_only(self):
        self.three()
        self.assertEqual(f'Session 2 with {PREFIX}{self.stale} ended.\n', self.clean())
        self.assertEqual(1, self.acts().count('disconnect'))
        self.assertEqual(
            {'target_iqn': f'{PREFIX}{self.stale}', 'target_portal': '192.0.2.1:3260',
             'target_lun': 1, 'target_discovered': False, 'volume_id': self.stale}, self.ended())

    def test_session_clean_with_unknown_ends_unknown_session(self):
        self.three()
        self.assertIn('Session 3 with', self.clean('--unknown'))
        self.assertEqual(2, self.acts().count('disconnect'))
        self.assertEqual('[2001:db8::1]:3260', self.ended()['target_portal'])

    def test_session_clean_continues_after_device_in_use(self):
        self.session(1, f'{PREFIX}{self.of.id}', [(1, 'sdb')])
        self.session(2, f'{PREFIX}{self.volume().id}', [(1, 'sdc')])
        self.brick.is_busy = True
        self.refused('Failed to end 2 sessions', self.clean)
        self.assertRegex(self.said, r'^Failed to end session 1: .* is in use on this host .*\n'
                                    r'Failed to end session 2: ')
        self.assertNotIn('disconnect', self.acts())

    def test_session_clean_without_root_refused(self):
        self.user = 1000
        self.refused('Only root can connect volumes', self.clean)
