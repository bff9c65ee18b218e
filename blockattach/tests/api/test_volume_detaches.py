"""Volume actions that end an attachment, and os-begin_detaching before them."""
from blockattach.tests.api import actions
from blockattach.tests.api import base
from blockattach.tests.fixtures import make


class AnnouncedTest(actions.ActionsTestCase):

    def announce(self, volume_id):
        self.done(volume_id, 'os-begin_detaching')

    def test_begin_detaching_sets_detaching(self):
        volume_id = self.volume()
        attachment_id = self.attached(volume_id)
        self.announce(volume_id)
        self.assertEqual('detaching', self.status(volume_id))
        self.assertEqual([base.SERVER], self.servers(volume_id))
        self.assertEqual('attached', self.listed()[0]['status'])
        self.assert_status(200, self.http.as_member.delete(f'/attachments/{attachment_id}'))
        self.assertEqual('available', self.status(volume_id))

    def test_begin_detaching_ends_with_its_attachment(self):
        volume_id = self.volume()
        attachment_id = self.attached(volume_id)
        self.announce(volume_id)
        self.http.as_member.delete(f'/attachments/{attachment_id}')
        self.attached(volume_id)
        self.assertEqual('in-use', self.status(volume_id))

    def test_begin_detaching_of_unattached_volume_rejected(self):
        volume_id = self.volume()
        self.assert_fault(400, 'Unable to detach volume',
                          self.act(volume_id, 'os-begin_detaching'))
        attachment_id = self.reserve(volume_id)
        self.assert_fault(400, "status: 'reserved'", self.act(volume_id, 'os-begin_detaching'))
        self.connect(attachment_id)
        self.assert_fault(400, "status: 'attaching'", self.act(volume_id, 'os-begin_detaching'))

    def test_second_begin_detaching_rejected(self):
        volume_id = self.volume()
        self.attached(volume_id)
        self.announce(volume_id)
        self.assert_fault(400, 'Unable to detach volume',
                          self.act(volume_id, 'os-begin_detaching'))

    def test_concurrent_begin_detaching_of_multiattach_volume(self):
        """Cinder rejects the second request while the first detach is in progress."""
        volume_id = self.volume(multiattach=True)
        ids = [self.attached(volume_id, base.new_id()) for _ in range(3)]
        steps = []
        for _ in ids:
            self.announce(volume_id)
            steps.append(self.status(volume_id))
        self.assertEqual(['detaching'] * 3, steps)
        self.assert_fault(400, 'Unable to detach volume',
                          self.act(volume_id, 'os-begin_detaching'))
        steps = []
        for attachment_id in ids:
            self.assert_status(200, self.http.as_member.delete(f'/attachments/{attachment_id}'))
            steps.append(self.status(volume_id))
        self.assertEqual(['detaching', 'detaching', 'available'], steps)

    def test_successive_detaches_of_multiattach_volume(self):
        """Clients wait for the volume status to change after each request."""
        volume_id = self.volume(multiattach=True)
        words = []
        for attachment_id in [self.attached(volume_id, base.new_id()) for _ in range(2)]:
            self.announce(volume_id)
            words.append(self.status(volume_id))
            self.assert_status(200, self.http.as_member.delete(f'/attachments/{attachment_id}'))
            words.append(self.status(volume_id))
        self.assertEqual(['detaching', 'in-use', 'detaching', 'available'], words)

    def test_attach_accepted_while_other_server_detaching(self):
        volume_id = self.volume(multiattach=True)
        first = self.attached(volume_id)
        self.announce(volume_id)
        self.attached(volume_id, base.OTHER_SERVER)
        self.assertEqual('detaching', self.status(volume_id))
        self.assert_status(200, self.http.as_member.delete(f'/attachments/{first}'))
        self.assertEqual('in-use', self.status(volume_id))

    def test_roll_detaching_restores_in_use(self):
        volume_id = self.volume()
        self.attached(volume_id)
        self.announce(volume_id)
        self.done(volume_id, 'os-roll_detaching')
        self.assertEqual('in-use', self.status(volume_id))
        self.announce(volume_id)
        self.assertEqual('detaching', self.status(volume_id))

    def test_roll_detaching_without_begin_changes_nothing(self):
        volume_id = self.volume()
        self.done(volume_id, 'os-roll_detaching')
        self.assertEqual('available', self.status(volume_id))
        self.attached(volume_id)
        self.done(volume_id, 'os-roll_detaching')
        self.assertEqual('in-use', self.status(volume_id))
        self.done(volume_id, 'os-begin_detaching')
        self.assertEqual('detaching', self.status(volume_id))


class DetachTest(actions.ActionsTestCase):

    def test_os_detach_of_only_attachment(self):
        for value in (None, {}, {'attachment_id': None}):
            with self.subTest(value=value):
                volume_id = self.volume()
                self.attached(volume_id)
                self.done(volume_id, 'os-detach', value)
                self.assertEqual('available', self.status(volume_id))
                self.assertEqual({}, self.grants(volume_id))

    def test_os_detach_by_attachment_id_keeps_others(self):
        volume_id = self.volume(multiattach=True)
        connectors = [make.connector() for _ in range(2)]
        first, second = (self.attached(volume_id, base.new_id(), connector)
                         for connector in connectors)
        self.done(volume_id, 'os-detach', {'attachment_id': first})
        self.assertEqual([second], [one['id'] for one in self.listed()])
        self.assertEqual({connectors[1]['initiator']: 'rw'}, self.grants(volume_id))
        self.assertEqual('in-use', self.status(volume_id))

    def test_os_detach_of_several_without_id_rejected(self):
        volume_id = self.volume(multiattach=True)
        for _ in range(2):
            self.attached(volume_id, base.new_id())
        self.assert_fault(400, 'More than one attachment, but no attachment_id provided.',
                          self.act(volume_id, 'os-detach', {}))
        self.assertEqual(2, len(self.rows(volume_id)))

    def test_os_detach_of_unknown_attachment_changes_nothing(self):
        volume_id = self.volume()
        self.attached(volume_id)
        self.done(volume_id, 'os-detach', {'attachment_id': base.ABSENT})
        self.assertEqual('in-use', self.status(volume_id))

    def test_os_detach_of_foreign_attachment_changes_nothing(self):
        volume_id = self.volume()
        self.attached(volume_id)
        other_id = self.volume()
        other = self.attached(other_id)
        self.act(volume_id, 'os-detach', {'attachment_id': other})
        self.assertEqual(['in-use', 'in-use'],
                         [self.status(volume_id), self.status(other_id)])

    def test_os_detach_of_unattached_volume_accepted(self):
        volume_id = self.volume()
        self.done(volume_id, 'os-detach')
        self.assertEqual('available', self.status(volume_id))

    def test_os_detach_keeps_os_reserve(self):
        volume_id = self.volume()
        self.done(volume_id, 'os-reserve')
        self.done(volume_id, 'os-detach')
        self.assertEqual('attaching', self.status(volume_id))

    def test_malformed_os_detach_rejected(self):
        volume_id = self.volume()
        for value in ([], 'x', 5, {'attachment_id': 'x'}, {'attachment_id': 5}, {'a': 'b'}):
            with self.subTest(value=value):
                self.assert_status(400, self.act(volume_id, 'os-detach', value))

    def test_os_detach_in_maintenance_rejected(self):
        volume_id = self.volume()
        self.attached(volume_id)
        self.done(volume_id, 'os-reset_status', {'status': 'maintenance'}, self.http.as_admin)
        self.assert_fault(400, 'maintenance', self.act(volume_id, 'os-detach'))
        self.assertEqual(1, len(self.rows(volume_id)))


class ForceDetachTest(actions.ActionsTestCase):

    def force(self, volume_id, value, persona=None):
        return self.act(volume_id, 'os-force_detach', value, persona or self.http.as_admin)

    def test_force_detach_forbidden_for_members(self):
        volume_id = self.volume()
        self.attached(volume_id)
        self.assert_fault(
            403, 'volume_extension:volume_admin_actions:force_detach',
            self.force(volume_id, {}, self.http.as_member))
        self.assertEqual('in-use', self.status(volume_id))

    def test_force_detach_of_only_attachment(self):
        for value in ({}, {'attachment_id': None}, {'connector': None}, {'connector': 'x'},
                      {'connector': {'initiator': 'x'}, 'attachment_id': None}):
            with self.subTest(value=value):
                volume_id = self.volume()
                self.attached(volume_id)
                self.assert_status(202, self.force(volume_id, value))
                self.assertEqual('available', self.status(volume_id))
                self.assertEqual({}, self.grants(volume_id))

    def test_force_detach_keeps_other_attachments(self):
        volume_id = self.volume(multiattach=True)
        connectors = [make.connector() for _ in range(3)]
        ids = [self.attached(volume_id, base.new_id(), connector) for connector in connectors]
        before = {row.id: row for row in self.rows(volume_id)}
        self.assert_status(202, self.force(volume_id, {'attachment_id': ids[1]}))
        remaining = {row.id: row for row in self.rows(volume_id)}
        self.assertEqual({one: before[one] for one in (ids[0], ids[2])}, remaining)
        self.assertEqual({connectors[0]['initiator']: 'rw', connectors[2]['initiator']: 'rw'},
                         self.grants(volume_id))

    def test_force_detach_of_several_without_id_rejected(self):
        volume_id = self.volume(multiattach=True)
        for _ in range(2):
            self.attached(volume_id, base.new_id())
        self.assert_fault(400, 'More than one attachment', self.force(volume_id, {}))
        self.assertEqual(2, len(self.rows(volume_id)))

    def test_force_detach_in_any_state(self):
        volume_id = self.volume()
        self.reserve(volume_id)
        self.assert_status(202, self.force(volume_id, {}))
        self.done(volume_id, 'os-reserve')
        self.assert_status(202, self.force(volume_id, {}))
        self.connect(self.reserve(volume_id))
        self.assert_status(202, self.force(volume_id, {}))
        self.assertEqual(([], 'available'), (self.rows(volume_id), self.status(volume_id)))

    def test_force_detach_with_silent_backend_accepted(self):
        volume_id = self.volume()
        self.attached(volume_id)
        self.http.managers.remove('storage-1@fake')
        self.assert_status(202, self.force(volume_id, {}))
        self.assertEqual([], self.servers(volume_id))

    def test_malformed_force_detach_rejected(self):
        volume_id = self.volume()
        for value in (None, [], 'x', {'attachment_id': 5}, {'a': 'b'}, {'connector': 5}):
            with self.subTest(value=value):
                self.assert_status(400, self.force(volume_id, value))
