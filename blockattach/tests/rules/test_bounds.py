"""Request bodies accept the same values as in Cinder, unless a reason is given."""
import unittest

from blockattach.tests.rules import sources


class BoundsTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.bounds = sources.load_tool('print_bounds')

    def test_each_difference_of_a_field_has_a_reason(self):
        for row in self.bounds.rows():
            if row.differs:
                with self.subTest(row.request, field=row.field, since=str(row.since)):
                    self.assertTrue(row.reason, (row.ours, row.peers))

    def test_each_reason_is_of_a_difference(self):
        used = {row.reason for row in self.bounds.rows() if row.differs}
        self.assertEqual({reason for _, _, reason in self.bounds.REASONS}, used)

    def test_first_microversion_of_each_request_is_that_of_cinder(self):
        differing = {name for name, ours, peers in self.bounds.first_versions() if ours != peers}
        self.assertEqual(set(self.bounds.FIRST_VERSIONS), differing)

    def test_bounds_of_a_schema_are_those_of_each_field(self):
        bounds = self.bounds.bounds
        self.assertEqual(
            {'': {'types': ['object'], 'required': ['a'], 'others': 'refused'},
             'a': {'types': ['null', 'string'], 'minLength': 1, 'maxLength': 5},
             'b': {'types': ['integer', 'null'], 'minimum': 0},
             'c': {'types': ['object'], 'required': [], 'others': 'some'},
             'c.*': {'types': ['string'], 'maxLength': 3}},
            bounds.of({
                'type': 'object', 'required': ['a'], 'additionalProperties': False,
                'properties': {
                    'a': {'type': ['string', 'null'], 'minLength': 1, 'maxLength': 5},
                    'b': {'oneOf': [{'type': 'null'}, {'type': 'integer', 'minimum': 0}]},
                    'c': {'type': 'object', 'additionalProperties': False, 'patternProperties': {
                        'x': {'type': 'string', 'minLength': 0, 'maxLength': 3}}}}}))
