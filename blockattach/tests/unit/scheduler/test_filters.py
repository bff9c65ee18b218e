"""Loading of filters by their names."""
import unittest

from blockattach.platform import errors
from blockattach.storage.domain import placement
from blockattach.storage.scheduler import plugins


class LoadTest(unittest.TestCase):
    def test_filters_loaded_in_configured_order(self):
        loaded = plugins.load_filters(('capacity', 'alive'))
        self.assertEqual(['source', 'beside', 'capacity', 'alive'], list(loaded))
        self.assertIs(placement.FILTERS['alive'], loaded['alive'])

    def test_unknown_filter_rejected(self):
        with self.assertRaisesRegex(errors.ConfigurationError, 'cannot find CapacityFiltre'):
            plugins.load_filters(('CapacityFiltre',))
