"""os-reset_status: accepted statuses, and those that contradict the attachments."""
from blockattach.platform import failpoints
from blockattach.storage.db.services import pools
from blockattach.tests.api import actions
from blockattach.tests.api import base
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make

SHOWN = {'error_managing': 'error'}
"""Statuses that the API shows by another name."""


class ResetTest(actions.ActionsTestCase):

    def reset(self, volume_id, persona=None, **body):
        return self.act(volume_id, 'os-reset_status', body, persona or self.http.as_admin)

    def refused(self, volume_id, sentence='', **body):
        before = self.status(volume_id), self.rows(volume_id), self.grants(volume_id)
        self.assert_fault(400, sentence, self.reset(volume_id, **body))
        self.assertEqual(before, (self.status(volume_id), self.rows(volume_id),
                                  self.grants(volume_id)))

    def test_reset_status_forbidden_for_members(self):
        volume_id = self.volume()
        self.assert_fault(403, 'volume_extension:volume_admin_actions:reset_status',
                          self.reset(volume_id, self.http.as_member, status='error'))
        self.assertEqual('available', self.status(volume_id))

    def test_reset_to_own_statuses_accepted(self):
        volume_id = self.volume()
        for word in ('error', 'ERROR', 'available', 'Maintenance', 'downloading', 'creating',
                     'error_deleting', 'error_extending', 'Error_Managing', 'error_restoring',
                     'error_backing-up', 'available'):
            with self.subTest(word=word):
                self.assert_status(202, self.reset(volume_id, status=word))
                self.assertEqual(SHOWN.get(word.lower(), word.lower()), self.status(volume_id))

    def test_reset_unattached_volume_to_attachment_statuses(self):
        """As in Cinder; attaching needs another reset, and a force delete is accepted."""
        volume_id = self.volume()
        for word in ('attaching', 'Detaching', 'reserved'):
            with self.subTest(word=word):
                self.assert_status(202, self.reset(volume_id, status=word))
                self.assertEqual(word.lower(), self.status(volume_id))
                self.assert_status(400, self.http.as_member.post('/attachments', {'attachment': {
                    'volume_uuid': volume_id, 'instance_uuid': base.SERVER}}))
                self.assert_status(400, self.http.as_member.delete(f'/volumes/{volume_id}'))
        self.assert_status(202, self.reset(volume_id, status='available'))
        self.attached(volume_id)
        for word in ('attaching', 'detaching', 'reserved'):
            self.refused(volume_id, word, status=word)
        stuck = self.volume()
        self.assert_status(202, self.reset(stuck, status='attaching'))
        self.assert_status(202, self.act(stuck, 'os-force_delete', None, self.http.as_admin))
        self.assert_status(404, self.http.as_admin.get(f'/volumes/{stuck}'))

    def test_invalid_reset_status_rejected(self):
        volume_id = self.volume()
        for word in ('deleting', 'extending', 'retyping', 'awaiting-transfer', 'backing-up',
                     'managing', 'sleeping', '', ' available'):
            with self.subTest(word=word):
                self.refused(volume_id, status=word)
        for body in ({}, {'status': None}, {'status': None, 'attach_status': None}):
            with self.subTest(body=body):
                self.refused(volume_id, "Must specify 'status', 'attach_status' or "
                                        "'migration_status' for update.", **body)
        for body in ({'status': 5}, {'a': 'b'}, {'attach_status': ''},
                     {'attach_status': 'attaching'}, {'migration_status': 'target:x'},
                     {'migration_status': ''}, {'status': 'error', 'migration_status': 'x'}):
            with self.subTest(body=body):
                self.refused(volume_id, **body)
        for value in (None, [], 'error'):
            with self.subTest(value=value):
                self.assert_status(400, self.act(volume_id, 'os-reset_status', value,
                                                 self.http.as_admin))

    def test_reset_migration_status(self):
        volume_id = self.volume()
        for word in ('migrating', 'Starting', 'completing', 'error', 'success', 'NONE'):
            with self.subTest(word=word):
                self.assert_status(202, self.reset(volume_id, migration_status=word))
                shown = self.shown(volume_id)
                expected = None if word == 'NONE' else word.lower()
                self.assertEqual((expected, expected, 'available'), (
                    shown['migration_status'], shown['os-vol-mig-status-attr:migstat'],
                    shown['status']))
                self.assertNotIn('migrat', self.http.as_member.get(f'/volumes/{volume_id}').text)
        self.assert_status(202, self.reset(volume_id, status='error', migration_status='error'))
        shown = self.shown(volume_id)
        self.assertEqual(('error', 'error'), (shown['status'], shown['migration_status']))

    def test_delete_with_migration_status_rejected(self):
        volume_id = self.volume()
        for word in ('migrating', 'starting', 'completing'):
            self.assert_status(202, self.reset(volume_id, migration_status=word))
            for persona, query in ((self.http.as_member, ''), (self.http.as_admin, '?force=1')):
                self.assert_fault(400, 'must not be migrating',
                                  persona.delete(f'/volumes/{volume_id}{query}'))
        self.assert_status(202, self.reset(volume_id, migration_status='success'))
        self.assert_status(202, self.http.as_member.delete(f'/volumes/{volume_id}'))

    def test_reset_to_attachment_status_must_match_attachments(self):
        volume_id = self.volume()
        self.refused(volume_id, 'in-use', status='in-use')
        self.attached(volume_id)
        self.assert_status(202, self.reset(volume_id, status='error'))
        self.refused(volume_id, 'reserved', status='reserved')
        self.assert_status(202, self.reset(volume_id, status='in-use'))
        self.assertEqual('in-use', self.status(volume_id))

    def test_reset_to_in_use_cancels_begin_detaching(self):
        volume_id = self.volume()
        self.attached(volume_id)
        self.done(volume_id, 'os-begin_detaching')
        self.assert_status(202, self.reset(volume_id, status='in-use'))
        self.assertEqual('in-use', self.status(volume_id))
        self.done(volume_id, 'os-begin_detaching')

    def test_reset_of_attached_volume_to_available_rejected(self):
        volume_id = self.volume()
        self.attached(volume_id)
        self.refused(volume_id, 'has attachments', status='available')

    def test_reset_from_error_to_available_allows_attach(self):
        volume_id = self.volume()
        self.assert_status(202, self.reset(volume_id, status='error'))
        self.assert_status(400, self.http.as_member.post('/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': base.SERVER}}))
        self.assert_status(202, self.reset(volume_id, status='available'))
        self.attached(volume_id)

    def at_work(self, volume_id, **body):
        before = self.shown(volume_id)
        self.assert_fault(409, 'Retry when the operation has finished',
                          self.reset(volume_id, **body))
        self.assertEqual(before, self.shown(volume_id))

    def sizes(self):
        return self.http.manager.backend.fake_store.sizes()

    def test_reset_of_creating_volume_accepts_error_only(self):
        """Simulation seed 200: Cinder sets the volume available without data."""
        self.http.hold = True
        volume_id = self.volume()
        for placed in (False, True):
            if placed:
                self.http.work.step()
            with self.subTest(placed=placed):
                for word in ('available', 'downloading', 'maintenance', 'creating',
                             'error_deleting', 'in-use', 'reserved'):
                    self.at_work(volume_id, status=word)
                    self.at_work(volume_id, status=word, migration_status='none')
                self.at_work(volume_id, status='available', attach_status='detached')
        self.assert_status(202, self.reset(volume_id, status='error'))
        self.assertEqual('error', self.status(volume_id))
        self.http.work.settle()
        self.assertEqual(('error', {}), (self.status(volume_id), self.sizes()))

    def test_reset_of_uncreated_volume_to_available_rejected(self):
        """The reset is rejected also in two steps."""
        self.http.hold = True
        volume_id = self.volume()
        self.http.work.step()
        self.assert_status(202, self.reset(volume_id, status='error'))
        self.http.work.settle()
        for word in ('available', 'downloading', 'maintenance'):
            with self.subTest(word=word):
                self.refused(volume_id, 'was never created on a backend', status=word)
        self.assert_status(202, self.reset(volume_id, status='error_deleting'))
        self.refused(volume_id, 'was never created on a backend', status='available')
        self.gone_for_good(volume_id)

    def gone_for_good(self, volume_id):
        self.assert_status(202, self.http.as_member.delete(f'/volumes/{volume_id}'))
        self.http.work.settle()
        self.assert_status(404, self.http.as_admin.get(f'/volumes/{volume_id}'))
        self.assertEqual({}, self.sizes())
        self.assertEqual(0, pools.get(self.http.database, http.POOL, 3600).allocated_gb)

    def test_reset_during_create_leaves_no_storage(self):
        self.http.hold = True
        volume_id = self.volume()
        self.http.work.step()

        def give_up():
            failpoints.disarm('volume.volumes.after_create')
            self.assertEqual(1, len(self.sizes()))
            self.assert_status(202, self.reset(volume_id, status='error'))

        failpoints.arm('volume.volumes.after_create', give_up)
        self.addCleanup(failpoints.disarm, 'volume.volumes.after_create')
        self.http.work.settle()
        self.assertEqual('error', self.status(volume_id))
        self.refused(volume_id, 'was never created on a backend', status='available')
        self.gone_for_good(volume_id)

    def test_reset_of_deleting_volume_rejected(self):
        volume_id = self.volume()
        self.http.hold = True
        self.assert_status(202, self.http.as_member.delete(f'/volumes/{volume_id}'))
        for word in ('available', 'error', 'maintenance', 'error_deleting', 'in-use'):
            with self.subTest(word=word):
                self.at_work(volume_id, status=word)
        self.http.work.settle()
        self.assert_status(404, self.http.as_admin.get(f'/volumes/{volume_id}'))
        self.assertEqual({}, self.sizes())

    def test_reset_to_detached_keeps_creating_status(self):
        """A reset of attach_status alone does not conflict with the work on the volume."""
        self.http.hold = True
        volume_id = self.volume()
        self.assert_status(202, self.reset(volume_id, attach_status='detached'))
        self.assertEqual('creating', self.status(volume_id))

    def test_reset_to_detached_revokes_all_grants(self):
        """Cinder deletes the records only and leaves the grants of the target."""
        volume_id = self.volume(multiattach=True)
        for _ in range(2):
            self.attached(volume_id, base.new_id())
        self.reserve(volume_id, base.new_id())
        self.done(volume_id, 'os-reserve')
        self.assert_status(202, self.reset(volume_id, attach_status='detached'))
        self.assertEqual(('available', [], {}), (
            self.status(volume_id), self.rows(volume_id), self.grants(volume_id)))

    def test_reset_to_detached_keeps_other_volumes(self):
        other_id = self.volume()
        connector = make.connector()
        self.attached(other_id, connector=connector)
        volume_id = self.volume()
        self.attached(volume_id)
        self.assert_status(202, self.reset(volume_id, attach_status='DETACHED'))
        self.assertEqual({connector['initiator']: 'rw'}, self.grants(other_id))

    def test_reset_to_available_and_detached_together(self):
        volume_id = self.volume()
        self.attached(volume_id)
        self.assert_status(202, self.reset(
            volume_id, status='available', attach_status='detached'))
        self.assertEqual('available', self.status(volume_id))

    def test_rejected_reset_changes_nothing(self):
        volume_id = self.volume()
        self.attached(volume_id)
        for word in ('sleeping', 'in-use', 'reserved'):
            with self.subTest(word=word):
                self.refused(volume_id, status=word, attach_status='detached')

    def test_reset_to_attached_rejected_without_attachment(self):
        volume_id = self.volume()
        self.refused(volume_id, 'is not attached', attach_status='attached')
        attachment_id = self.reserve(volume_id)
        self.refused(volume_id, 'is not attached', attach_status='attached')
        self.complete(attachment_id)
        self.assert_status(202, self.reset(volume_id, attach_status='attached'))
