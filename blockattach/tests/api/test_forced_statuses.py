"""Statuses of a volume after each verb that forces a detach, compared with the peer."""
from blockattach.tests.api import actions
from blockattach.tests.api import base

KEPT = ('maintenance',)
ERRORS = ('error', 'error_deleting', 'error_extending', 'error_managing', 'error_restoring',
          'error_backing-up')
# Statuses that an administrator can set, with and without attachments.
WITH_ATTACHMENTS = (*ERRORS, 'creating', 'downloading', *KEPT)
# A sample of statuses, all of which the peer comparison has covered.
SOME = ('error', 'creating', *KEPT)
WITHOUT = (*WITH_ATTACHMENTS, 'attaching', 'detaching', 'reserved')


class ForcedTest(actions.ActionsTestCase):

    def reset(self, volume_id, **body):
        self.done(volume_id, 'os-reset_status', body, self.http.as_admin)

    def force_detach(self, volume_id, attachment_id):
        self.done(volume_id, 'os-force_detach', {'attachment_id': attachment_id},
                  self.http.as_admin)

    def delete_by_force(self, volume_id, attachment_id):
        self.assert_status(200, self.http.as_admin.delete(
            f'/attachments/{attachment_id}?force=true', None,
            **{'OpenStack-API-Version': 'volume 3.71, blockattach 1.0'}))

    def reset_to_detached(self, volume_id, attachment_id):
        self.reset(volume_id, attach_status='detached')

    def verbs(self):
        return self.force_detach, self.delete_by_force, self.reset_to_detached

    def test_forced_detach_of_last_attachment_makes_volume_available(self):
        for verb in self.verbs():
            for status in WITH_ATTACHMENTS if verb == self.force_detach else SOME:
                with self.subTest(verb.__name__, status=status):
                    volume_id = self.volume()
                    attachment_id = self.attached(volume_id)
                    self.reset(volume_id, status=status)
                    verb(volume_id, attachment_id)
                    self.assertEqual((status if status in KEPT else 'available', []),
                                     (self.status(volume_id), self.rows(volume_id)))

    def test_forced_detach_of_one_of_two_makes_volume_in_use(self):
        for verb in (self.force_detach, self.delete_by_force):
            for status in SOME:
                with self.subTest(verb.__name__, status=status):
                    volume_id = self.volume(multiattach=True)
                    first = self.attached(volume_id)
                    self.attached(volume_id, base.OTHER_SERVER)
                    self.reset(volume_id, status=status)
                    verb(volume_id, first)
                    self.assertEqual((status if status in KEPT else 'in-use',
                                      [base.OTHER_SERVER]),
                                     (self.status(volume_id), self.servers(volume_id)))

    def test_volume_attached_again_after_forced_detach(self):
        volume_id = self.volume()
        attachment_id = self.attached(volume_id)
        self.reset(volume_id, status='error')
        self.force_detach(volume_id, attachment_id)
        self.attached(volume_id)
        self.assertEqual('in-use', self.status(volume_id))

    def test_forced_detach_of_unattached_volume_makes_it_available(self):
        for status in WITHOUT:
            with self.subTest(status=status):
                volume_id = self.volume()
                self.reset(volume_id, status=status)
                self.done(volume_id, 'os-force_detach', {}, self.http.as_admin)
                self.assertEqual(status if status in KEPT else 'available',
                                 self.status(volume_id))

    def test_reset_to_detached_of_unattached_volume_keeps_status(self):
        for status in WITHOUT:
            with self.subTest(status=status):
                volume_id = self.volume()
                self.reset(volume_id, status=status)
                self.reset(volume_id, attach_status='detached')
                self.assertEqual(status, self.shown_word(volume_id))

    def shown_word(self, volume_id):
        """Return the status, by its os-reset_status name if the API does not show it."""
        with self.http.database.reader() as connection:
            return connection.exec_driver_sql(
                f"SELECT own_status FROM volumes WHERE id = '{volume_id}'").scalar_one()

    def test_reset_with_status_overrides_derived_status(self):
        volume_id = self.volume()
        self.attached(volume_id)
        self.reset(volume_id, status='error', attach_status='detached')
        self.assertEqual(('error', []), (self.status(volume_id), self.rows(volume_id)))

    def test_forced_detach_of_extending_volume_keeps_status(self):
        volume_id = self.volume()
        attachment_id = self.attached(volume_id)
        self.http.hold = True
        self.assert_status(202, self.act(volume_id, 'os-extend', {'new_size': 2},
                                         version='3.42'))
        self.force_detach(volume_id, attachment_id)
        self.assertEqual('extending', self.status(volume_id))
        self.http.work.settle()
        self.assertEqual('available', self.status(volume_id))

    def test_forced_detach_of_uncreated_volume_keeps_status(self):
        self.http.hold = True
        volume_id = self.volume()
        self.reset(volume_id, status='error')
        self.http.work.settle()
        self.done(volume_id, 'os-force_detach', {}, self.http.as_admin)
        self.assertEqual('error', self.status(volume_id))

    def test_unforced_detach_keeps_error_status(self):
        """Detaches by other users do not clear a status set by an administrator or the service."""
        for end in (lambda one, other: self.done(one, 'os-detach', {'attachment_id': other}),
                    lambda one, other: self.http.as_member.delete(f'/attachments/{other}')):
            volume_id = self.volume()
            attachment_id = self.attached(volume_id)
            self.reset(volume_id, status='error')
            end(volume_id, attachment_id)
            self.assertEqual(('error', []), (self.status(volume_id), self.rows(volume_id)))
