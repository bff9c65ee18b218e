"""Placement of volumes on two backends while a backend dies or is silent, or a scheduler dies."""
from blockattach.platform import errors
from lab.simulation import base
from lab.simulation import deployment

SILENT_SECONDS = 45
LONG = 3600


class PlacingTestCase(base.ScenarioTestCase):

    CLOUD = {'apart': True}

    def create(self):
        answer = self.api.ask('POST', '/volumes', {'volume': {'size': 1}})
        self.assertEqual(202, answer.status)
        return answer.body['volume']['id']

    def made_on(self, volume):
        self.assertEqual('available', self.api.settled(volume))
        return self.api.shown(volume)['os-vol-host-attr:host'].partition('@')[0]

    def pools(self):
        return {pool['name'].partition('@')[0]: pool['capabilities'] for pool in self.api.sure(
            (200,), 'GET', '/scheduler-stats/get_pools?detail=true')['pools']}

    def of_each(self, word):
        return {host: pool[word] for host, pool in self.pools().items()}

    def states(self, of='state'):
        return {one['host'].partition('@')[0]: one[of] for one in self.api.sure(
            (200,), 'GET', '/os-services?binary=cinder-volume')['services']}


class SilenceTest(PlacingTestCase):

    def test_a_backend_that_is_silent_counts_as_down_everywhere(self):
        self.cloud.pause('volume-1')
        self.cloud.pass_time(SILENT_SECONDS)
        down = {'storage-1': 'down', 'storage-2': 'up'}
        self.assertEqual((down, down), (self.states(), self.of_each('backend_state')))
        for _ in range(3):
            self.assertEqual('storage-2', self.made_on(self.create()))
        self.cloud.resume('volume-1')
        self.cloud.pass_time(1)
        up = dict.fromkeys(down, 'up')
        self.cloud.until(lambda: (self.states(), self.of_each('backend_state')) == (up, up))

    def test_a_backend_without_the_database_counts_as_down(self):
        self.cloud.partition('volume-1', bus=False)
        self.cloud.pass_time(SILENT_SECONDS)
        self.assertEqual({'storage-1': 'down', 'storage-2': 'up'}, self.states())
        self.cloud.heal('volume-1')
        self.cloud.until(lambda: set(self.states().values()) == {'up'})


class TargetTest(PlacingTestCase):
    """Target in the kernel, which has no process to watch."""

    UP = {'storage-1': 'up', 'storage-2': 'up'}
    WRONG = 'the target does not answer'

    def test_a_backend_whose_target_does_not_answer_counts_as_down(self):
        self.assertEqual((self.UP, [None]), (self.states('backend_state'), self.found()))
        self.cloud.fail('volume-1', 'backend.target.exports.before',
                        errors.BackendUncertain(reason='no answer'), always=True)
        self.cloud.pass_time(2 * deployment.RECONCILE_SECONDS)
        down = self.UP | {'storage-1': 'down'}
        self.assertEqual((self.UP, down, down), (
            self.states(), self.states('backend_state'), self.of_each('backend_state')))
        self.assertEqual((self.WRONG, [self.WRONG]), (
            self.pools()['storage-1']['backend_state_reason'], self.found()))
        for _ in range(3):
            self.assertEqual('storage-2', self.made_on(self.create()))
        self.cloud.disarm('volume-1')
        self.cloud.pass_time(2 * deployment.RECONCILE_SECONDS)
        self.assertEqual((self.UP, [None]), (self.states('backend_state'), self.found()))
        self.assertNotIn('backend_state_reason', self.pools()['storage-1'])

    def found(self):
        """Return the findings of the backend check for health and metrics."""
        monitor = self.cloud.parts['volume-1'].base.monitor
        monitor.look()
        return [wrong for name, wrong in monitor.findings().items() if name.startswith('backend ')]


class ChangesTest(PlacingTestCase):
    """Reports after changes, without periodic ones."""

    CLOUD = {'apart': True,
             'settings': (('volume', 'backend_stats_polling_interval', LONG),
                          ('scheduler', 'scheduler_default_weighers', 'allocated:-1.0'))}

    def test_a_manager_dies_while_volumes_are_made(self):
        """The claimed space is released, and another backend creates the volumes."""
        self.cloud.pause('volume-1')
        asked = [self.create() for _ in range(4)]
        self.cloud.until(lambda: self.of_each('allocated_capacity_gb')['storage-1'])
        self.cloud.kill('volume-1')
        self.assertEqual({'storage-2'}, {self.made_on(one) for one in asked})
        self.assertEqual({'storage-1': 0, 'storage-2': 4}, self.of_each('allocated_capacity_gb'))

    def test_a_scheduler_dies_while_volumes_are_placed(self):
        place = 'scheduler.flows.after_claim'
        self.cloud.kill('scheduler-2')
        self.cloud.kill('scheduler-1', at=place)
        asked = self.create()
        self.cloud.until_at('scheduler-1', place)
        self.cloud.start('scheduler-2')
        self.made_on(asked)
        self.assertEqual(1, sum(self.of_each('allocated_capacity_gb').values()))

    def test_a_report_follows_each_change_and_outlives_a_restart(self):
        before = self.of_each('provisioned_capacity_gb')
        volume = self.create()
        host = self.made_on(volume)
        self.until_reported(host, before[host] + 1)
        self.assertEqual(202, self.api.ask('DELETE', f'/volumes/{volume}').status)
        self.until_reported(host, before[host])
        # The restarted schedulers know no report, and the managers have no change to report.
        reported = self.of_each('timestamp')
        for name in ('scheduler-1', 'scheduler-2'):
            self.cloud.kill(name)
        self.cloud.start('scheduler-1')
        [other] = set(reported) - {self.made_on(self.create())}
        self.assertEqual(reported[other], self.of_each('timestamp')[other])

    def until_reported(self, host, size):
        self.cloud.until(lambda: self.of_each('provisioned_capacity_gb')[host] == size)
