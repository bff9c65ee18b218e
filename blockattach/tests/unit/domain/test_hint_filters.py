"""Filters of pools by the scheduler hints of clients."""
import unittest

from blockattach.storage.domain import hint_filters
from blockattach.storage.domain import pools
from blockattach.tests.unit.scheduler import samples

HERE = '11111111-1111-4111-8111-111111111111'
THERE = '22222222-2222-4222-8222-222222222222'
NOWHERE = '33333333-3333-4333-8333-333333333333'
PLACED = {HERE: 'h@b#p', THERE: 'h@b#other'}
AT_H = {'server_host': 'h'}

ROWS = (
    # filter, hints, other facts, words of the reason (None: it passes)
    ('same_backend', {}, {}, None),
    ('same_backend', {'same_host': []}, {}, None),
    ('same_backend', {'different_host': [HERE]}, {}, None),
    ('same_backend', {'same_host': HERE}, {}, None),
    ('same_backend', {'same_host': [HERE]}, {}, None),
    ('same_backend', {'same_host': [THERE, HERE]}, {}, None),
    ('same_backend', {'same_host': HERE.replace('-', '')}, {}, None),
    ('same_backend', {'same_host': THERE}, {}, 'does not contain a volume'),
    ('same_backend', {'same_host': [NOWHERE]}, {}, 'does not contain a volume'),
    ('same_backend', {'same_host': 'web'}, {}, 'contains an invalid volume ID'),
    ('same_backend', {'same_host': [HERE, 'web']}, {}, 'contains an invalid volume ID'),
    ('same_backend', {'same_host': [HERE, 5]}, {}, 'contains an invalid volume ID'),
    ('same_backend', {'same_host': {'id': HERE}}, {}, 'contains an invalid volume ID'),
    ('same_backend', {'same_host': None}, {}, 'contains an invalid volume ID'),
    ('different_backend', {}, {}, None),
    ('different_backend', {'different_host': []}, {}, None),
    ('different_backend', {'same_host': [HERE]}, {}, None),
    ('different_backend', {'different_host': THERE}, {}, None),
    ('different_backend', {'different_host': [NOWHERE]}, {}, None),
    ('different_backend', {'different_host': HERE}, {}, f'contains volume {HERE}'),
    ('different_backend', {'different_host': [THERE, HERE]}, {}, f'contains volume {HERE}'),
    ('different_backend', {'different_host': HERE.upper().replace('-', '')}, {},
     f'contains volume {HERE}'),
    ('different_backend', {'different_host': 'web'}, {}, 'contains an invalid volume ID'),
    ('different_backend', {'different_host': ['']}, {}, 'contains an invalid volume ID'),
    ('instance_locality', {}, AT_H, None),
    ('instance_locality', {'local_to_instance': ''}, {}, None),
    ('instance_locality', {'local_to_instance': HERE}, AT_H, None),
    ('instance_locality', {'local_to_instance': HERE}, {'server_host': 'h2'},
     'not on the host of the server'),
    ('instance_locality', {'local_to_instance': HERE}, {'server_host': 'h@b'},
     'not on the host of the server'),
    ('instance_locality', {'local_to_instance': HERE}, {'server_lost': 'Nova is away'},
     'Nova is away'),
    ('instance_locality', {'local_to_instance': HERE}, {}, 'is unknown'),
    ('instance_locality', {'local_to_instance': 'web'}, AT_H, 'contains an invalid server ID'),
    ('instance_locality', {'local_to_instance': [HERE]}, AT_H, 'contains an invalid server ID'),
    ('json', {}, {}, None),
    ('json', {'query': None}, {}, None),
    ('json', {'query': '["=", "$total_capacity_gb", 100]'}, {}, None),
    ('json', {'query': ['>', '$total_capacity_gb', 100]}, {}, 'hint query does not match'),
    ('json', {'query': '["like", 1]'}, {}, "is invalid: unknown operator 'like'"),
)


class FilterTest(unittest.TestCase):

    def test_filter_passes_or_gives_reason(self):
        for name, hints, facts, words in ROWS:
            with self.subTest(filter=name, hints=hints, facts=facts):
                reason = hint_filters.FILTERS[name](samples.request(facts=pools.Facts(
                    hints=hints, placed=PLACED, **facts)), samples.pool())
                if words is None:
                    self.assertIsNone(reason)
                else:
                    self.assertIn(words, reason or 'it passed')

    def test_rows_cover_each_filter(self):
        self.assertEqual(set(hint_filters.FILTERS), {name for name, *_ in ROWS})
