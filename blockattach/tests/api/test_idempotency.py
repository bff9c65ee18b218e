"""``Idempotency-Key``, with which a repeated request creates nothing twice."""
import threading
from concurrent import futures

from blockattach.platform import failpoints
from blockattach.storage.db.attachments import attachments
from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.drivers import faults
from blockattach.tests.api import base
from blockattach.tests.fixtures import clock
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import polling

LIMIT = polling.LIMIT
"""Timeout in seconds, which only a failing test reaches."""


class Died(BaseException):
    """Simulated death of the process that serves the request."""


class NamedTestCase(base.ApiTestCase):
    """Test case that sends requests with an idempotency key."""

    def attach(self, volume_id, key, persona=None, **more):
        body = {'attachment': {'volume_uuid': volume_id, 'instance_uuid': base.SERVER, **more}}
        return (persona or self.http.as_member).post('/attachments', body,
                                                     **{'Idempotency-Key': key})

    def listed(self, volume_id):
        return self.http.as_admin.get(f'/attachments?volume_id={volume_id}').body['attachments']

    def ids(self, volume_id):
        return [row['id'] for row in self.listed(volume_id)]


    def at_once(self, count, path, body, key='k'):
        """Send the request ``count`` times at once and return the responses."""
        with futures.ThreadPoolExecutor(count) as threads:
            return list(threads.map(lambda _: self.http.as_member.post(
                path, body, **{'Idempotency-Key': key}), range(count)))


class IdempotencyTest(NamedTestCase):

    def test_repeated_request_returns_same_attachment(self):
        volume_id = self.volume(multiattach=True)
        connector = make.connector()
        first = self.attach(volume_id, 'k', connector=connector)
        again = self.attach(volume_id, 'k', connector=connector)
        self.assert_status(200, first)
        self.assert_status(200, again)
        self.assertEqual(first.body['attachment']['id'], again.body['attachment']['id'])
        self.assertEqual([first.body['attachment']['id']], self.ids(volume_id))

    def test_two_keys_in_one_request_rejected(self):
        """Servers join repeated headers with a comma."""
        volume_id = self.volume(multiattach=True)
        for key in ('k, k', 'k,other', ','):
            self.assert_fault(400, 'one name', self.attach(volume_id, key))
        self.assertEqual([], self.ids(volume_id))

    def test_key_reused_with_another_body_rejected(self):
        volume_id = self.volume(multiattach=True)
        self.assert_status(200, self.attach(volume_id, 'k'))
        self.assert_fault(409, 'a different body', self.attach(volume_id, 'k', mode='ro'))
        self.assertEqual(1, len(self.ids(volume_id)))

    def test_different_keys_create_different_attachments(self):
        volume_id = self.volume(multiattach=True)
        self.assert_status(200, self.attach(volume_id, 'k'))
        self.assert_status(200, self.attach(volume_id, 'other'))
        self.assertEqual(2, len(self.ids(volume_id)))

    def test_repeat_after_attachment_deleted_not_found(self):
        volume_id = self.volume(multiattach=True)
        made = self.attach(volume_id, 'k').body['attachment']['id']
        self.assert_status(200, self.http.as_member.delete(f'/attachments/{made}'))
        self.assert_fault(404, made, self.attach(volume_id, 'k'))
        self.assertEqual([], self.ids(volume_id))

    def test_repeat_after_failed_grant_creates_attachment(self):
        volume_id = self.volume(multiattach=True)
        connector = make.connector()
        self.http.manager.backend.fake_target.faults.plan('grant', faults.Fault.REFUSED)
        self.assert_status(500, self.attach(volume_id, 'k', connector=connector))
        self.assertEqual([], self.ids(volume_id))
        self.assert_status(200, self.attach(volume_id, 'k', connector=connector))
        self.assertEqual(1, len(self.ids(volume_id)))

    def test_rejected_request_frees_key(self):
        volume_id = self.volume()
        self.assert_status(200, self.http.as_member.post('/attachments', {
            'attachment': {'volume_uuid': volume_id, 'instance_uuid': base.OTHER_SERVER}}))
        self.assert_status(400, self.attach(volume_id, 'k'))
        reserved, = self.ids(volume_id)
        self.assert_status(200, self.http.as_member.delete(f'/attachments/{reserved}'))
        self.assert_status(200, self.attach(volume_id, 'k'))

    def test_concurrent_requests_with_one_key_create_one_attachment(self):
        """A plain volume has no slot for a second attachment without a server."""
        connector = make.connector()
        for multiattach in (True, False):
            for server in ({'instance_uuid': base.SERVER}, {}):
                with self.subTest(multiattach=multiattach, server=server):
                    volume_id = self.volume(multiattach=multiattach)
                    body = {'attachment': {'volume_uuid': volume_id, 'connector': connector,
                                           **server}}
                    replies = self.at_once(6, '/attachments', body, volume_id)
                    self.assertEqual([200] * 6, [reply.status for reply in replies])
                    self.assertEqual(1, len({reply.text for reply in replies}))
                    self.assertEqual([replies[0].body['attachment']['id']], self.ids(volume_id))

    def test_repeated_request_returns_same_volume(self):
        body = {'volume': {'size': 1}}
        first, again = (self.http.as_member.post(
            '/volumes', body, **{'Idempotency-Key': 'v'}) for _ in range(2))
        self.assert_status(202, first)
        self.assert_status(202, again)
        self.assertEqual(first.body['volume']['id'], again.body['volume']['id'])
        self.assert_fault(409, 'a different body', self.http.as_member.post(
            '/volumes', {'volume': {'size': 2}}, **{'Idempotency-Key': 'v'}))

    def test_concurrent_requests_with_one_key_create_one_volume(self):
        replies = self.at_once(6, '/volumes', {'volume': {'size': 1, 'name': 'one'}})
        self.assertEqual([202] * 6, [reply.status for reply in replies])
        self.assertEqual(1, len({reply.body['volume']['id'] for reply in replies}))
        self.assertEqual(1, len(self.http.as_member.get('/volumes').body['volumes']))

    def test_repeat_after_volume_deleted_not_found(self):
        body = {'volume': {'size': 1}}
        made = self.http.as_member.post('/volumes', body, **{'Idempotency-Key': 'v'})
        volume_id = made.body['volume']['id']
        self.assert_status(202, self.http.as_member.delete(f'/volumes/{volume_id}'))
        self.assert_fault(404, volume_id, self.http.as_member.post(
            '/volumes', body, **{'Idempotency-Key': 'v'}))
        self.assertEqual([], self.http.as_member.get('/volumes').body['volumes'])

    def test_key_scoped_to_path_and_project(self):
        volume_id = self.volume(multiattach=True)
        key = {'Idempotency-Key': 'k'}
        made = self.attach(volume_id, 'k').body['attachment']['id']
        self.assert_status(202, self.http.as_member.post('/volumes', {'volume': {'size': 1}},
                                                         **key))
        others = self.attach(volume_id, 'k', http.Persona(
            self.http, 'admin,member,reader', http.OTHER_PROJECT))
        self.assert_status(200, others)
        self.assertNotEqual(made, others.body['attachment']['id'])
        colleagues = self.http.as_member.post(
            '/attachments', {'attachment': {'volume_uuid': volume_id,
                                            'instance_uuid': base.SERVER}},
            **key, **{'X-Auth-Token': f'colleague:{http.PROJECT}:member,reader'})
        self.assert_status(200, colleagues)
        self.assertNotEqual(made, colleagues.body['attachment']['id'])
        self.assertEqual(made, self.attach(volume_id, 'k').body['attachment']['id'])

    def test_invalid_key_rejected(self):
        volume_id = self.volume()
        for key in ('', 'k' * 256):
            with self.subTest(length=len(key)):
                self.assert_fault(400, 'Idempotency-Key', self.attach(volume_id, key))


class UnderWayTest(NamedTestCase):
    """Repeated request while the grant of the first one is still in progress."""

    def setUp(self):
        self.clock = clock.ManualClock()
        self.SETTINGS = {'clock': self.clock,
                         'options': {'control': {'backend_seconds': 30}}}
        super().setUp()
        self.volume_id = self.volume(multiattach=True)
        self.connector = make.connector()
        self.at_work, self.goes_on = threading.Event(), threading.Event()
        failpoints.arm('volume.attachments.before_grant', self.hold_the_first)
        self.addCleanup(failpoints.disarm, 'volume.attachments.before_grant')
        self.addCleanup(self.goes_on.set)

    def hold_the_first(self):
        self.at_work.set()
        self.goes_on.wait(LIMIT)

    def begin(self):
        """Send the request in another thread and return a future of its response."""
        answer = futures.Future()

        def send():
            answer.set_result(self.attach(self.volume_id, 'k', connector=self.connector))
        threading.Thread(target=send, daemon=True).start()
        return answer

    def both(self, fault=None):
        """Return the responses of a request and of its repeat, which waits for the first one."""
        if fault is not None:
            self.http.manager.backend.fake_target.faults.plan('grant', fault)
        first = self.begin()
        self.assertTrue(self.at_work.wait(LIMIT))
        second = self.begin()
        self.assertTrue(self.clock.until_waiting(1, LIMIT))
        self.assertFalse(second.done())
        self.goes_on.set()
        first = first.result(LIMIT)
        self.clock.advance(1)
        return first, second.result(LIMIT)

    def test_repeat_waits_and_returns_attachment_of_first(self):
        first, second = self.both()
        self.assert_status(200, second)
        self.assertEqual(first.body, second.body)
        self.assertIn('auth_password', second.body['attachment']['connection_info'])
        self.assertEqual([first.body['attachment']['id']], self.ids(self.volume_id))

    def test_repeat_retries_after_first_refused(self):
        first, second = self.both(faults.Fault.REFUSED)
        self.assert_status(500, first)
        self.assert_status(200, second)
        self.assertEqual([second.body['attachment']['id']], self.ids(self.volume_id))
        self.assertEqual(second.body, self.attach(self.volume_id, 'k',
                                                  connector=self.connector).body)

    def test_repeat_retries_after_first_withdrawn(self):
        first, second = self.both(faults.Fault.UNCERTAIN_BEFORE)
        self.assert_status(504, first)
        self.assert_status(200, second)
        self.assertEqual('attaching', second.body['attachment']['status'])
        self.assertEqual({second.body['attachment']['id']: 'attaching'},
                         {one['id']: one['status'] for one in self.listed(self.volume_id)
                          if one['status'] != 'detaching'})

    def test_repeat_retries_after_process_of_first_died(self):
        """The dead process cannot free its key; the request that it started is refused."""
        def die():
            raise Died
        failpoints.arm('control.attachments.after_reserve', die)
        self.addCleanup(failpoints.disarm, 'control.attachments.after_reserve')
        with self.assertRaises(Died):
            self.attach(self.volume_id, 'k', connector=self.connector)
        failpoints.disarm('control.attachments.after_reserve')
        remaining, = self.ids(self.volume_id)
        second = self.begin()
        self.assertTrue(self.clock.until_waiting(1, LIMIT))
        attachments.move(self.http.database, self.volume_id, remaining,
                         attachment_lifecycle.Event.REFUSED, attachments.Facts(error='no'))
        self.goes_on.set()
        self.clock.advance(1)
        reply = second.result(LIMIT)
        self.assert_status(200, reply)
        self.assertNotEqual(remaining, reply.body['attachment']['id'])
        self.assertEqual([reply.body['attachment']['id']], self.ids(self.volume_id))

    def test_repeat_waits_for_end_of_withdrawn_attachment(self):
        volume_id, wish = self.volume(), {'connector': make.connector()}
        self.goes_on.set()
        self.http.manager.backend.fake_target.faults.plan('grant', faults.Fault.UNCERTAIN_AFTER)
        first = self.attach(volume_id, 'k', **wish)
        self.assert_status(504, first)
        self.assertEqual('1', first.headers['Retry-After'])
        [remaining] = self.ids(volume_id)
        # A server may have a second attachment of the volume, for a live migration.
        self.assert_status(200, self.attach(volume_id, 'other'))
        repeat = self.attach(volume_id, 'k', **wish)
        self.assert_fault(409, 'is in progress', repeat)
        self.assertEqual('1', repeat.headers['Retry-After'])
        attachments.move(self.http.database, volume_id, remaining,
                         attachment_lifecycle.Event.DISCONNECTED)
        made = self.attach(volume_id, 'k', **wish)
        self.assert_status(200, made)
        self.assertIn(made.body['attachment']['id'], self.ids(volume_id))
        self.assertNotIn(remaining, self.ids(volume_id))

    def test_repeat_times_out_while_first_in_progress(self):
        first = self.begin()
        self.assertTrue(self.at_work.wait(LIMIT))
        second = self.begin()
        self.assertTrue(self.clock.until_waiting(1, LIMIT))
        self.clock.advance(31)
        self.assert_fault(409, 'is in progress', second.result(LIMIT))
        self.goes_on.set()
        self.assert_status(200, first.result(LIMIT))
        self.assertEqual([first.result().body['attachment']['id']], self.ids(self.volume_id))

    def test_another_body_rejected_without_waiting(self):
        first = self.begin()
        self.assertTrue(self.at_work.wait(LIMIT))
        self.assert_fault(409, 'a different body', self.attach(self.volume_id, 'k'))
        self.goes_on.set()
        self.assert_status(200, first.result(LIMIT))
