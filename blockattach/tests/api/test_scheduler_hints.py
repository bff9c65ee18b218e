"""Scheduler hints of clients, with two backends."""
from blockattach.storage.conf import scheduler as scheduler_conf
from blockattach.storage.db.services import pools
from blockattach.tests.api import base
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import in_process

KEY = 'OS-SCH-HNT:scheduler_hints'
DEFAULT = scheduler_conf.SchedulerSettings()
SECOND = 'storage-2@fake'
HEEDING = {'scheduler': {
    'scheduler_default_filters': [
        *DEFAULT.filters, 'same_backend', 'different_backend', 'instance_locality', 'json',
        'driver'],
    'scheduler_default_weighers': {'volume_number': -1.0}},
    'nova': {'endpoint_override': 'http://127.0.0.1:9/v2.1'}}


class HintsTestCase(base.ApiTestCase):

    SETTINGS = {'options': HEEDING}

    def setUp(self):
        super().setUp()
        self.second = in_process.Manager(self.http.deployment, SECOND)

    def ask(self, hints, persona=None, **fields):
        reply = (persona or self.http.as_member).post(
            '/volumes', {'volume': {'size': 1, **fields}, KEY: hints})
        self.assert_status(202, reply)
        return reply.body['volume']['id']

    def place(self, volume_id):
        """Return the host on which a volume was placed, or None."""
        shown = self.shown(volume_id)
        host = shown['os-vol-host-attr:host']
        self.assertEqual('available' if host else 'error', shown['status'], shown)
        return host and host.partition('#')[0]

    def made_on(self, hints, **fields):
        return self.place(self.ask(hints, **fields))

    def message(self, volume_id, persona=None):
        found = (persona or self.http.as_admin).get('/messages').body['messages']
        message, = (one for one in found if one['resource_uuid'] == volume_id)
        return message['user_message']


class HeededTest(HintsTestCase):

    def setUp(self):
        super().setUp()
        self.first = self.ask(None)
        self.home = self.place(self.first)
        self.other, = {http.HOST, SECOND} - {self.home}

    def test_same_host_and_different_host_hints(self):
        # Without a hint, the scheduler prefers the backend with the fewest volumes, so either one.
        for _ in range(3):
            self.assertEqual(self.home, self.made_on({'same_host': [self.first]}))
        for _ in range(5):
            self.assertEqual(self.other, self.made_on({'different_host': self.first}))
        self.assertEqual(self.home, self.made_on({'same_host': self.first.replace('-', '')}))

    def test_volumes_without_hints_spread_over_backends(self):
        places = [self.home, *(self.made_on({}) for _ in range(5))]
        self.assertEqual(3, places.count(self.home), places)

    def test_unsatisfiable_hints_report_reason_per_pool(self):
        apart = self.place(second := self.ask({'different_host': [self.first]}))
        self.assertEqual(self.other, apart)
        lost = self.ask({'different_host': [self.first, second]})
        self.assertIsNone(self.place(lost))
        for host, volume_id in ((self.home, self.first), (self.other, second)):
            self.assertIn(f'{host}#pool: contains volume {volume_id} of scheduler hint '
                          f'different_host', self.message(lost))
        self.assertNotIn('#pool', self.message(lost, self.http.as_member))

    def test_hint_naming_foreign_volume_unsatisfiable(self):
        reply = self.http.as_stranger.post('/volumes', {
            'volume': {'size': 1}, KEY: {'same_host': self.first}})
        self.assertIsNone(self.place(reply.body['volume']['id']))

    def test_hint_with_invalid_volume_id_fails(self):
        lost = self.ask({'same_host': ['web']})
        self.assertIsNone(self.place(lost))
        for persona in (self.http.as_admin, self.http.as_member):
            self.assertIn('scheduler hint same_host contains an invalid volume ID',
                          self.message(lost, persona))

    def test_query_hint_selects_pool(self):
        for host in (http.HOST, SECOND):
            self.assertEqual(host, self.made_on({'query': f'["=", "$host", "{host}#pool"]'}))
        lost = self.ask({'query': ['like', 1]})
        self.assertIn("scheduler hint query is invalid: unknown operator 'like'",
                      self.message(lost))

    def test_local_to_instance_hint_with_unknown_host_fails(self):
        lost = self.ask({'local_to_instance': base.SERVER})
        self.assertIsNone(self.place(lost))
        self.assertIn(f'Cannot determine the host of server {base.SERVER}: Nova cannot be reached',
                      self.message(lost))
        self.assertTrue(self.message(lost, self.http.as_member).endswith(
            'weighted backend. Reasons: the host of the server in scheduler hint '
            'local_to_instance is unknown.'))

    def test_filter_function_of_pool_selects_backend(self):
        def made(**fields):
            # The report of the manager after each volume removes the functions.
            for host, function in ((http.HOST, 'volume.size < 2 and volume.display_name == web'),
                                   (SECOND, 'not (volume.size < 2)')):
                pools.report(self.http.database, host, [(f'{host}#pool', {
                    'total_capacity_gb': 1000, 'free_capacity_gb': 1000,
                    'filter_function': function})], 'nova')
            return self.ask({}, **fields)

        self.assertEqual(http.HOST, self.place(made(name='web')))
        self.assertEqual(SECOND, self.place(made(size=2, name='web')))
        lost = made(name='db')
        self.assertIn('the filter_function of the pool rejects the volume', self.message(lost))
        self.assertTrue(self.message(lost, self.http.as_member).endswith(
            'weighted backend. Reasons: not suitable for the volume.'))


class WaitingTest(HintsTestCase):

    def test_hints_apply_to_rescheduled_volume(self):
        """The first backend fails, and the second one does not satisfy the hint."""
        first = self.ask(None)
        home = self.place(first)
        lone = self.http.manager if home == http.HOST else self.second
        self.http.hold = True
        waiting = self.ask({'same_host': [first]})
        self.http.hold = False
        self.http.managers.remove(lone.host)
        self.http.as_member.get('/volumes')
        self.assertIsNone(self.place(waiting))
        self.assertIn('does not contain a volume of scheduler hint same_host',
                      self.message(waiting))


class DefaultTest(HintsTestCase):

    SETTINGS = {}

    def test_hints_ignored_by_default(self):
        for hints in (None, {}, {'same_host': ['web']}, {'query': '['},
                      {'local_to_instance': base.SERVER}):
            self.assertIsNotNone(self.made_on(hints))
