"""Pool check of a create request, which finds volumes that no pool can host."""
from blockattach.storage.db.services import pools
from blockattach.storage.db.services import services
from blockattach.storage.domain import binaries
from blockattach.tests.api import base
from blockattach.tests.fixtures import clock
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import in_process
from blockattach.tests.fixtures import make

EVENT = 'VOLUME_VOLUME_001_003'
TIER = {'tier': 'gold'}


class CheckTestCase(base.ApiTestCase):

    def setUp(self):
        super().setUp()
        self.gold = make.volume_type(self.http.database, 'gold', extra_specs=TIER)

    def ask(self, **fields):
        return self.http.as_member.post('/volumes', {'volume': {'size': 1, **fields}})

    def messages(self, volume_id=None, persona=None):
        found = (persona or self.http.as_admin).get('/messages').body['messages']
        return [one for one in found if volume_id in (None, one['resource_uuid'])]

    def report(self, **capabilities):
        """Report the only pool with these capabilities."""
        pools.report(self.http.database, http.HOST, [(http.POOL, {
            'total_capacity_gb': 1000, 'free_capacity_gb': 1000, 'multiattach': True,
            **capabilities})], make.ZONE)


class MessageTest(CheckTestCase):
    """Default mode: the request is accepted and a message with the reason created at once."""

    def test_pool_check_creates_message_once(self):
        self.http.hold = True
        reply = self.ask(volume_type='gold')
        self.assert_status(202, reply)
        volume_id = reply.body['volume']['id']
        message, = self.messages(volume_id)
        self.assertEqual(EVENT, message['event_id'])
        self.assertIn(f'{http.POOL}: capability tier is not reported (required: gold)',
                      message['user_message'])
        self.assertEqual('creating', self.shown(volume_id)['status'])
        self.http.hold = False
        self.http.as_member.get('/volumes')
        self.assertEqual('error', self.shown(volume_id)['status'])
        again, = self.messages(volume_id)
        self.assertEqual((message['id'], message['request_id'], message['created_at']),
                         (again['id'], again['request_id'], again['created_at']))

    def test_pool_check_message_hides_names_from_user(self):
        make.volume_type(self.http.database, 'elsewhere',
                         extra_specs={'volume_backend_name': 'secret-name'})
        for fields, words in (
                ({'volume_type': 'gold'},
                 'capabilities required by the volume type are missing'),
                ({'volume_type': 'elsewhere'},
                 'capabilities required by the volume type are missing'),
                ({'size': 2000}, 'not enough free space')):
            with self.subTest(fields=fields):
                volume_id = self.ask(**fields).body['volume']['id']
                message, = self.messages(volume_id, self.http.as_member)
                self.assertEqual('schedule allocate volume:Could not find any available weighted '
                                 f'backend. Reasons: {words}.', message['user_message'])
                full, = self.messages(volume_id)
                self.assertTrue(full['user_message'].startswith(
                    f'{message["user_message"]} {http.POOL}: '))

    def test_scheduler_message_replaces_pool_check_message(self):
        self.http.hold = True
        volume_id = self.ask(volume_type='gold').body['volume']['id']
        self.report(tier='tin')
        self.http.hold = False
        self.http.as_member.get('/volumes')
        message, = self.messages(volume_id)
        self.assertIn('capability tier is tin (required: gold)', message['user_message'])

    def test_pool_check_message_deleted_after_placement(self):
        self.http.hold = True
        volume_id = self.ask(volume_type='gold').body['volume']['id']
        self.assertEqual(1, len(self.messages(volume_id)))
        self.report(tier='gold')
        self.http.hold = False
        self.http.as_member.get('/volumes')
        self.assertEqual('available', self.shown(volume_id)['status'])
        self.assertEqual([], self.messages(volume_id))

    def test_pool_check_message_per_volume(self):
        for _ in range(2):
            self.assert_status(202, self.ask(volume_type='gold'))
        self.assertEqual(2, len({one['resource_uuid'] for one in self.messages()}))

    def test_pool_check_message_for_multiattach(self):
        self.report(multiattach=False)
        reply = self.ask(volume_type=self.multiattach_type().name)
        self.assert_status(202, reply)
        message, = self.messages(reply.body['volume']['id'])
        self.assertIn('multiattach is not supported', message['user_message'])

    def test_placeable_volume_gets_no_message(self):
        self.assert_status(202, self.ask())
        self.assertEqual([], self.messages())


class RejectTest(CheckTestCase):
    """Mode reject: the response has the reasons and no volume is created."""

    SETTINGS = {'check_capabilities': 'reject'}

    def refused(self, words, **fields):
        self.assert_fault(400, words, self.ask(**fields))
        self.assertEqual([], self.http.as_member.get('/volumes').body['volumes'])
        self.assertEqual([], self.messages())

    def test_pool_check_rejection_names_reason(self):
        self.refused('host the volume: capabilities required by the volume type are missing',
                     volume_type='gold')
        self.refused('host the volume: not enough free space', size=2000)

    def test_pool_check_rejects_multiattach(self):
        self.report(multiattach=False)
        self.refused('multiattach is not supported',
                     volume_type=self.multiattach_type().name)

    def test_pool_check_accepts_placeable_volume(self):
        self.assert_status(202, self.ask())

    def test_pool_check_rejection_not_cached(self):
        self.refused('capabilities required', volume_type='gold')
        self.report(tier='gold')
        self.assert_status(202, self.ask(volume_type='gold'))


class CacheTest(CheckTestCase):
    """Cache of pool reports that satisfied a request."""

    def setUp(self):
        self.clock = clock.ManualClock()
        self.SETTINGS = {'check_capabilities': 'reject', 'clock': self.clock}
        super().setUp()

    def test_pool_reports_reread_after_report_interval(self):
        self.report(tier='gold')
        self.assert_status(202, self.ask(volume_type='gold'))
        self.report()
        self.assert_status(202, self.ask(volume_type='gold'))
        self.clock.advance(10)
        self.assert_fault(400, 'capabilities required', self.ask(volume_type='gold'))


class StartingTest(CheckTestCase):
    """Requests while backends are starting and may still report."""

    def setUp(self):
        self.clock = clock.ManualClock()
        self.SETTINGS = {'check_capabilities': 'reject', 'clock': self.clock}
        super().setUp()

    def test_pool_check_accepts_while_backend_may_start(self):
        services.register(self.http.database, binaries.VOLUME, 'storage-2@fake', make.ZONE, 'x')
        self.sql("UPDATE services SET reported_at = '2020-01-01 00:00:00' "
                 "WHERE host = 'storage-2@fake'")
        self.assert_status(202, self.ask(volume_type='gold'))
        self.clock.advance(in_process.DOWN_AFTER + 1)
        self.assert_fault(400, 'capabilities required', self.ask(volume_type='gold'))


class OffTest(CheckTestCase):

    SETTINGS = {'check_capabilities': 'off'}

    def test_no_pool_check_leaves_message_to_scheduler(self):
        self.http.hold = True
        volume_id = self.ask(volume_type='gold').body['volume']['id']
        self.assertEqual([], self.messages(volume_id))
        self.http.hold = False
        self.http.as_member.get('/volumes')
        self.assertEqual(1, len(self.messages(volume_id)))
