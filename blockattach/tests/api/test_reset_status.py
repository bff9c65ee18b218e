"""os-reset_status: what an administrator may say, and what contradicts the attachments."""
from blockattach.platform import failpoints
from blockattach.storage.db.services import pools
from blockattach.tests.api import actions
from blockattach.tests.api import base
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make

SHOWN = {'error_managing': 'error'}
"""What clients know no word for."""


class ResetTest(actions.ActionsTestCase):

    def reset(self, volume_id, persona=None, **body):
        return self.act(volume_id, 'os-reset_status', body, persona or self.http.as_admin)

    def refused(self, volume_id, sentence='', **body):
        before = self.status(volume_id), self.rows(volume_id), self.grants(volume_id)
        self.assert_fault(400, sentence, self.reset(volume_id, **body))
        self.assertEqual(before, (self.status(volume_id), self.rows(volume_id),
                                  self.grants(volume_id)))

    def test_an_administrator_only(self):
        volume_id = self.volume()
        self.assert_fault(403, 'volume_extension:volume_admin_actions:reset_status',
                          self.reset(volume_id, self.http.as_member, status='error'))
        self.assertEqual('available', self.status(volume_id))

    def test_what_is_true_of_the_volume_itself(self):
        volume_id = self.volume()
        for word in ('error', 'ERROR', 'available', 'Maintenance', 'downloading', 'creating',
                     'error_deleting', 'error_extending', 'Error_Managing', 'error_restoring',
                     'error_backing-up', 'available'):
            with self.subTest(word=word):
                self.assert_status(202, self.reset(volume_id, status=word))
                self.assertEqual(SHOWN.get(word.lower(), word.lower()), self.status(volume_id))

    def test_words_of_attachments_are_free_where_there_are_none(self):
        """As in the peer; nothing can be attached until another reset, and force takes it."""
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

    def test_what_cannot_be_said(self):
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

    def test_what_is_said_of_a_migration(self):
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

    def test_one_that_is_moved_is_not_deleted(self):
        volume_id = self.volume()
        for word in ('migrating', 'starting', 'completing'):
            self.assert_status(202, self.reset(volume_id, migration_status=word))
            for persona, query in ((self.http.as_member, ''), (self.http.as_admin, '?force=1')):
                self.assert_fault(400, 'must not be migrating',
                                  persona.delete(f'/volumes/{volume_id}{query}'))
        self.assert_status(202, self.reset(volume_id, migration_status='success'))
        self.assert_status(202, self.http.as_member.delete(f'/volumes/{volume_id}'))

    def test_words_that_follow_from_the_attachments(self):
        volume_id = self.volume()
        self.refused(volume_id, 'in-use', status='in-use')
        self.attached(volume_id)
        self.assert_status(202, self.reset(volume_id, status='error'))
        self.refused(volume_id, 'reserved', status='reserved')
        self.assert_status(202, self.reset(volume_id, status='in-use'))
        self.assertEqual('in-use', self.status(volume_id))

    def test_in_use_takes_back_the_detaches_that_never_came(self):
        volume_id = self.volume()
        self.attached(volume_id)
        self.done(volume_id, 'os-begin_detaching')
        self.assert_status(202, self.reset(volume_id, status='in-use'))
        self.assertEqual('in-use', self.status(volume_id))
        self.done(volume_id, 'os-begin_detaching')

    def test_available_is_no_word_for_a_volume_with_attachments(self):
        volume_id = self.volume()
        self.attached(volume_id)
        self.refused(volume_id, 'has attachments', status='available')

    def test_a_volume_in_error_may_leave_it(self):
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

    def test_one_that_is_being_made_is_given_up_at_most(self):
        """Simulation seed 200: the peer makes it available without bytes."""
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

    def test_one_that_was_never_made_is_never_made_available(self):
        """Not in two steps either."""
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

    def test_one_that_is_given_up_while_its_manager_makes_it_leaves_nothing(self):
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

    def test_one_that_is_being_removed_stays_so(self):
        volume_id = self.volume()
        self.http.hold = True
        self.assert_status(202, self.http.as_member.delete(f'/volumes/{volume_id}'))
        for word in ('available', 'error', 'maintenance', 'error_deleting', 'in-use'):
            with self.subTest(word=word):
                self.at_work(volume_id, status=word)
        self.http.work.settle()
        self.assert_status(404, self.http.as_admin.get(f'/volumes/{volume_id}'))
        self.assertEqual({}, self.sizes())

    def test_its_attachments_may_be_gone_or_there(self):
        """Neither asks for a status: what is said of attachments alone is nobody's work."""
        self.http.hold = True
        volume_id = self.volume()
        self.assert_status(202, self.reset(volume_id, attach_status='detached'))
        self.assertEqual('creating', self.status(volume_id))

    def test_detached_leaves_nothing_behind(self):
        """The peer forgets the records and leaves the grants of the target."""
        volume_id = self.volume(multiattach=True)
        for _ in range(2):
            self.attached(volume_id, base.new_id())
        self.reserve(volume_id, base.new_id())
        self.done(volume_id, 'os-reserve')
        self.assert_status(202, self.reset(volume_id, attach_status='detached'))
        self.assertEqual(('available', [], {}), (
            self.status(volume_id), self.rows(volume_id), self.grants(volume_id)))

    def test_detached_touches_no_other_volume(self):
        other_id = self.volume()
        connector = make.connector()
        self.attached(other_id, connector=connector)
        volume_id = self.volume()
        self.attached(volume_id)
        self.assert_status(202, self.reset(volume_id, attach_status='DETACHED'))
        self.assertEqual({connector['initiator']: 'rw'}, self.grants(other_id))

    def test_detached_and_available_at_once(self):
        volume_id = self.volume()
        self.attached(volume_id)
        self.assert_status(202, self.reset(
            volume_id, status='available', attach_status='detached'))
        self.assertEqual('available', self.status(volume_id))

    def test_half_of_what_is_said_is_not_done(self):
        volume_id = self.volume()
        self.attached(volume_id)
        for word in ('sleeping', 'in-use', 'reserved'):
            with self.subTest(word=word):
                self.refused(volume_id, status=word, attach_status='detached')

    def test_attached_is_true_or_refused(self):
        volume_id = self.volume()
        self.refused(volume_id, 'is not attached', attach_status='attached')
        attachment_id = self.reserve(volume_id)
        self.refused(volume_id, 'is not attached', attach_status='attached')
        self.complete(attachment_id)
        self.assert_status(202, self.reset(volume_id, attach_status='attached'))
