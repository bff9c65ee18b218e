"""Pool queries of clients: operators, look-ups and errors."""
import json
import unittest

from blockattach.storage.domain import hint_filters
from blockattach.tests.unit.scheduler import samples

POOL = samples.pool('h@b#p', free_gb=60.0, allocated_gb=40, capabilities={
    'tier': 'gold', 'volume_backend_name': 'fast', 'free_capacity_gb': '60',
    'nested': {'inner': 5}, 'off': False, 'on': True})

ROWS = (
    # query, whether the pool matches
    ('', True), (None, True), ([], True),
    (['=', '$tier', 'gold'], True), (['=', '$tier', 'tin'], False),
    (['=', 1, 1, 1], True), (['=', 1, 1, 2], False),
    (['<', '$free_capacity_gb', 61], True), (['<', '$free_capacity_gb', 60], False),
    (['>', '$free_capacity_gb', 59], True), (['>', '$free_capacity_gb', 60], False),
    (['<=', '$free_capacity_gb', 60], True), (['<=', '$free_capacity_gb', 59], False),
    (['>=', '$free_capacity_gb', 60, 10], True), (['>=', '$free_capacity_gb', 60, 61], False),
    (['in', '$tier', 'tin', 'gold'], True), (['in', '$tier', 'tin'], False),
    (['not', ['=', '$tier', 'tin']], True), (['not', ['=', '$tier', 'gold']], False),
    (['not', '$on', '$off'], True), (['not', '$on'], False),
    (['or', ['=', 1, 2], ['=', '$tier', 'gold']], True), (['or', ['=', 1, 2]], False),
    (['and', ['=', 1, 1], ['=', '$tier', 'gold']], True),
    (['and', ['=', 1, 1], ['=', 1, 2]], False),
    # Where Cinder takes any list for true.
    (['and', ['not', ['=', 1, 1]]], False),
    # Look-ups.
    (['=', '$host', 'h@b#p'], True), (['=', '$capabilities.nested.inner', 5], True),
    (['=', '$nested.inner', 5], True), (['=', '$allocated_capacity_gb', 40], True),
    (['=', '$volume_backend_name', 'fast'], True),
    # What a pool does not report matches nothing.
    (['=', '$absent', 1], False), (['<', '$absent', 5, 10], False), (['=', 1], False),
    (['=', '$tier.inner', 1], False), (['not', ['=', '$absent', 1]], True),
    (['in', '$absent', '$absent'], False), (['='], False), (['in'], False),
    (['and', '$absent'], True), (['or', '$absent'], False), (['not', '$absent'], False),
)

WRONG = (
    # query, words of the error
    ('{', 'not valid JSON'), ('"text"', 'not a list'), ('5', 'not a list'),
    ({'a': 1}, 'not a list'),
    (['=='], "unknown operator '=='"), ([['=', 1, 1]], 'unknown operator'),
    ([1, 2], 'unknown operator'),
    (['<', '$tier', 5], 'cannot compare'), (['>', 'a', True], 'cannot compare'),
    ('[' * 100000, 'not valid JSON'),
)


class QueriesTest(unittest.TestCase):

    def test_query_matches_pool(self):
        for query, expected in ROWS:
            for given in (query, json.dumps(query)) if query else (query,):
                with self.subTest(given):
                    self.assertIs(expected, hint_filters.matches(given, POOL))

    def test_invalid_query_rejected(self):
        deep = ['=', 1, 1]
        for _ in range(30):
            deep = ['not', deep]
        for query, words in (*WRONG, (deep, 'nested lists')):
            with self.subTest(str(query)[:40]), \
                    self.assertRaises(hint_filters.QueryError) as caught:
                hint_filters.matches(query, POOL)
            self.assertIn(words, str(caught.exception))

    def test_rows_cover_each_operator(self):
        self.assertLessEqual(set(hint_filters.OPERATORS), {
            query[0] for query, _ in ROWS if query})
