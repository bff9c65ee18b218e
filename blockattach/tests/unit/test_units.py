"""Conversion of sizes."""
import unittest

from blockattach.platform import units


class UnitsTest(unittest.TestCase):

    def test_gib_to_bytes_exact(self):
        self.assertEqual(0, units.gib_to_bytes(0))
        self.assertEqual(1073741824, units.gib_to_bytes(1))
        self.assertEqual(2 ** 70, units.gib_to_bytes(2 ** 40))

    def test_bytes_to_gib_rounded_to_two_digits(self):
        self.assertEqual(1.5, units.bytes_to_gib(3 * 2 ** 29))
        self.assertEqual(0.33, units.bytes_to_gib(2 ** 30 // 3))
        self.assertEqual(0.0, units.bytes_to_gib(1))

    def test_whole_gib_equal_after_round_trip(self):
        for size in (1, 7, 4096):
            self.assertEqual(size, units.bytes_to_gib(units.gib_to_bytes(size)))
