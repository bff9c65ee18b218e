"""Filters of pools, and the texts of their refusals."""
import math
import unittest

from blockattach.storage.domain import placement
from blockattach.storage.domain import pools
from blockattach.tests.unit.scheduler import samples

THIN = {'thin': True, 'total_gb': 10.0, 'limit_gb': 200.0, 'free_gb': 10.0}

ROWS = (
    # filter, what is asked, the pool, words of the reason (None: it passes)
    ('alive', {}, {}, None),
    ('alive', {}, {'up': False}, 'down, disabled'),
    ('alive', {}, {'capabilities': {'backend_state': 'up'}}, None),
    ('alive', {}, {'capabilities': {'backend_state': 'down'}}, 'backend is down'),
    ('alive', {}, {'capabilities': {'backend_state': 'down',
                                    'backend_state_reason': 'its pool is full'}}, 'pool is full'),
    ('source', {}, {}, None),
    ('source', {'facts': pools.Facts(source_host='h@b')}, {}, None),
    ('source', {'facts': pools.Facts(source_host='h@other')}, {}, 'of the volume is on h@other'),
    ('source', {'facts': pools.Facts(source_host='h@b2')}, {}, 'of the volume is on h@b2'),
    ('source', {'facts': pools.Facts(source_host='')}, {}, 'the volume no longer exists'),
    ('tried', {}, {}, None),
    ('tried', {'tried': ('h@b#other',)}, {}, None),
    ('tried', {'tried': ('h@b#other', 'h@b#p')}, {}, 'an earlier attempt on the pool failed'),
    ('capabilities', {'extra_specs': {'tier': 'gold'}}, {'capabilities': {'tier': 'gold'}}, None),
    ('capabilities', {'extra_specs': {'tier': 'gold'}}, {'capabilities': {'tier': 'tin'}},
     'capability tier is tin'),
    ('availability', {}, {}, None),
    ('availability', {'availability_zone': 'nova'}, {}, None),
    ('availability', {'availability_zone': 'north'}, {}, 'zone nova, not north'),
    ('multiattach', {}, {'multiattach': False}, None),
    ('multiattach', {'multiattach': True}, {'multiattach': True}, None),
    ('multiattach', {'multiattach': True}, {'multiattach': False}, 'not supported'),
    # Thick: what was given away counts, up to the last GiB.
    ('capacity', {'size_gb': 100}, {}, None),
    ('capacity', {'size_gb': 101}, {}, '100 GiB left, 101 GiB'),
    ('capacity', {'size_gb': 40}, {'allocated_gb': 60}, None),
    ('capacity', {'size_gb': 41}, {'allocated_gb': 60}, '40 GiB left, 41 GiB'),
    ('capacity', {'size_gb': 1}, {'allocated_gb': 120}, '0 GiB left'),
    ('capacity', {'size_gb': 10}, {'limit_gb': 9.5}, '9.5 GiB left'),
    # No limit known: the backend decides.
    ('capacity', {'size_gb': 10 ** 6},
     {'total_gb': math.inf, 'free_gb': math.inf, 'limit_gb': math.inf}, None),
    # Thin: over-subscribed, counting what strangers provisioned, and never on a full disk.
    ('capacity', {'size_gb': 200}, THIN, None),
    ('capacity', {'size_gb': 201}, THIN, '200 GiB left'),
    ('capacity', {'size_gb': 101}, {**THIN, 'allocated_gb': 100}, '100 GiB left'),
    ('capacity', {'size_gb': 101}, {**THIN, 'provisioned_gb': 100.0}, '100 GiB left'),
    ('capacity', {'size_gb': 20}, {**THIN, 'free_gb': 1.0}, None),
    ('capacity', {'size_gb': 21}, {**THIN, 'free_gb': 1.0}, '1 GiB free on disk'),
    ('capacity', {'size_gb': 1}, {**THIN, 'free_gb': 0.0}, '0 GiB free on disk'),
    ('capacity', {'size_gb': 1}, {**THIN, 'limit_gb': 180.0, 'free_gb': 1.0,
                                  'capabilities': {'reserved_percentage': 10}},
     '1 GiB free on disk'),
)


class FilterTest(unittest.TestCase):
    def test_filter_passes_or_gives_reason(self):
        for name, asked, offered, words in ROWS:
            with self.subTest(filter=name, asked=asked, offered=offered):
                reason = placement.FILTERS[name](samples.request(**asked),
                                                 samples.pool(**offered))
                if words is None:
                    self.assertIsNone(reason)
                else:
                    self.assertIn(words, reason or 'it passed')

    def test_capacity_filter_agrees_with_report(self):
        report = {'total_capacity_gb': 100, 'free_capacity_gb': 30, 'provisioned_capacity_gb': 50,
                  'reserved_percentage': 10}
        room = pools.measure(report)
        pool = samples.pool(total_gb=room.total_gb, free_gb=room.free_gb, thin=room.thin,
                            provisioned_gb=room.provisioned_gb, limit_gb=room.limit_gb,
                            allocated_gb=50, capabilities=report)
        self.assertIsNone(placement.FILTERS['capacity'](samples.request(size_gb=20), pool))
        self.assertIn('20 GiB left', str(
            placement.FILTERS['capacity'](samples.request(size_gb=21), pool)))


class RefusalsTest(unittest.TestCase):
    def refusals(self, asked, *offered):
        return placement.refusals(samples.request(**asked), offered, placement.FILTERS)

    def test_no_refusals_with_suitable_pool(self):
        self.assertIsNone(self.refusals({}, samples.pool('h@b#down', up=False), samples.pool()))

    def test_refusals_have_reason_of_each_pool(self):
        self.assertEqual(
            {'h@b#down': 'the service is down, disabled or frozen',
             'h@b#one': 'multiattach is not supported'},
            self.refusals({'multiattach': True}, samples.pool('h@b#down', up=False),
                          samples.pool('h@b#one', multiattach=False)))

    def test_refusals_without_pools_are_empty(self):
        self.assertEqual({}, self.refusals({}))


class SummaryTest(unittest.TestCase):
    def test_summary_has_reason_of_each_pool(self):
        self.assertEqual('a: no room; b: asleep',
                         placement.summarise({'a': 'no room', 'b': 'asleep'}))

    def test_summary_without_pools(self):
        self.assertEqual('no pool has reported to the scheduler', placement.summarise({}))

    def test_summary_limited_to_twenty_pools(self):
        reasons = {f'p{number:02}': 'no' for number in range(25)}
        self.assertTrue(placement.summarise(reasons).endswith('p19: no; and 5 more'))
        self.assertIn('p24: no', placement.summarise(reasons, None))

    def test_user_text_has_each_reason_once_without_names(self):
        full, silent = samples.pool('h@b#full', limit_gb=0.0), samples.pool('h@b#x', up=False)
        reasons = placement.refusals(samples.request(), [full, silent, full], placement.FILTERS)
        self.assertEqual('not enough free space; out of service',
                         placement.in_words(reasons))
        self.assertEqual('no pool has reported to the scheduler', placement.in_words({}))

    def test_user_text_hides_reason_of_custom_filter(self):
        reasons = placement.refusals(samples.request(), [samples.pool()],
                                     {'theirs': lambda request, pool: f'{pool.name} is blue'})
        self.assertEqual({'h@b#p': 'h@b#p is blue'}, reasons)
        self.assertEqual('not suitable for the volume', placement.in_words(reasons))
        self.assertEqual('not suitable for the volume', placement.in_words({'a': 'bare'}))
