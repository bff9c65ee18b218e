"""``blockattach-manage reconcile`` beside a service that runs no repair passes by itself."""
import json
import sqlite3

from blockattach.storage.drivers.targets import tgtd
from blockattach.tests.functional import base
from blockattach.tests.functional import test_manage
from lab.system import by_hand

REMAINING = 3
HOST = 'localhost@file'


class ReconcileTest(test_manage.ManageTestCase):

    def setUp(self):
        super().setUp()
        self.outside_program(tgtd.program(), 'tgtd')
        self.backend = 'file'
        self.service = self.a_stack('file', settings='[volume]\nreconcile_interval = 3600\n')
        self.state_dir = self.service.state_dir
        self.site = by_hand.Site(self, self.service)
        self.steady = self.site.session('steady')
        self.volume_id, self.attachment = self.site.attach('one')
        self.before, self.sessions = self.site.granted(), self.site.sessions()

    def environment(self):
        return {**super().environment(), 'OS_SERVICE__HOST': 'localhost',
                'OS_FILE__TARGET_PORT': str(self.service.target_port),
                'OS_FAKE__STORE': 'fake', 'OS_FAKE__TARGET': 'fake',
                'OS_VOLUME__ENABLED_BACKENDS': self.backend}

    def rows(self, statement='', *values):
        """Execute a statement, and return all attachments and leases."""
        with sqlite3.connect(f'{self.state_dir}/blockattach.sqlite') as found:
            if statement:
                found.execute(statement, values)
            said = found.execute('SELECT * FROM attachments ORDER BY id').fetchall()
            leases = found.execute('SELECT * FROM leases').fetchall()
        found.close()
        return said, leases

    def tamper(self):
        self.site.grant_by_hand(self.volume_id)
        self.site.target.revoke(self.volume_id, base.connector('one')['initiator'])
        self.site.offer_by_hand(base.instance('gone'))
        self.rows("UPDATE attachments SET state = 'disconnecting', rank = 3, previous_state = "
                  "'connected', deadline = '2020-01-01 00:00:00.000000' WHERE id = ?",
                  self.other['id'])
        self.check(0, 'attachments', 'derive', self.other['volume_id'])

    def test_reconcile_reports_and_repairs_drift(self):
        _, self.other = self.site.attach('two')
        self.tamper()
        rows, granted, exported = self.rows(), self.site.granted(), self.site.exported()
        self.check(REMAINING, 'reconcile', '--dry-run')
        self.assertIn(f'{HOST} grant {self.volume_id} {by_hand.STRANGER}: the target grants '
                      'access to an initiator that no attachment needs\n    revoke access: '
                      'would be done\n', self.said)
        self.assertIn('4 differences\n', self.said)
        self.assertEqual((rows, granted, exported),
                         (self.rows(), self.site.granted(), self.site.exported()))
        self.check(0, 'reconcile', '--format', 'json', 'file')
        report = json.loads(self.said)
        self.assertEqual((False, [HOST], []), (
            report['dry_run'], report['backends'], report['backends_not_asked']))
        self.assertEqual(
            [('attachment', self.other['id'], 'done'), ('grant', None, 'done'),
             ('grant', None, 'done'), ('stray_export', None, 'done')],
            [(one['drift'], one['attachment_id'], one['outcome']) for one in report['findings']])
        self.assertEqual(self.before, self.site.granted())
        self.assertEqual(404, self.site.api.ask('GET', f'/attachments/{self.other["id"]}')[0])
        self.assertEqual([], self.rows()[1])
        self.check(0, 'reconcile', '--dry-run')
        self.assertEqual('No differences.\n', self.said)
        self.check(0, 'attachments', 'check')
        self.assertEqual(self.sessions, self.site.sessions())
        if self.steady is not None:
            self.assertTrue(self.steady.read(0, 4096, 1))

    def test_while_the_service_is_away(self):
        self.service.kill()
        self.addCleanup(self.site.tgtd.stop)
        self.site.target.revoke(self.volume_id, base.connector('one')['initiator'])
        self.check(0, 'reconcile')
        self.assertEqual(self.before, self.site.granted())
        self.site.tgtd.stop()
        self.refused('cannot query the target of localhost@file', 'reconcile')

    def test_reconcile_without_reachable_backend_reported(self):
        self.refused('not a backend in [volume] enabled_backends', 'reconcile', 'tape')
        self.backend = 'fake'
        self.check(0, 'reconcile', '--format', 'json')
        report = json.loads(self.said)
        self.assertEqual(([], ['localhost@fake'], []), (
            report['backends'], report['backends_not_asked'], report['findings']))
        self.backend = ''
        self.check(0, 'reconcile')
        self.assertEqual('No backend is configured.\nNo differences.\n', self.said)
