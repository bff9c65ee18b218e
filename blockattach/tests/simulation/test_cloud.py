"""The interface of scenarios: what a story asks for happens, then and there, and never by the wall
clock; and a story that was violated, or was another one, fails.
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

    def test_one_killed_at_a_place_goes_on_with_it_in_its_next_instance(self):
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

    def test_one_killed_without_a_place_is_gone_at_once(self):
        volume = self.api.volume()
        self.cloud.kill('volume-1')
        self.assertIsNone(self.cloud.parts['volume-1'].serving)
        asked = self.cloud.beside(self.api.attach, volume)
        self.cloud.pass_time(2)
        self.assertFalse(asked.ended)
        self.cloud.start('volume-1')
        self.assertEqual('attaching', self.api.status(asked.result()))

    def test_one_that_is_paused_does_nothing_until_it_is_resumed(self):
        volume = self.api.volume()
        self.cloud.pause('volume-1')
        before = len(self.cloud.passed['volume-1'])
        asked = self.cloud.beside(self.api.attach, volume)
        self.cloud.pass_time(5)
        self.assertEqual(before, len(self.cloud.passed['volume-1']))
        self.assertEqual((), self.cloud.world.storage.target.exports())
        self.cloud.resume('volume-1')
        self.assertEqual('attaching', self.api.status(asked.result()))

    def test_one_that_is_paused_at_a_place_stands_there(self):
        made = self.api.reserve(self.api.volume())
        self.cloud.pause('volume-1', at=GRANTED)
        asked = self.cloud.beside(self.api.connect, made)
        self.cloud.until_at('volume-1', GRANTED)
        self.assertEqual(1, len(self.cloud.world.storage.target.exports()))
        self.cloud.pass_time(2)
        self.assertFalse(asked.ended)
        self.cloud.resume('volume-1')
        self.assertEqual(200, asked.result().status)

    def test_one_that_is_stopped_ends_what_it_is_at(self):
        made = self.api.reserve(self.api.volume())
        self.cloud.backend.delay('grant', 3)
        asked = self.cloud.beside(self.api.connect, made)
        self.cloud.pass_time(1)
        self.assertTrue(self.cloud.stop('volume-1'))
        self.assertEqual(200, asked.result().status)

    def test_one_that_takes_too_long_to_stop_is_cut_off(self):
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

    def test_a_request_that_is_lost_is_sent_again_by_its_client(self):
        made = self.reserved()
        self.cloud.bus.lose('connect')
        begun = self.cloud.baton.now
        self.assertEqual(200, self.api.connect(made).status)
        self.assertGreater(self.cloud.baton.now - begun, 1)
        self.assertEqual(1, self.granted())

    def test_an_answer_that_is_lost_is_asked_for_again(self):
        made = self.reserved()
        self.cloud.bus.lose_reply('connect')
        self.assertEqual(200, self.api.connect(made).status)

    def test_a_request_that_comes_twice_is_done_once(self):
        made = self.reserved()
        self.cloud.bus.repeat('connect')
        self.assertEqual(200, self.api.connect(made).status)
        self.assertEqual('attaching', self.api.status(made))

    def test_a_request_that_comes_late_comes_after_its_repeat(self):
        made = self.reserved()
        self.cloud.bus.delay('connect', 30)
        self.assertEqual(200, self.api.connect(made).status)
        self.api.detach(made)
        self.cloud.pass_time(60)
        self.assertEqual([], [export.grants
                              for export in self.cloud.world.storage.target.exports()])

    def test_one_cut_from_the_bus_is_not_heard_until_it_is_healed(self):
        made = self.reserved()
        self.cloud.partition('volume-1', database=False)
        asked = self.cloud.beside(self.api.connect, made)
        self.cloud.pass_time(3)
        self.assertEqual(0, self.granted())
        self.cloud.heal('volume-1')
        self.assertEqual(200, asked.result().status)

    def test_an_api_that_is_cut_from_the_database_says_so(self):
        for name in ('api-1', 'api-2'):
            self.cloud.partition(name, bus=False)
        answer = self.api.ask('POST', '/volumes', {'volume': {'size': 1}})
        self.assertEqual(503, answer.status)
        self.cloud.heal('api-1')
        self.cloud.heal('api-2')
        self.assertEqual(202, self.api.ask('POST', '/volumes', {'volume': {'size': 1}}).status)

    def test_a_backend_that_refuses_or_gives_no_answer(self):
        made = self.reserved()
        self.cloud.backend.refuse('grant')
        self.assertEqual(500, self.api.connect(made).status)
        self.cloud.backend.lose_answer('grant')
        self.assertEqual(504, self.api.connect(made).status)
        self.cloud.pass_time(LEASE_SECONDS * 2)
        self.assertEqual('attaching', self.api.status(made))


class JudgedTest(unittest.TestCase):
    """What makes a scenario fail, whatever its own lines say."""

    def wrong(self, cloud, story):
        with self.assertRaises(AssertionError) as caught:
            cloud.tell(story)
        return str(caught.exception)

    def test_what_was_asked_for_and_did_not_happen(self):
        cloud = clouds.Cloud()

        def story():
            cloud.kill('volume-1', at=GRANTED)
            cloud.bus.lose('connect')
        self.assertEqual(f"did not happen: ['volume-1 at {GRANTED}', 'lost_message of connect']",
                         self.wrong(cloud, story))

    def test_a_target_that_revokes_nothing(self):
        cloud = clouds.Cloud()
        target: Any = cloud.world.storage.target
        target.revoke = lambda volume_id, initiator: None
        said = self.wrong(cloud, lambda: cloud.api.detach(cloud.api.attach(cloud.api.volume())))
        self.assertIn('P7 nobody_else_is_granted', said)

    def test_what_no_client_knows_of(self):
        cloud = clouds.Cloud()

        def story():
            # Past the client: nobody remembers what was answered.
            cloud.consumers.ask('POST', '/volumes', {'volume': {'size': 1}})
        self.assertIn('P2 nobody_is_forgotten', self.wrong(cloud, story))

    def test_a_wait_for_what_never_is(self):
        cloud = clouds.Cloud()
        self.assertEqual('never came about: it is so',
                         self.wrong(cloud, lambda: cloud.until(lambda: False)))

    def test_one_story_is_one_trace_and_another_seed_another_one(self):
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
