"""Filter and goodness functions of backends, and weighers by volume number and by chance."""
import collections
import unittest
import uuid

from blockattach.storage.domain import pools
from blockattach.storage.scheduler import pipeline
from blockattach.storage.scheduler import plugins
from blockattach.tests.unit.scheduler import samples

FACTS = pools.Facts(volume={'display_name': 'web'}, qos={'maxIOPS': '500'})
LOGGER = plugins.__name__

ALLOWED = (
    # filter_function, words of the reason (None: it passes), whether the operator is warned
    (None, None, False),
    ('volume.size < 10', None, False),
    ('volume.size > 10', 'rejects the volume', False),
    ('stats.free_capacity_gb >= 100 and capabilities.tier == gold', None, False),
    ('stats.allocated_capacity_gb > 0', 'rejects the volume', False),
    ('extra.tier == capabilities.tier', None, False),
    ('qos.maxIOPS <= 500 & volume.display_name == web', None, False),
    ('capabilities.absent > 1', 'cannot be evaluated', True),
    ('volume.size <', 'cannot be evaluated', True),
    (5, None, False),
    (0, 'rejects the volume', False),
)

GOODNESS = (
    # goodness_function, how good, whether the operator is warned
    (None, 0, False), ('55', 55, False), ('volume.size < 5 ? 100 : 50', 100, False),
    ('volume.size == 1', 100, False), ('volume.size == 2', 0, False),
    ('0', 0, False), ('100', 100, False), ('101', 0, True), ('0 - 1', 0, True),
    ('good', 0, True), ('volume.absent', 0, True), ('(', 0, True),
)


class FunctionsTest(unittest.TestCase):

    def found(self, apply, name, function, warned):
        properties = {'tier': 'gold', **({} if function is None else {name: function})}
        request = samples.request(facts=FACTS, extra_specs={'tier': 'gold'})
        pool = samples.pool(capabilities=properties)
        if not warned:
            with self.assertNoLogs(LOGGER, 'WARNING'):
                return apply(request, pool)
        with self.assertLogs(LOGGER, 'WARNING') as logged:
            found = apply(request, pool)
        self.assertIn(f'function={name}', logged.output[0])
        self.assertIn('pool=h@b#p', logged.output[0])
        return found

    def test_driver_filter_by_filter_function(self):
        for function, words, warned in ALLOWED:
            with self.subTest(function):
                reason = self.found(plugins.FILTERS['driver'], 'filter_function', function, warned)
                if words is None:
                    self.assertIsNone(reason)
                else:
                    self.assertIn(words, reason or 'it passed')

    def test_goodness_weigher_by_goodness_function(self):
        for function, good, warned in GOODNESS:
            with self.subTest(function):
                self.assertEqual(good, self.found(
                    plugins.WEIGHERS['goodness'], 'goodness_function', function, warned))


class RankTest(unittest.TestCase):

    def first(self, weigher, multiplier, *offered, **asked):
        return pipeline.choose(samples.request(**asked), offered, {}, plugins.load_weighers(
            [(weigher, multiplier)])).accepted[0].name

    def test_goodness_weigher_ranks_best_first(self):
        offered = [samples.pool(f'h@b#{good}', capabilities={'goodness_function': str(good)})
                   for good in (20, 70, 50)]
        self.assertEqual('h@b#70', self.first('goodness', 1.0, *offered))
        self.assertEqual('h@b#20', self.first('goodness', -1.0, *offered))

    def test_volume_number_weigher_ranks_fewest_first(self):
        offered = [samples.pool(f'h@b#{name}') for name in 'abc']
        facts = pools.Facts(volumes={'h@b#a': 5, 'h@b#b': 2, 'h@b#c': 9})
        self.assertEqual('h@b#b', self.first('volume_number', -1.0, *offered, facts=facts))
        self.assertEqual('h@b#c', self.first('volume_number', 1.0, *offered, facts=facts))
        self.assertEqual('h@b#c', self.first(
            'volume_number', -1.0, *offered, facts=pools.Facts(volumes={'h@b#a': 1, 'h@b#b': 1})))

    def test_chance_weigher_fair_and_repeatable(self):
        offered = [samples.pool(f'h@b#{name}') for name in 'abc']
        # Names in a fixed order: what is drawn here never changes.
        ids = [str(uuid.uuid5(uuid.NAMESPACE_OID, str(number))) for number in range(600)]
        drawn = [self.first('chance', 1.0, *offered, volume_id=volume_id) for volume_id in ids]
        self.assertEqual(drawn, [self.first('chance', 1.0, *reversed(offered), volume_id=one)
                                 for one in ids])
        counts = collections.Counter(drawn)
        self.assertEqual(3, len(counts))
        self.assertGreater(min(counts.values()), 150)
