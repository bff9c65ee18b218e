"""JSON rendering of answers."""
import datetime
import unittest

from blockattach.platform.http import responses
from blockattach.tests.unit.http import tiny


class DumpsTest(unittest.TestCase):
    """Values as rendered in JSON, with six digits of a second and without a time zone."""

    def test_time_rendered_in_utc_with_microseconds(self):
        plain = datetime.datetime(2026, 11, 21, 0, 17, 51, 521304)
        for value, wanted in (
                (plain, b'"2026-11-21T00:17:51.521304"'),
                (plain.replace(microsecond=0), b'"2026-11-21T00:17:51.000000"'),
                (plain.replace(tzinfo=datetime.UTC), b'"2026-11-21T00:17:51.521304"'),
                (plain.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
                 b'"2026-11-20T22:17:51.521304"')):
            with self.subTest(value=value):
                self.assertEqual(wanted, responses.dumps(value))

    def test_record_not_rendered(self):
        for value in (tiny.Thing('a'), object(), b'bytes'):
            with self.subTest(value=value), self.assertRaises(TypeError):
                responses.dumps({'x': value})
