"""Versions, query strings and calls as values."""
import unittest

from blockattach import context
from blockattach import errors
from blockattach.http import operation
from blockattach.http.operation import V


class VersionTest(unittest.TestCase):
    """Numbers, not text."""

    def test_order_and_text(self):
        self.assertLess(V(3, 9), V(3, 27))
        self.assertEqual('3.27', str(V(3, 27)))

    def test_what_holds_at_a_version(self):
        table = {V(3, 54): 'new', V(3, 27): 'old'}
        for version, wanted in ((V(3, 26), None), (V(3, 27), 'old'), (V(3, 53), 'old'),
                                (V(3, 54), 'new'), (V(3, 71), 'new')):
            with self.subTest(version=version):
                self.assertEqual(wanted, operation.at_version(table, version))
        self.assertIsNone(operation.at_version(None, V(3, 71)))


class QueryTest(unittest.TestCase):
    """A name may come several times."""

    def setUp(self):
        self.query = operation.Query.parse('a=1&b=&a=2&c=%C3%A4')

    def test_reading(self):
        self.assertEqual(('2', '', None, 'x'), (
            self.query.get('a'), self.query.get('b'), self.query.get('d'),
            self.query.get('d', 'x')))
        self.assertEqual((['1', '2'], []), (self.query.all('a'), self.query.all('d')))
        self.assertEqual({'a': '2', 'b': '', 'c': 'ä'}, self.query.as_dict())
        self.assertEqual((True, False, 4), ('b' in self.query, 'd' in self.query,
                                            len(self.query)))

    def test_one_name_set_anew(self):
        self.assertEqual('b=&c=%C3%A4&a=3', self.query.replaced('a', '3'))
        self.assertEqual('c=%C3%A4&a=3', self.query.replaced('a', '3', 'b', 'zz'))

    def test_no_text(self):
        for text in ('a=%FF', 'a=%00'):
            with self.subTest(text=text), self.assertRaises(errors.InvalidInput):
                operation.Query.parse(text)


class CallTest(unittest.TestCase):
    """What a repeat is known by."""

    def call(self, **values):
        return operation.Call(context=context.RequestContext(overwrite=False), **values)

    def test_the_order_of_keys_makes_no_other_body(self):
        one = self.call(body={'a': 1, 'b': {'c': [1], 'd': None}})
        same = self.call(body={'b': {'d': None, 'c': [1]}, 'a': 1})
        other = self.call(body={'a': 1, 'b': {'c': [2], 'd': None}})
        self.assertEqual(one.body_digest, same.body_digest)
        self.assertNotEqual(one.body_digest, other.body_digest)

    def test_the_key_is_that_of_the_header(self):
        self.assertEqual('k', self.call(headers={'Idempotency-Key': 'k'}).idempotency_key)
        self.assertIsNone(self.call().idempotency_key)
