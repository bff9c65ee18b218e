"""Interface of scenarios: faults happen at the requested moment, on virtual time.

A story fails if it violates an invariant, or if a planned fault did not happen.
"""
import unittest
from typing import Any

from lab.simulation import base
from lab.simulation import clients
from lab.simulation import cloud as clouds
from lab.simulation import deployment

GRANTED = 'volume.attachments.after_grant'
LEASE_SECONDS = deployment.BACKEND_SECONDS


class ProcessesTest(base.ScenarioTestCase):

    def test_process_killed_at_failpoint_resumes_in_next_instance(self):
        made = self.api.reserve(self.api.volume())
        self.cloud.kill('volume-1', at=GRANTED)
        asked = self.cloud.beside(self.api.connect, made)
        self.cloud.until_at('volume-1', GRANTED)
        self.assertIsNone(self.cloud.parts['volume-1'].serving)
        self.assertFalse(asked.ended)
        self.cloud.start('volume-1')
        asked.result()
        self.cloud.pass_time(LEASE_SECONDS)
        self.assertEqual('attaching', self.api.status(made))

    def test_kill_without_failpoint_takes_effect_at_once(self):
        volume = self.api.volume()
        self.cloud.kill('volume-1')
        self.assertIsNone(self.cloud.parts['volume-1'].serving)
        asked = self.cloud.beside(self.api.attach, volume)
        self.cloud.pass_time(2)
        self.assertFalse(asked.ended)
        self.cloud.start('volume-1')
        self.assertEqual('attaching', self.api.status(asked.result()))

    def test_paused_process_idle_until_resumed(self):
        volume = self.api.volume()
        self.cloud.pause('volume-1')
        before = len(self.cloud.passed['volume-1'])
        asked = self.cloud.beside(self.api.attach, volume)
        self.cloud.pass_time(5)
        self.assertEqual(before, len(self.cloud.passed['volume-1']))
        self.assertEqual((), self.cloud.world.storage.target.exports())
        self.cloud.resume('volume-1')
        self.assertEqual('attaching', self.api.status(asked.result()))

    def test_process_paused_at_failpoint_waits_there(self):
        made = self.api.reserve(self.api.volume())
        self.cloud.pause('volume-1', at=GRANTED)
        asked = self.cloud.beside(self.api.connect, made)
        self.cloud.until_at('volume-1', GRANTED)
        self.assertEqual(1, len(self.cloud.world.storage.target.exports()))
        self.cloud.pass_time(2)
        self.assertFalse(asked.ended)
        self.cloud.resume('volume-1')
        self.assertEqual(200, asked.result().status)

    def test_stopped_process_finishes_running_work(self):
        made = self.api.reserve(self.api.volume())
        self.cloud.backend.delay('grant', 3)
        asked = self.cloud.beside(self.api.connect, made)
        self.cloud.pass_time(1)
        self.assertTrue(self.cloud.stop('volume-1'))
        self.assertEqual(200, asked.result().status)

    def test_stop_beyond_timeout_kills_process(self):
        made = self.api.reserve(self.api.volume())
        self.cloud.backend.delay('grant', 10)
        self.cloud.beside(self.api.connect, made)
        self.cloud.pass_time(1)
        self.assertFalse(self.cloud.stop('volume-1', timeout=2))
        self.assertTrue(self.cloud.parts['volume-1'].process.dead)


class ServersTest(base.ScenarioTestCase):

    def reserved(self):
        return self.api.reserve(self.api.volume())

    def granted(self):
        return self.cloud.world.storage.target.faults.calls.get('grant', 0)

    def test_lost_request_sent_again_by_client(self):
        made = self.reserved()
        self.cloud.bus.lose('connect')
        begun = self.cloud.baton.now
        self.assertEqual(200, self.api.connect(made).status)
        self.assertGreater(self.cloud.baton.now - begun, 1)
        self.assertEqual(1, self.granted())

    def test_lost_reply_requested_again(self):
        made = self.reserved()
        self.cloud.bus.lose_reply('connect')
        self.assertEqual(200, self.api.connect(made).status)

    def test_repeated_request_executed_once(self):
        made = self.reserved()
        self.cloud.bus.repeat('connect')
        self.assertEqual(200, self.api.connect(made).status)
        self.assertEqual('attaching', self.api.status(made))

    def test_late_request_after_repeat_grants_nothing(self):
        made = self.reserved()
        self.cloud.bus.delay('connect', 30)
        self.assertEqual(200, self.api.connect(made).status)
        self.api.detach(made)
        self.cloud.pass_time(60)
        self.assertEqual([], [export.grants
                              for export in self.cloud.world.storage.target.exports()])

    def test_process_partitioned_from_bus_receives_nothing_until_healed(self):
        made = self.reserved()
        self.cloud.partition('volume-1', database=False)
        asked = self.cloud.beside(self.api.connect, made)
        self.cloud.pass_time(3)
        self.assertEqual(0, self.granted())
        self.cloud.heal('volume-1')
        self.assertEqual(200, asked.result().status)

    def test_api_without_database_answers_503(self):
        for name in ('api-1', 'api-2'):
            self.cloud.partition(name, bus=False)
        answer = self.api.ask('POST', '/volumes', {'volume': {'size': 1}})
        self.assertEqual(503, answer.status)
        self.cloud.heal('api-1')
        self.cloud.heal('api-2')
        self.assertEqual(202, self.api.ask('POST', '/volumes', {'volume': {'size': 1}}).status)

    def test_backend_refusal_and_lost_answer_reported(self):
        made = self.reserved()
        self.cloud.backend.refuse('grant')
        self.assertEqual(500, self.api.connect(made).status)
        self.cloud.backend.lose_answer('grant')
        self.assertEqual(504, self.api.connect(made).status)
        self.cloud.pass_time(LEASE_SECONDS * 2)
        self.assertEqual('attaching', self.api.status(made))


class JudgedTest(unittest.TestCase):
    """Checks that make a story fail whatever it asserts itself."""

    def wrong(self, cloud, story):
        with self.assertRaises(AssertionError) as caught:
            cloud.tell(story)
        return str(caught.exception)

    def test_unused_faults_fail_story(self):
        cloud = clouds.Cloud()

        def story():
            cloud.kill('volume-1', at=GRANTED)
            cloud.bus.lose('connect')
        self.assertEqual(f"did not happen: ['volume-1 at {GRANTED}', 'lost_message of connect']",
                         self.wrong(cloud, story))

    def test_missing_revoke_fails_story(self):
        cloud = clouds.Cloud()
        target: Any = cloud.world.storage.target
        target.revoke = lambda volume_id, initiator: None
        said = self.wrong(cloud, lambda: cloud.api.detach(cloud.api.attach(cloud.api.volume())))
        self.assertIn('P7 nobody_else_is_granted', said)

    def test_volume_unknown_to_clients_fails_story(self):
        cloud = clouds.Cloud()

        def story():
            # The request bypasses the client, so no client knows the volume.
            cloud.consumers.ask('POST', '/volumes', {'volume': {'size': 1}})
        self.assertIn('P2 nobody_is_forgotten', self.wrong(cloud, story))

    def test_wait_for_false_condition_fails_story(self):
        cloud = clouds.Cloud()
        self.assertEqual('never came about: it is so',
                         self.wrong(cloud, lambda: cloud.until(lambda: False)))

    def test_trace_of_story_determined_by_seed(self):
        def trace(seed):
            cloud = clouds.Cloud(seed, clustered=True)

            def story():
                volume = cloud.api.volume()
                cloud.kill('volume-2')
                for host in clients.HOSTS:
                    cloud.api.attach(volume, host)
            cloud.tell(story)
            return cloud.trace
        self.assertEqual(trace(1), trace(1))
        self.assertNotEqual(trace(1), trace(2))
