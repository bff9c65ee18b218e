"""Times and sets as the API prints them, and what is never printed."""
import datetime
import unittest

from blockattach.platform.http import responses
from blockattach.tests.unit.http import tiny


class DumpsTest(unittest.TestCase):
    """Clients parse these with six digits and without a zone."""

    def test_times(self):
        plain = datetime.datetime(2026, 11, 21, 0, 17, 51, 521304)
        for value, wanted in (
                (plain, b'"2026-11-21T00:17:51.521304"'),
                (plain.replace(microsecond=0), b'"2026-11-21T00:17:51.000000"'),
                (plain.replace(tzinfo=datetime.UTC), b'"2026-11-21T00:17:51.521304"'),
                (plain.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
                 b'"2026-11-20T22:17:51.521304"')):
            with self.subTest(value=value):
                self.assertEqual(wanted, responses.dumps(value))

    def test_a_record_is_never_printed_whole(self):
        for value in (tiny.Thing('a'), object(), b'bytes'):
            with self.subTest(value=value), self.assertRaises(TypeError):
                responses.dumps({'x': value})
