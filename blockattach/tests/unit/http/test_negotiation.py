"""Negotiation of versions by request headers."""
import functools
import unittest

from blockattach.platform import errors
from blockattach.platform.http import operation
from blockattach.platform.http.operation import V

VOLUME = operation.Range(V(3, 0), V(3, 71))
EXTENSION = operation.Range(V(1, 0), V(1, 2))


class NegotiationTest(unittest.TestCase):
    def setUp(self):
        self.negotiate = functools.partial(operation.negotiate, VOLUME, EXTENSION)

    def test_requested_versions_negotiated(self):
        for header, version, extension, answered in (
                (None, V(3, 0), None, 'volume 3.0'),
                ('', V(3, 0), None, 'volume 3.0'),
                ('volume 3.27', V(3, 27), None, 'volume 3.27'),
                ('  volume   3.27  ', V(3, 27), None, 'volume 3.27'),
                ('volume\t3.27,\tblockattach\t1.0', V(3, 27), V(1, 0),
                 'volume 3.27, blockattach 1.0'),
                ('volume latest', V(3, 71), None, 'volume 3.71'),
                ('compute 2.89', V(3, 0), None, 'volume 3.0'),
                ('compute nonsense,volume 3.9', V(3, 9), None, 'volume 3.9'),
                ('volume 3.9,volume 3.10', V(3, 9), None, 'volume 3.9'),
                ('volume 3.71, blockattach 1.1', V(3, 71), V(1, 1),
                 'volume 3.71, blockattach 1.1'),
                ('blockattach latest', V(3, 0), V(1, 2), 'volume 3.0, blockattach 1.2')):
            with self.subTest(header=header):
                for _ in range(2):  # the second time from what is kept
                    self.assertEqual((version, extension, answered), self.negotiate(header))

    def test_malformed_version_rejected(self):
        for header in ('volume', 'volume ', 'volume 3', 'volume 3.', 'volume .1', 'volume 3.1.1',
                       'volume 3.01', 'volume 0.1', 'volume three', 'volume 3.1 3.2',
                       'volume LATEST', 'volume 3.\u0663', 'volume 3.' + '9' * 5000,
                       'blockattach 1'):
            with self.subTest(header=header[:30]), self.assertRaises(errors.VersionInvalid):
                self.negotiate(header)

    def test_unsupported_version_not_acceptable(self):
        for header in ('volume 3.72', 'volume 2.0', 'volume 4.0', 'volume 3.999',
                       'blockattach 1.3', 'blockattach 2.0'):
            with self.subTest(header=header), self.assertRaises(errors.VersionNotAcceptable):
                self.negotiate(header)

    def test_not_acceptable_error_names_supported_versions(self):
        with self.assertRaises(errors.VersionNotAcceptable) as caught:
            self.negotiate('volume 3.72')
        self.assertEqual('Version 3.72 is not supported by the API. Minimum is 3.0 and maximum '
                         'is 3.71.', str(caught.exception))
