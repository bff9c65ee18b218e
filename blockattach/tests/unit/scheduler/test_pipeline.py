"""Choice among pools: refusals with reasons, scores and order."""
import math
import unittest

from blockattach.platform import errors
from blockattach.storage.domain import placement
from blockattach.storage.scheduler import pipeline
from blockattach.storage.scheduler import plugins
from blockattach.tests.unit.scheduler import samples


def names(choice):
    return [pool.name for pool in choice.accepted]


class ChooseTest(unittest.TestCase):
    def test_refused_pool_has_first_reason(self):
        choice = pipeline.choose(
            samples.request(size_gb=500, availability_zone='north'),
            [samples.pool('h@b#one'), samples.pool('h@b#two', up=False),
             samples.pool('h@b#three', availability_zone='north', limit_gb=1000.0)],
            placement.FILTERS, [])
        self.assertEqual(['h@b#three'], names(choice))
        self.assertEqual([('h@b#three', None), ('h@b#one', 'availability'), ('h@b#two', 'alive')],
                         [(verdict.pool.name, verdict.refused_by) for verdict in choice.verdicts])
        self.assertEqual({'h@b#one': 'in availability zone nova, not north',
                          'h@b#two': 'the service is down, disabled or frozen'}, choice.reasons)

    def test_filters_called_until_first_refusal(self):
        asked = []

        def say(name, reason):
            return lambda request, pool: asked.append(name) or reason

        choice = pipeline.choose(
            samples.request(), [samples.pool()],
            {'first': say('first', None), 'second': say('second', 'no'),
             'third': say('third', None)}, [])
        self.assertEqual(['first', 'second'], asked)
        self.assertEqual('second', choice.verdicts[0].refused_by)

    def test_choice_without_pools_is_empty(self):
        choice = pipeline.choose(samples.request(), [], placement.FILTERS,
                                 plugins.load_weighers([('free_space', 1.0)]))
        self.assertEqual(((), {}), (choice.accepted, choice.reasons))

    def test_choice_independent_of_pool_order(self):
        offered = [samples.pool(f'h@b#{name}') for name in 'abc']
        self.assertEqual(
            names(pipeline.choose(samples.request(), offered, {}, [])),
            names(pipeline.choose(samples.request(), reversed(offered), {}, [])))


class ScoreTest(unittest.TestCase):
    def ranked(self, multipliers, *offered):
        choice = pipeline.choose(samples.request(), offered, {},
                                 plugins.load_weighers(multipliers))
        return [(verdict.pool.name, round(verdict.score, 6)) for verdict in choice.verdicts]

    def test_free_space_weigher_ranks_most_room_first(self):
        self.assertEqual(
            [('empty', 1.0), ('half', 0.5), ('full', 0.0)],
            self.ranked([('free_space', 1.0)], samples.pool('full', allocated_gb=100),
                        samples.pool('half', allocated_gb=50), samples.pool('empty')))

    def test_negative_multiplier_reverses_ranking(self):
        self.assertEqual(
            [('full', 0.0), ('half', -1.0), ('empty', -2.0)],
            self.ranked([('free_space', -2.0)], samples.pool('full', allocated_gb=100),
                        samples.pool('half', allocated_gb=50), samples.pool('empty')))

    def test_thin_pool_ranked_by_oversubscribed_room(self):
        thin = samples.pool('thin', thin=True, total_gb=10.0, free_gb=10.0, limit_gb=200.0)
        self.assertEqual(['thin', 'thick'], [name for name, _ in self.ranked(
            [('free_space', 1.0)], samples.pool('thick'), thin)])

    def test_infinite_pool_ranks_last(self):
        endless = samples.pool('a-endless', limit_gb=math.inf)
        for multiplier in (1.0, -1.0):
            with self.subTest(multiplier=multiplier):
                ranked = self.ranked([('free_space', multiplier)], endless,
                                     samples.pool('z-full', allocated_gb=100))
                self.assertEqual(['z-full', 'a-endless'], [name for name, _ in ranked])
        self.assertEqual([('a-endless', 0.0)], self.ranked([('free_space', 1.0)], endless))

    def test_allocated_weigher_ranks_least_allocated_first(self):
        self.assertEqual(
            ['little', 'much'],
            [name for name, _ in self.ranked(
                [('allocated', -1.0)], samples.pool('much', allocated_gb=9),
                samples.pool('little', allocated_gb=2))])

    def test_normalized_weighers_added(self):
        # 'a' has most room, 'b' has least given away; twice the weight decides.
        a = samples.pool('a', limit_gb=1000.0, allocated_gb=90)
        b = samples.pool('b', limit_gb=100.0, allocated_gb=10)
        self.assertEqual('a', self.ranked([('free_space', 2.0), ('allocated', -1.0)], a, b)[0][0])
        self.assertEqual('b', self.ranked([('free_space', 1.0), ('allocated', -2.0)], a, b)[0][0])

    def test_unknown_weigher_rejected(self):
        with self.assertRaisesRegex(errors.ConfigurationError, 'cannot find luck'):
            plugins.load_weighers([('luck', 1.0)])
