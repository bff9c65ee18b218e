"""QoS specs for the consumer of a volume of a given size."""
import unittest

from blockattach.platform import errors
from blockattach.storage.domain import qos

PER_GB = {
    'write_iops_sec_per_gb_min': '800', 'write_iops_sec_per_gb': '30',
    'read_iops_sec_per_gb_min': '23100', 'read_iops_sec_per_gb': '7700',
    'total_iops_sec_per_gb_min': '900000', 'total_iops_sec_per_gb': '300000',
    'total_iops_sec_max': '15000000', 'read_bytes_sec_per_gb': '10'}


class ForConsumerTest(unittest.TestCase):

    def test_specs_returned_for_front_end_consumer(self):
        specs = {'total_iops_sec': '500'}
        for consumer, expected in (('front-end', specs), ('both', specs), ('back-end', None)):
            self.assertEqual(expected, qos.for_consumer(consumer, specs, 1))
        self.assertEqual({}, qos.for_consumer('both', {}, 1))

    def test_small_volume_gets_minimum(self):
        self.assertEqual(
            {'write_iops_sec': 800, 'read_iops_sec': 23100, 'total_iops_sec': 900000,
             'read_bytes_sec': 10}, qos.for_consumer('front-end', PER_GB, 1))

    def test_large_volume_gets_maximum(self):
        self.assertEqual(
            {'write_iops_sec': 3000, 'read_iops_sec': 770000, 'total_iops_sec': 15000000,
             'read_bytes_sec': 1000}, qos.for_consumer('both', PER_GB, 100))

    def test_maximum_overrides_minimum(self):
        self.assertEqual({'total_iops_sec': 5}, qos.for_consumer('both', {
            'total_iops_sec_per_gb': '1', 'total_iops_sec_per_gb_min': '10',
            'total_iops_sec_max': '5'}, 1))

    def test_per_gib_spec_overrides_plain_spec(self):
        self.assertEqual({'read_bytes_sec': 30}, qos.for_consumer(
            'both', {'read_bytes_sec': '7', 'read_bytes_sec_per_gb': '10'}, 3))

    def test_specs_without_per_gib_unchanged(self):
        specs = {'total_iops_sec_max': '9', 'total_iops_sec': '3', 'size_iops_sec': '4096',
                 'read_iops_sec_per_gb_min': '5', 'mine': None, 'mine_per_gb': 'x'}
        self.assertEqual(specs, qos.for_consumer('front-end', specs, 10))

    def test_given_specs_not_modified(self):
        specs = dict(PER_GB)
        qos.for_consumer('both', specs, 2)
        self.assertEqual(PER_GB, specs)


class CheckTest(unittest.TestCase):

    def test_check_accepts_numbers(self):
        qos.check({**PER_GB, 'mine_per_gb': 'x', 'total_iops_sec': '1k', 'read_iops_sec': None})

    def test_check_rejects_non_numbers(self):
        for value in ('x', '', '-1', '1.5', '1k', None, '9' * 19, '\u0661'):
            for key in ('total_iops_sec_per_gb', 'read_bytes_sec_per_gb_min',
                        'write_iops_sec_max'):
                with self.subTest(key=key, value=value), \
                        self.assertRaisesRegex(errors.InvalidInput, f'{key} must be'):
                    qos.check({key: value})
