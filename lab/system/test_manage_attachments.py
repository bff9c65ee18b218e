"""``blockattach-manage attachments``: checks and repairs of rows and targets of a running service.
"""
import json
import sqlite3

from blockattach.storage.drivers.targets import tgtd
from blockattach.tests.functional import base
from blockattach.tests.functional import test_manage

FILE = {'OS_SERVICE__HOST': 'localhost', 'OS_VOLUME__ENABLED_BACKENDS': 'file'}
VIOLATED = 3


class AttachmentsTest(test_manage.ManageTestCase):

    def setUp(self):
        super().setUp()
        self.outside_program(tgtd.program(), 'tgtd')
        self.service = self.a_stack('file', settings='[volume]\nreconcile_interval = 3600\n')
        self.state_dir = self.service.state_dir
        self.api = base.Api(self.service.endpoint)
        self.targets = FILE

    def environment(self):
        return {**super().environment(), **self.targets}

    def attached(self, host='one'):
        volume_id = self.a_volume(self.api)
        status, made = self.api.ask('POST', '/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': base.instance(host),
            'connector': base.connector(host)}})
        self.assertEqual(200, status, made)
        return volume_id, made['attachment']['id']

    def violated(self):
        """Return the violated invariants that the command prints as JSON."""
        self.manage('attachments', 'check', '--format', 'json')
        report = json.loads(self.said)
        self.assertEqual(['localhost@file'] if self.targets else [], report['targets'])
        return [(one['invariant'], one['volume_id']) for one in report['violations']]

    def write(self, statement, *values):
        with sqlite3.connect(f'{self.state_dir}/blockattach.sqlite') as rows:
            rows.execute(statement, values)
        rows.close()

    def test_check_of_consistent_rows_finds_no_violation(self):
        self.attached()
        self.check(0, 'attachments', 'check')
        self.assertEqual('No violations.\n', self.said)
        self.assertEqual([], self.violated())
        self.targets = {}
        self.check(0, 'attachments', 'check')
        self.assertIn('No backend is configured', self.said)
        self.assertEqual([], self.violated())

    def test_a_target_that_was_changed_by_hand(self):
        volume_id, attachment_id = self.attached()
        other, _ = self.attached('two')
        # A running service would repair the target.
        self.service.kill()
        target = self.service.target()
        target.stop()
        target.start()
        self.addCleanup(target.stop)
        self.check(VIOLATED, 'attachments', 'check')
        self.assertIn(f'P4 every_user_is_granted (service): {attachment_id} is connected but',
                      self.said)
        self.assertIn('has no grant at the target', self.said)
        self.assertIn('    repair with: blockattach-manage reconcile\n', self.said)
        self.assertIn('2 violations\n', self.said)
        self.check(VIOLATED, 'attachments', 'check', '--volume-id', other)
        self.assertIn('1 violations\n', self.said)

    def test_a_row_that_was_changed_by_hand(self):
        volume_id, _ = self.attached()
        self.write("UPDATE volumes SET status = 'available' WHERE id = ?", volume_id)
        self.write('UPDATE pools SET allocated_gb = 5')
        self.assertEqual([('status_is_derived', volume_id), ('room_is_counted', None)],
                         self.violated())
        self.check(VIOLATED, 'attachments', 'check')
        repairs = [line.split()[2:] for line in self.said.splitlines() if 'repair with' in line]
        self.assertEqual([['blockattach-manage', 'attachments', 'derive', volume_id],
                          ['blockattach-manage', 'attachments', 'derive', '--counts']], repairs)
        for repair in repairs:
            self.check(0, *repair[1:])
        self.check(0, 'attachments', 'check')

    def test_derive_invalid_arguments_rejected(self):
        self.refused('specify either a volume or --counts', 'attachments', 'derive')
        self.refused('could not be found', 'attachments', 'derive', 'none')
