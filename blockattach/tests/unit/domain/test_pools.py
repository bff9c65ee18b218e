"""Capacity of a pool according to its report."""
import math
import unittest

from blockattach.storage.domain import pools


def limit(**capabilities):
    return pools.measure(capabilities).limit_gb


class GibTest(unittest.TestCase):

    def test_gib_parses_numbers_and_texts(self):
        for value, expected in ((5, 5.0), (5.25, 5.25), ('5.25', 5.25), (' infinite ', math.inf),
                                ('unknown', math.inf), ('UNKNOWN', math.inf), (0, 0.0)):
            with self.subTest(value=value):
                self.assertEqual(expected, pools.gib(value))

    def test_gib_of_invalid_value_is_default(self):
        for value in (None, 'much', [], math.nan, -1, '-3'):
            with self.subTest(value=value):
                self.assertEqual(0.0, pools.gib(value))
                self.assertEqual(7.0, pools.gib(value, 7.0))


class MeasureTest(unittest.TestCase):

    def test_thick_pool_limit_without_reserved_and_foreign_use(self):
        # total, free, provisioned, kept %: limit
        table = (
            (100, 100, 0, 0, 100), (100, 60, 40, 0, 100), (100, 60, 20, 0, 80),
            (100, 100, 0, 10, 90), (100, 50, 20, 10, 60), (100, 0, 0, 0, 0),
            (100, 60, 90, 0, 100), (0, 0, 0, 0, 0), (100, 10, 0, 100, 0))
        for total, free, provisioned, kept, expected in table:
            with self.subTest(total=total, free=free, provisioned=provisioned, kept=kept):
                self.assertEqual(expected, limit(
                    total_capacity_gb=total, free_capacity_gb=free,
                    provisioned_capacity_gb=provisioned, reserved_percentage=kept))

    def test_thin_pool_limit_is_unreserved_size_times_ratio(self):
        for ratio, kept, expected in ((20.0, 0, 2000), (1.5, 50, 75), ('2', 0, 200),
                                      (None, 0, 100), ('auto', 0, 2000), (0.5, 0, 100)):
            with self.subTest(ratio=ratio, kept=kept):
                self.assertEqual(expected, limit(
                    total_capacity_gb=100, free_capacity_gb=1, thin_provisioning_support=True,
                    max_over_subscription_ratio=ratio, reserved_percentage=kept))

    def test_infinite_pool_has_no_limit(self):
        for word in ('infinite', 'unknown'):
            self.assertEqual(math.inf, limit(total_capacity_gb=word, free_capacity_gb=word))
            self.assertEqual(math.inf, limit(total_capacity_gb=10, free_capacity_gb=word))

    def test_empty_report_has_no_capacity(self):
        self.assertEqual(pools.Capacity(0.0, 0.0, 0.0, 0.0, False), pools.measure({}))

    def test_measure_keeps_reported_values(self):
        self.assertEqual(
            pools.Capacity(100.0, 60.0, 20.0, 80.0, False),
            pools.measure({'total_capacity_gb': '100', 'free_capacity_gb': 60,
                           'provisioned_capacity_gb': 20.0}))


class NamesTest(unittest.TestCase):

    def test_host_of_pool(self):
        pool = pools.Pool(1, 1, 0, 1, False, 'node-1@lvm_1#gold', 'nova', 0, True, {})
        self.assertEqual('node-1@lvm_1', pool.host)
