"""Filters by name, as an operator configures them."""
import unittest

from blockattach.platform import errors
from blockattach.storage.domain import placement
from blockattach.storage.scheduler import plugins


class LoadTest(unittest.TestCase):
    def test_own_filters_in_the_order_that_was_asked_for(self):
        loaded = plugins.load_filters(('capacity', 'alive'))
        self.assertEqual(['source', 'beside', 'capacity', 'alive'], list(loaded))
        self.assertIs(placement.FILTERS['alive'], loaded['alive'])

    def test_unknown_name_is_the_operators_mistake(self):
        with self.assertRaisesRegex(errors.ConfigurationError, 'cannot find CapacityFiltre'):
            plugins.load_filters(('CapacityFiltre',))
