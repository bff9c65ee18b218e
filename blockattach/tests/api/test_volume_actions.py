"""Volume actions os-reserve, os-unreserve and os-attach."""
import threading
from concurrent import futures

from blockattach.storage.domain import volume_lifecycle
from blockattach.tests.api import actions
from blockattach.tests.api import base
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import polling

_Own = volume_lifecycle.OwnStatus


class BodyTest(actions.ActionsTestCase):

    def test_action_body_needs_exactly_one_key(self):
        path = f'/volumes/{self.volume()}/action'
        for body in ({}, [], None, 'os-reserve', {'os-reserve': None, 'os-unreserve': None}):
            with self.subTest(body=body):
                self.assert_fault(400, 'Malformed request body',
                                  self.http.as_member.post(path, body, version=None))

    def test_unknown_volume_action_rejected(self):
        self.assert_fault(400, 'There is no such action: os-explode',
                          self.act(self.volume(), 'os-explode'))

    def test_action_on_unknown_volume_not_found(self):
        for action in ('os-reserve', 'os-begin_detaching', 'os-detach'):
            with self.subTest(action=action):
                self.assert_fault(404, f'Volume {base.ABSENT} could not be found.',
                                  self.act(base.ABSENT, action))

    def test_action_on_volume_of_another_project_not_found(self):
        volume_id = self.volume()
        self.assert_fault(404, f'Volume {volume_id} could not be found.',
                          self.act(volume_id, 'os-reserve', persona=self.http.as_stranger))
        self.assertEqual('available', self.status(volume_id))

    def test_actions_without_parameters_accept_any_value(self):
        volume_id = self.volume()
        for value in (None, {}, [], 'x', 5, {'a': 'b'}):
            with self.subTest(value=value):
                self.done(volume_id, 'os-reserve', value)
                self.done(volume_id, 'os-unreserve', value)
        attachment_id = self.attached(volume_id)
        for value in (None, {}, [], 'x', 5):
            with self.subTest(value=value):
                self.done(volume_id, 'os-begin_detaching', value)
                self.done(volume_id, 'os-roll_detaching', value)
        self.assertEqual([attachment_id], [row.id for row in self.rows(volume_id)])

    def test_actions_served_at_every_version(self):
        volume_id = self.volume()
        for version in ('3.0', '3.27', '3.44', '3.71'):
            with self.subTest(version=version):
                for action in ('os-reserve', 'os-unreserve'):
                    self.assert_status(202, self.act(volume_id, action, version=version))


class ReserveTest(actions.ActionsTestCase):

    def test_os_reserve_hides_attachment_and_sets_attaching(self):
        volume_id = self.volume()
        self.done(volume_id, 'os-reserve')
        self.assertEqual('attaching', self.status(volume_id))
        self.assertEqual([], self.listed())
        self.assertEqual([], self.http.as_member.get('/attachments').body['attachments'])
        self.assertEqual([], self.shown(volume_id)['attachments'])
        reservation, = self.rows(volume_id)
        for persona in (self.http.as_member, self.http.as_admin):
            self.assert_status(404, persona.get(f'/attachments/{reservation.id}'))
            self.assert_status(404, persona.delete(f'/attachments/{reservation.id}'))
        self.assert_fault(404, reservation.id, self.http.as_member.get(
            f'/attachments?marker={reservation.id}'))

    def test_second_os_reserve_of_plain_volume_rejected(self):
        volume_id = self.volume()
        self.done(volume_id, 'os-reserve')
        self.assert_fault(
            400, f'Volume {volume_id} status must be available or downloading to reserve, but '
                 f'the current status is attaching.', self.act(volume_id, 'os-reserve'))
        reply = self.http.as_member.post('/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': base.SERVER}})
        self.assert_fault(400, 'to reserve', reply)
        self.assertEqual(1, len(self.rows(volume_id)))

    def test_os_reserve_of_attached_volume_rejected(self):
        volume_id = self.volume()
        self.attached(volume_id)
        self.assert_fault(400, 'the current status is in-use.', self.act(volume_id, 'os-reserve'))

    def test_os_reserve_of_multiattach_volume_repeatable(self):
        volume_id = self.volume(multiattach=True)
        self.attached(volume_id)
        for _ in range(3):
            self.done(volume_id, 'os-reserve')
        self.assertEqual('in-use', self.status(volume_id))
        self.assertEqual(4, len(self.rows(volume_id)))

    def test_os_reserve_of_volume_in_error_rejected(self):
        volume_id = make.volume(self.http.database, own_status=_Own.ERROR).id
        self.assert_fault(400, 'error', self.act(volume_id, 'os-reserve'))

    def test_os_unreserve_releases_volume(self):
        volume_id = self.volume()
        self.done(volume_id, 'os-reserve')
        self.done(volume_id, 'os-unreserve')
        self.assertEqual('available', self.status(volume_id))
        self.assertEqual([], self.rows(volume_id))

    def test_os_unreserve_without_os_reserve_keeps_attachments(self):
        volume_id = self.volume()
        self.done(volume_id, 'os-unreserve')
        self.assertEqual('available', self.status(volume_id))
        attachment_id = self.reserve(volume_id)
        self.done(volume_id, 'os-unreserve')
        self.assertEqual('reserved', self.status(volume_id))
        self.assertEqual([attachment_id], [one['id'] for one in self.listed()])

    def test_os_unreserve_keeps_other_attachments(self):
        volume_id = self.volume(multiattach=True)
        attachment_id = self.attached(volume_id)
        self.done(volume_id, 'os-reserve')
        self.done(volume_id, 'os-unreserve')
        self.assertEqual([attachment_id], [row.id for row in self.rows(volume_id)])
        self.assertEqual('in-use', self.status(volume_id))


class BootableTest(actions.ActionsTestCase):
    """Policy rule on a second server of a bootable volume, which holds from the reservation on."""

    def setUp(self):
        super().setUp()
        self.fixture(rules={'volume:multiattach_bootable_volume': 'role:admin'})
        self.volume_id = self.volume(multiattach=True)
        self.sql(f"UPDATE volumes SET bootable = 1 WHERE id = '{self.volume_id}'")

    def reserve_again(self):
        return self.http.as_member.post('/attachments', {'attachment': {
            'volume_uuid': self.volume_id, 'instance_uuid': base.OTHER_SERVER}})

    def test_second_server_forbidden_in_each_state_of_first(self):
        attachment_id = self.reserve(self.volume_id)
        refused = "Policy doesn't allow volume:multiattach_bootable_volume to be performed."
        self.assert_fault(403, refused, self.reserve_again())
        self.connect(attachment_id)
        self.assert_fault(403, refused, self.reserve_again())
        self.complete(attachment_id)
        self.assert_fault(403, refused, self.reserve_again())
        self.assert_fault(403, refused, self.act(self.volume_id, 'os-reserve'))
        self.assertEqual(1, len(self.rows(self.volume_id)))

    def test_reserve_after_os_reserve_forbidden(self):
        self.done(self.volume_id, 'os-reserve')
        self.assert_status(403, self.reserve_again())

    def test_legacy_actions_of_second_server_forbidden(self):
        self.attached(self.volume_id)
        details = {'instance_uuid': base.OTHER_SERVER, 'mountpoint': '/dev/vdb'}
        for action, value in (('os-initialize_connection', {'connector': make.connector()}),
                              ('os-attach', details)):
            with self.subTest(action=action):
                self.assert_status(403, self.act(self.volume_id, action, value))
        self.assertEqual(1, len(self.rows(self.volume_id)))

    def test_first_server_allowed_by_legacy_actions(self):
        self.done(self.volume_id, 'os-reserve')
        self.initialize(self.volume_id)
        self.attach(self.volume_id)
        self.attach(self.volume_id)
        self.assertEqual([base.SERVER], self.servers(self.volume_id))

    def test_concurrent_reservations_succeed_once(self):
        details = {'instance_uuid': base.OTHER_SERVER, 'mountpoint': '/dev/vdb'}
        asks = (self.reserve_again, lambda: self.act(self.volume_id, 'os-reserve'),
                lambda: self.act(self.volume_id, 'os-attach', details),
                lambda: self.act(self.volume_id, 'os-initialize_connection',
                                 {'connector': make.connector()})) * 4
        start = threading.Barrier(len(asks))

        def ask(one):
            start.wait(polling.LIMIT)
            return one().status
        with futures.ThreadPoolExecutor(len(asks)) as threads:
            codes = list(threads.map(ask, asks, timeout=polling.LIMIT))
        # At most one create of an attachment succeeds. A legacy action may take over the
        # reservation of another one, or get 409 if several do so at once.
        self.assertLessEqual(codes[::4].count(200), 1)
        self.assertEqual({200, 403}, {200, *codes[::4]})
        self.assertLessEqual({code for code in codes if code >= 400}, {403, 409})
        self.assertEqual(1, len(self.rows(self.volume_id)))

    def test_idempotent_repeat_is_no_second_server(self):
        """The repeat creates no second attachment, so the rule does not apply."""
        body = {'attachment': {'volume_uuid': self.volume_id, 'instance_uuid': base.SERVER}}
        first, again = (self.http.as_member.post('/attachments', body, **{'Idempotency-Key': 'a'})
                        for _ in range(2))
        self.assertEqual((200, first.body), (again.status, again.body))

    def test_second_reservation_allowed_by_policy(self):
        self.reserve(self.volume_id)
        self.done(self.volume_id, 'os-reserve', persona=self.http.as_admin)


class AttachTest(actions.ActionsTestCase):

    def refused(self, status, sentence, volume_id, **details):
        before = [row.id for row in self.rows(volume_id)]
        self.assert_fault(status, sentence, self.act(volume_id, 'os-attach', details))
        self.assertEqual(before, [row.id for row in self.rows(volume_id)])

    def test_malformed_os_attach_rejected(self):
        volume_id = self.volume()
        for details in (None, {}, {'mountpoint': '/dev/vdb'}, {'instance_uuid': base.SERVER},
                        {'instance_uuid': base.SERVER, 'mountpoint': ''},
                        {'instance_uuid': base.SERVER, 'mountpoint': 'x' * 256},
                        {'instance_uuid': base.SERVER, 'mountpoint': 5},
                        {'instance_uuid': 'server', 'mountpoint': '/dev/vdb'},
                        {'instance_uuid': None, 'mountpoint': '/dev/vdb'},
                        {'host_name': 'h' * 256, 'mountpoint': '/dev/vdb'},
                        {'instance_uuid': base.SERVER, 'mountpoint': '/dev/vdb', 'mode': 'wr'},
                        {'instance_uuid': base.SERVER, 'mountpoint': '/dev/vdb', 'mode': None},
                        {'instance_uuid': base.SERVER, 'mountpoint': '/dev/vdb', 'a': 'b'}):
            with self.subTest(details=details):
                reply = self.act(volume_id, 'os-attach', details)
                self.assert_status(400, reply)
                self.assertEqual('badRequest', reply.fault[0])
        self.assertEqual('available', self.status(volume_id))

    def test_os_attach_to_server(self):
        volume_id = self.volume()
        self.attach(volume_id)
        shown = self.shown(volume_id)
        self.assertEqual('in-use', shown['status'])
        one, = shown['attachments']
        self.assertEqual((base.SERVER, None, '/dev/vdb', volume_id),
                         (one['server_id'], one['host_name'], one['device'], one['id']))
        self.assertIsNotNone(one['attached_at'])
        attachment, = self.listed()
        self.assertEqual((one['attachment_id'], 'attached', base.SERVER, 'rw'),
                         tuple(attachment[key]
                               for key in ('id', 'status', 'instance', 'attach_mode')))

    def test_os_attach_to_host(self):
        volume_id = self.volume()
        self.done(volume_id, 'os-attach', {'host_name': 'a host', 'mountpoint': '/mnt'})
        one, = self.shown(volume_id)['attachments']
        self.assertEqual((None, 'a-host', '/mnt'),
                         (one['server_id'], one['host_name'], one['device']))

    def test_os_attach_adopts_os_reserve(self):
        volume_id = self.volume()
        self.done(volume_id, 'os-reserve')
        reservation, = self.rows(volume_id)
        self.attach(volume_id)
        attachment, = self.listed()
        self.assertEqual(reservation.id, attachment['id'])
        self.assertEqual([base.SERVER], self.servers(volume_id))

    def test_repeated_os_attach_is_idempotent(self):
        volume_id = self.volume()
        for details in ({'instance_uuid': base.SERVER}, {'instance_uuid': base.SERVER}):
            self.done(volume_id, 'os-attach', {**details, 'mountpoint': '/dev/vdb'})
        self.assertEqual(1, len(self.rows(volume_id)))
        self.done(volume_id, 'os-detach')
        for _ in range(2):
            self.done(volume_id, 'os-attach', {'host_name': 'h', 'mountpoint': '/dev/vdb'})
        self.assertEqual(1, len(self.rows(volume_id)))

    def test_os_attach_plain_volume_to_second_server_rejected(self):
        volume_id = self.volume()
        self.attach(volume_id)
        self.refused(400, 'volume is already attached and multiple attachments are not enabled',
                     volume_id, instance_uuid=base.OTHER_SERVER, mountpoint='/dev/vdb')

    def test_os_attach_multiattach_volume_to_second_server(self):
        volume_id = self.volume(multiattach=True)
        self.attach(volume_id)
        self.attach(volume_id, base.OTHER_SERVER)
        self.assertEqual({base.SERVER, base.OTHER_SERVER}, set(self.servers(volume_id)))

    def test_os_attach_with_other_mode_rejected(self):
        volume_id = self.volume(multiattach=True)
        self.attach(volume_id, mode='ro')
        self.done(volume_id, 'os-reserve')
        self.refused(400, 'being attached by different mode', volume_id,
                     instance_uuid=base.OTHER_SERVER, mountpoint='/dev/vdb', mode='rw')

    def test_os_attach_in_maintenance_rejected(self):
        volume_id = self.volume()
        self.done(volume_id, 'os-reset_status', {'status': 'maintenance'}, self.http.as_admin)
        self.refused(400, 'maintenance', volume_id, instance_uuid=base.SERVER,
                     mountpoint='/dev/vdb')

    def test_os_attach_reserved_in_maintenance_rejected(self):
        volume_id = self.volume()
        self.done(volume_id, 'os-reserve')
        self.done(volume_id, 'os-reset_status', {'status': 'maintenance'}, self.http.as_admin)
        self.refused(400, 'maintenance', volume_id, instance_uuid=base.SERVER,
                     mountpoint='/dev/vdb')

    def test_os_attach_sets_readonly_and_attached_mode(self):
        volume_id = self.volume(metadata={'a': 'b'})
        self.assertEqual({'a': 'b'}, self.shown(volume_id)['metadata'])
        self.attach(volume_id, mode='ro')
        wanted = {'a': 'b', 'readonly': 'False', 'attached_mode': 'ro'}
        for persona in (self.http.as_member, self.http.as_reader, self.http.as_admin):
            shown = persona.get(f'/volumes/{volume_id}').body['volume']
            self.assertEqual(wanted, shown['metadata'])
            shown, = persona.get('/volumes/detail').body['volumes']
            self.assertEqual(wanted, shown['metadata'])
        self.done(volume_id, 'os-detach')
        self.assertEqual({'a': 'b', 'readonly': 'False'}, self.shown(volume_id)['metadata'])
