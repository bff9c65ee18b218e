"""``Idempotency-Key``: a request that comes again makes nothing twice."""
import threading

from blockattach.drivers import faults
from blockattach.testing import make
from blockattach.tests.api import base


class IdempotencyTest(base.ApiTestCase):

    def attach(self, volume_id, key, persona=None, **more):
        body = {'attachment': {'volume_uuid': volume_id, 'instance_uuid': base.SERVER, **more}}
        return (persona or self.http.as_member).post('/attachments', body,
                                                     **{'Idempotency-Key': key})

    def ids(self, volume_id):
        return [row['id'] for row in self.http.as_admin.get(
            f'/attachments?volume_id={volume_id}').body['attachments']]

    def test_the_same_request_shows_the_same_attachment(self):
        volume_id = self.volume(multiattach=True)
        connector = make.connector()
        first = self.attach(volume_id, 'k', connector=connector)
        again = self.attach(volume_id, 'k', connector=connector)
        self.assert_status(200, first)
        self.assert_status(200, again)
        self.assertEqual(first.body['attachment']['id'], again.body['attachment']['id'])
        self.assertEqual([first.body['attachment']['id']], self.ids(volume_id))

    def test_another_body_under_the_name_is_refused(self):
        volume_id = self.volume(multiattach=True)
        self.assert_status(200, self.attach(volume_id, 'k'))
        self.assert_fault(409, 'another body', self.attach(volume_id, 'k', mode='ro'))
        self.assertEqual(1, len(self.ids(volume_id)))

    def test_the_name_is_the_callers_own(self):
        volume_id = self.volume(multiattach=True)
        self.assert_status(200, self.attach(volume_id, 'k'))
        self.assert_status(200, self.attach(volume_id, 'other'))
        self.assertEqual(2, len(self.ids(volume_id)))

    def test_what_is_gone_is_not_found(self):
        volume_id = self.volume(multiattach=True)
        made = self.attach(volume_id, 'k').body['attachment']['id']
        self.assert_status(200, self.http.as_member.delete(f'/attachments/{made}'))
        self.assert_fault(404, made, self.attach(volume_id, 'k'))
        self.assertEqual([], self.ids(volume_id))

    def test_what_failed_is_made_anew(self):
        volume_id = self.volume(multiattach=True)
        connector = make.connector()
        self.http.manager.backend.fake_target.faults.plan('grant', faults.Fault.REFUSED)
        self.assert_status(500, self.attach(volume_id, 'k', connector=connector))
        self.assertEqual([], self.ids(volume_id))
        self.assert_status(200, self.attach(volume_id, 'k', connector=connector))
        self.assertEqual(1, len(self.ids(volume_id)))

    def test_a_refused_request_leaves_no_name(self):
        volume_id = self.volume()
        self.assert_status(200, self.http.as_member.post('/attachments', {
            'attachment': {'volume_uuid': volume_id, 'instance_uuid': base.OTHER_SERVER}}))
        self.assert_status(400, self.attach(volume_id, 'k'))
        held, = self.ids(volume_id)
        self.assert_status(200, self.http.as_member.delete(f'/attachments/{held}'))
        self.assert_status(200, self.attach(volume_id, 'k'))

    def test_the_same_request_at_once_makes_one(self):
        volume_id = self.volume(multiattach=True)
        connector = make.connector()
        replies = []
        threads = [threading.Thread(target=lambda: replies.append(
            self.attach(volume_id, 'k', connector=connector))) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertEqual([200] * 6, [reply.status for reply in replies])
        self.assertEqual(1, len({reply.body['attachment']['id'] for reply in replies}))
        self.assertEqual(1, len(self.ids(volume_id)))

    def test_volumes_too(self):
        body = {'volume': {'size': 1}}
        first, again = (self.http.as_member.post(
            '/volumes', body, **{'Idempotency-Key': 'v'}) for _ in range(2))
        self.assert_status(202, first)
        self.assert_status(202, again)
        self.assertEqual(first.body['volume']['id'], again.body['volume']['id'])
        self.assert_fault(409, 'another body', self.http.as_member.post(
            '/volumes', {'volume': {'size': 2}}, **{'Idempotency-Key': 'v'}))

    def test_names_that_are_none(self):
        volume_id = self.volume()
        for key in ('', 'k' * 256):
            with self.subTest(length=len(key)):
                self.assert_fault(400, 'Idempotency-Key', self.attach(volume_id, key))
