"""Versions, query strings and calls as values."""
import unittest

from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform.http import operation
from blockattach.platform.http.operation import V


class VersionTest(unittest.TestCase):
    """Versions compared as numbers."""

    def test_version_ordered_numerically(self):
        self.assertLess(V(3, 9), V(3, 27))
        self.assertEqual('3.27', str(V(3, 27)))

    def test_at_version_returns_latest_entry(self):
        table = {V(3, 54): 'new', V(3, 27): 'old'}
        for version, wanted in ((V(3, 26), None), (V(3, 27), 'old'), (V(3, 53), 'old'),
                                (V(3, 54), 'new'), (V(3, 71), 'new')):
            with self.subTest(version=version):
                self.assertEqual(wanted, operation.at_version(table, version))
        self.assertIsNone(operation.at_version(None, V(3, 71)))


class QueryTest(unittest.TestCase):
    """Query strings, in which a name may occur several times."""

    def setUp(self):
        self.query = operation.read_query('a=1&b=&a=2&c=%C3%A4')

    def test_query_get_returns_last_value(self):
        self.assertEqual(('2', '', None, 'x'), (
            self.query.get('a'), self.query.get('b'), self.query.get('d'),
            self.query.get('d', 'x')))
        self.assertEqual({'a': '2', 'b': '', 'c': 'ä'}, dict(self.query))
        self.assertEqual((True, False), ('b' in self.query, 'd' in self.query))

    def test_next_link_replaces_marker_and_offset(self):
        for query, wanted in (
                ('a=1&b=&a=2&c=%C3%A4', 'a=1&b=&a=2&c=%C3%A4&marker=m'),
                ('marker=l&a=1&offset=2', 'a=1&marker=m')):
            with self.subTest(query):
                call = operation.Call(context=context.RequestContext(overwrite=False),
                                      query=operation.read_query(query))
                self.assertEqual(f'/v3?{wanted}', call.next_link('m'))

    def test_query_with_invalid_text_rejected(self):
        for text in ('a=%FF', 'a=%00'):
            with self.subTest(text=text), self.assertRaises(errors.InvalidInput):
                operation.read_query(text)


class CallTest(unittest.TestCase):
    """Identification of repeated calls by the idempotency key."""

    def named(self, key='k', **values):
        return operation.Call(context=context.RequestContext(overwrite=False),
                              headers={'Idempotency-Key': key} if key else {}, **values).named()

    def test_body_digest_ignores_key_order(self):
        one = self.named(body={'a': 1, 'b': {'c': [1], 'd': None}})
        same = self.named(body={'b': {'d': None, 'c': [1]}, 'a': 1})
        other = self.named(body={'a': 1, 'b': {'c': [2], 'd': None}})
        self.assertEqual(one, same)
        self.assertNotEqual(one.body_digest, other.body_digest)

    def test_scope_depends_on_idempotency_key(self):
        self.assertNotEqual(self.named('k').scope, self.named('l').scope)
        self.assertIsNone(self.named(None))
