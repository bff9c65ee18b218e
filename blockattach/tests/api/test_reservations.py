"""SCSI reservation of the host of an attachment, for clients of ``blockattach 1.1``."""
from blockattach.platform import errors
from blockattach.storage.drivers import faults
from blockattach.tests.api import base
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make

ASKED = {'OpenStack-API-Version': 'volume 3.71, blockattach 1.1'}


class ReservationTest(base.ApiTestCase):

    def setUp(self):
        super().setUp()
        self.volume_id = self.volume(multiattach=True)
        self.hosts = [make.connector() for _ in range(3)]
        self.attachments = [self.attached(self.volume_id, base.new_id(), host)
                            for host in self.hosts]
        self.target = self.http.manager.backend.fake_target

    def reservation(self, attachment_id):
        reply = self.http.as_member.send('GET', f'/attachments/{attachment_id}', None, None, ASKED)
        self.assert_status(200, reply)
        return reply.body['attachment']['reservation']

    def agree(self):
        names = [host['initiator'] for host in self.hosts]
        self.target.hold_reservations(self.volume_id, names[:2], holder=names[0])

    def test_reservation_shown_per_host(self):
        self.assertEqual(['none'] * 3, [self.reservation(one) for one in self.attachments])
        self.agree()
        self.assertEqual(['holder', 'registered', 'none'],
                         [self.reservation(one) for one in self.attachments])

    def test_reservation_changes_etag(self):
        path = f'/attachments/{self.attachments[0]}'
        before = self.http.as_member.send('GET', path, None, None, ASKED).headers['ETag']
        named = {**ASKED, 'If-None-Match': before}
        self.assert_status(304, self.http.as_member.send('GET', path, None, None, named))
        self.agree()
        after = self.http.as_member.send('GET', path, None, None, named)
        self.assert_status(200, after)
        self.assertEqual('holder', after.body['attachment']['reservation'])

    def test_reservation_null_for_unknown_host(self):
        self.assertIsNone(self.reservation(self.reserve(self.volume_id, base.new_id())))
        self.target.lose_everything()
        self.assertIsNone(self.reservation(self.attachments[0]))

    def test_reservation_null_if_backend_fails(self):
        self.agree()
        for fault in (faults.Fault.REFUSED, faults.Fault.UNCERTAIN_BEFORE):
            self.target.faults.plan('reservations', fault)
            self.assertIsNone(self.reservation(self.attachments[0]))
        self.assertEqual('holder', self.reservation(self.attachments[0]))

    def test_reservation_null_if_service_silent_or_old(self):
        class Old:
            def host_reservation(self, *arguments):
                raise errors.ConfigurationError(reason='older')

        self.agree()
        self.http.managers.remove(http.HOST)
        self.assertIsNone(self.reservation(self.attachments[0]))
        self.http.managers.add(http.HOST, Old())
        self.assertIsNone(self.reservation(self.attachments[0]))

    def test_backend_without_reservation_capability_not_asked(self):
        self.agree()
        self.sql("UPDATE pools SET capabilities = "
                 "replace(capabilities, 'host_reservations', 'something_else')")
        before = self.target.faults.calls.get('reservations', 0)
        self.assertIsNone(self.reservation(self.attachments[0]))
        self.sql("UPDATE pools SET capabilities = "
                 "replace(capabilities, 'something_else', 'host_reservations'), "
                 "reported_at = '2020-01-01'")
        self.assertIsNone(self.reservation(self.attachments[0]))
        self.assertEqual(before, self.target.faults.calls.get('reservations', 0))

    def test_reservation_absent_in_lists_and_older_versions(self):
        path = f'/attachments/{self.attachments[0]}'
        for headers in ({'OpenStack-API-Version': 'volume 3.71, blockattach 1.0'},
                        {'OpenStack-API-Version': 'volume 3.71'}):
            plain = self.http.as_member.send('GET', path, None, None, headers)
            self.assertNotIn('reservation', plain.body['attachment'])
        listed = self.http.as_member.send('GET', '/attachments/detail', None, None, ASKED)
        self.assertNotIn('reservation', listed.body['attachments'][0])
