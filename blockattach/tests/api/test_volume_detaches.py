"""The actions that end an attachment, and the announcement before."""
from blockattach.tests.api import actions
from blockattach.tests.api import base
from blockattach.tests.fixtures import make


class AnnouncedTest(actions.ActionsTestCase):

    def announce(self, volume_id):
        self.done(volume_id, 'os-begin_detaching')

    def test_a_plain_volume(self):
        volume_id = self.volume()
        attachment_id = self.attached(volume_id)
        self.announce(volume_id)
        self.assertEqual('detaching', self.status(volume_id))
        self.assertEqual([base.SERVER], self.servers(volume_id))
        self.assertEqual('attached', self.listed()[0]['status'])
        self.assert_status(200, self.http.as_member.delete(f'/attachments/{attachment_id}'))
        self.assertEqual('available', self.status(volume_id))

    def test_nothing_of_one_attachment_remains_for_the_next(self):
        volume_id = self.volume()
        attachment_id = self.attached(volume_id)
        self.announce(volume_id)
        self.http.as_member.delete(f'/attachments/{attachment_id}')
        self.attached(volume_id)
        self.assertEqual('in-use', self.status(volume_id))

    def test_what_is_not_attached(self):
        volume_id = self.volume()
        self.assert_fault(400, 'Unable to detach volume',
                          self.act(volume_id, 'os-begin_detaching'))
        attachment_id = self.reserve(volume_id)
        self.assert_fault(400, "status: 'reserved'", self.act(volume_id, 'os-begin_detaching'))
        self.connect(attachment_id)
        self.assert_fault(400, "status: 'attaching'", self.act(volume_id, 'os-begin_detaching'))

    def test_twice(self):
        volume_id = self.volume()
        self.attached(volume_id)
        self.announce(volume_id)
        self.assert_fault(400, 'Unable to detach volume',
                          self.act(volume_id, 'os-begin_detaching'))

    def test_servers_leave_side_by_side(self):
        """The peer refuses the second while the first is leaving."""
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

    def test_servers_leave_one_by_one(self):
        """Clients wait for the change of the word, after each."""
        volume_id = self.volume(multiattach=True)
        words = []
        for attachment_id in [self.attached(volume_id, base.new_id()) for _ in range(2)]:
            self.announce(volume_id)
            words.append(self.status(volume_id))
            self.assert_status(200, self.http.as_member.delete(f'/attachments/{attachment_id}'))
            words.append(self.status(volume_id))
        self.assertEqual(['detaching', 'in-use', 'detaching', 'available'], words)

    def test_a_new_server_comes_while_another_leaves(self):
        volume_id = self.volume(multiattach=True)
        first = self.attached(volume_id)
        self.announce(volume_id)
        self.attached(volume_id, base.OTHER_SERVER)
        self.assertEqual('detaching', self.status(volume_id))
        self.assert_status(200, self.http.as_member.delete(f'/attachments/{first}'))
        self.assertEqual('in-use', self.status(volume_id))

    def test_it_is_taken_back(self):
        volume_id = self.volume()
        self.attached(volume_id)
        self.announce(volume_id)
        self.done(volume_id, 'os-roll_detaching')
        self.assertEqual('in-use', self.status(volume_id))
        self.announce(volume_id)
        self.assertEqual('detaching', self.status(volume_id))

    def test_there_is_nothing_to_take_back(self):
        volume_id = self.volume()
        self.done(volume_id, 'os-roll_detaching')
        self.assertEqual('available', self.status(volume_id))
        self.attached(volume_id)
        self.done(volume_id, 'os-roll_detaching')
        self.assertEqual('in-use', self.status(volume_id))
        self.done(volume_id, 'os-begin_detaching')
        self.assertEqual('detaching', self.status(volume_id))


class DetachTest(actions.ActionsTestCase):

    def test_the_only_one(self):
        for value in (None, {}, {'attachment_id': None}):
            with self.subTest(value=value):
                volume_id = self.volume()
                self.attached(volume_id)
                self.done(volume_id, 'os-detach', value)
                self.assertEqual('available', self.status(volume_id))
                self.assertEqual({}, self.grants(volume_id))

    def test_the_named_one(self):
        volume_id = self.volume(multiattach=True)
        connectors = [make.connector() for _ in range(2)]
        first, second = (self.attached(volume_id, base.new_id(), connector)
                         for connector in connectors)
        self.done(volume_id, 'os-detach', {'attachment_id': first})
        self.assertEqual([second], [one['id'] for one in self.listed()])
        self.assertEqual({connectors[1]['initiator']: 'rw'}, self.grants(volume_id))
        self.assertEqual('in-use', self.status(volume_id))

    def test_one_of_several_must_be_named(self):
        volume_id = self.volume(multiattach=True)
        for _ in range(2):
            self.attached(volume_id, base.new_id())
        self.assert_fault(400, 'More than one attachment, but no attachment_id provided.',
                          self.act(volume_id, 'os-detach', {}))
        self.assertEqual(2, len(self.rows(volume_id)))

    def test_one_that_is_gone(self):
        volume_id = self.volume()
        self.attached(volume_id)
        self.done(volume_id, 'os-detach', {'attachment_id': base.ABSENT})
        self.assertEqual('in-use', self.status(volume_id))

    def test_one_of_another_volume(self):
        volume_id = self.volume()
        self.attached(volume_id)
        other_id = self.volume()
        other = self.attached(other_id)
        self.act(volume_id, 'os-detach', {'attachment_id': other})
        self.assertEqual(['in-use', 'in-use'],
                         [self.status(volume_id), self.status(other_id)])

    def test_none(self):
        volume_id = self.volume()
        self.done(volume_id, 'os-detach')
        self.assertEqual('available', self.status(volume_id))

    def test_a_legacy_reservation_is_not_attached(self):
        volume_id = self.volume()
        self.done(volume_id, 'os-reserve')
        self.done(volume_id, 'os-detach')
        self.assertEqual('attaching', self.status(volume_id))

    def test_bodies_that_are_not_understood(self):
        volume_id = self.volume()
        for value in ([], 'x', 5, {'attachment_id': 'x'}, {'attachment_id': 5}, {'a': 'b'}):
            with self.subTest(value=value):
                self.assert_status(400, self.act(volume_id, 'os-detach', value))

    def test_a_volume_in_maintenance(self):
        volume_id = self.volume()
        self.attached(volume_id)
        self.done(volume_id, 'os-reset_status', {'status': 'maintenance'}, self.http.as_admin)
        self.assert_fault(400, 'maintenance', self.act(volume_id, 'os-detach'))
        self.assertEqual(1, len(self.rows(volume_id)))


class ForceDetachTest(actions.ActionsTestCase):

    def force(self, volume_id, value, persona=None):
        return self.act(volume_id, 'os-force_detach', value, persona or self.http.as_admin)

    def test_an_administrator_only(self):
        volume_id = self.volume()
        self.attached(volume_id)
        self.assert_fault(
            403, 'volume_extension:volume_admin_actions:force_detach',
            self.force(volume_id, {}, self.http.as_member))
        self.assertEqual('in-use', self.status(volume_id))

    def test_the_only_one(self):
        for value in ({}, {'attachment_id': None}, {'connector': None}, {'connector': 'x'},
                      {'connector': {'initiator': 'x'}, 'attachment_id': None}):
            with self.subTest(value=value):
                volume_id = self.volume()
                self.attached(volume_id)
                self.assert_status(202, self.force(volume_id, value))
                self.assertEqual('available', self.status(volume_id))
                self.assertEqual({}, self.grants(volume_id))

    def test_no_other_is_touched(self):
        volume_id = self.volume(multiattach=True)
        connectors = [make.connector() for _ in range(3)]
        ids = [self.attached(volume_id, base.new_id(), connector) for connector in connectors]
        before = {row.id: row for row in self.rows(volume_id)}
        self.assert_status(202, self.force(volume_id, {'attachment_id': ids[1]}))
        remaining = {row.id: row for row in self.rows(volume_id)}
        self.assertEqual({one: before[one] for one in (ids[0], ids[2])}, remaining)
        self.assertEqual({connectors[0]['initiator']: 'rw', connectors[2]['initiator']: 'rw'},
                         self.grants(volume_id))

    def test_one_of_several_must_be_named(self):
        volume_id = self.volume(multiattach=True)
        for _ in range(2):
            self.attached(volume_id, base.new_id())
        self.assert_fault(400, 'More than one attachment', self.force(volume_id, {}))
        self.assertEqual(2, len(self.rows(volume_id)))

    def test_in_any_state(self):
        volume_id = self.volume()
        self.reserve(volume_id)
        self.assert_status(202, self.force(volume_id, {}))
        self.done(volume_id, 'os-reserve')
        self.assert_status(202, self.force(volume_id, {}))
        self.connect(self.reserve(volume_id))
        self.assert_status(202, self.force(volume_id, {}))
        self.assertEqual(([], 'available'), (self.rows(volume_id), self.status(volume_id)))

    def test_a_backend_that_does_not_answer(self):
        volume_id = self.volume()
        self.attached(volume_id)
        self.http.managers.remove('storage-1@fake')
        self.assert_status(202, self.force(volume_id, {}))
        self.assertEqual([], self.servers(volume_id))

    def test_bodies_that_are_not_understood(self):
        volume_id = self.volume()
        for value in (None, [], 'x', {'attachment_id': 5}, {'a': 'b'}, {'connector': 5}):
            with self.subTest(value=value):
                self.assert_status(400, self.force(volume_id, value))
