"""Building of schemas, and messages of failed validation."""
import copy
import types
import unittest

from blockattach.platform import errors
from blockattach.platform.http import operation
from blockattach.platform.http import schema

UUID = '6f1b2f7e-4f0e-4c6e-9d3a-6b0d7c4a1e11'
INNER = schema.obj({'id': schema.UUID, 'connector': schema.obj({}, additional=True,
                                                               minProperties=1)}, ['id'])
BODY = schema.wrapped('thing', INNER)


class WritingTest(unittest.TestCase):
    """Functions that return a new schema and leave the given one unchanged."""

    def test_extend_keeps_given_schema(self):
        before = copy.deepcopy(BODY)
        new = schema.extend(BODY, {'mode': {'type': 'string'}}, ['mode'], at='thing')
        self.assertEqual(before, BODY)
        self.assertEqual(['id', 'mode'], new['properties']['thing']['required'])
        self.assertIn('mode', new['properties']['thing']['properties'])

    def test_extend_shares_unchanged_parts(self):
        new = schema.extend(BODY, {'mode': {'type': 'string'}}, at='thing')
        self.assertIs(INNER['properties']['connector'],
                      new['properties']['thing']['properties']['connector'])

    def test_extend_nested_object(self):
        new = schema.extend(schema.wrapped('outer', BODY), at='outer.thing',
                            additionalProperties=True)
        operation.checker(new)({'outer': {'thing': {'id': UUID, 'x': 1}}})

    def test_nullable_accepts_null(self):
        for one in ({'type': 'string'}, {'type': ['string', 'integer']},
                    {'type': 'string', 'enum': ['a']}):
            with self.subTest(one=one):
                operation.checker(schema.nullable(one))(None)


class CheckTest(unittest.TestCase):
    """Validation messages that clients read."""

    def reason(self, value, one=BODY):
        with self.assertRaises(errors.InvalidInput) as caught:
            operation.checker(one)(value)
        return str(caught.exception)

    def test_valid_values_accepted(self):
        for value in ({'thing': {'id': UUID}}, {'thing': {'id': UUID.replace('-', '').upper()}},
                      {'thing': {'id': UUID, 'connector': {'host': 'h', 'any': [1]}}}):
            with self.subTest(value=value):
                operation.checker(BODY)(value)

    def test_validation_messages(self):
        for value, words in (
                ({}, "'thing' is a required property"),
                ({'thing': {}}, 'Invalid input for field/attribute thing. Value: {}. '
                                "'id' is a required property"),
                ({'thing': {'id': 'x'}}, 'Invalid input for field/attribute id. Value: x. '
                                         "'x' is not a 'uuid'"),
                ({'thing': {'id': None}}, 'Invalid input for field/attribute id. Value: None. '
                                          "None is not of type 'string'"),
                ({'thing': {'id': UUID}, 'x': 1},
                 "Additional properties are not allowed ('x' was unexpected)"),
                ({'thing': {'id': UUID, 'connector': {}}},
                 'Invalid input for field/attribute connector. Value: {}. '
                 '{} should be non-empty')):
            with self.subTest(value=value):
                self.assertEqual(words, self.reason(value))

    def test_extending_list_items_keeps_original(self):
        plain = schema.wrapped('things', schema.array(schema.obj({'id': schema.UUID}, ['id'])))
        more = schema.extending({'n': {'type': 'integer'}}, 'things')(plain)
        value = {'things': [{'id': UUID, 'n': 1}]}
        operation.checker(more)(value)
        self.assertIn("'n' was unexpected", self.reason(value, plain))
        self.assertIn("'n' is a required property", self.reason({'things': [{'id': UUID}]}, more))

    def test_malformed_uuid_rejected(self):
        for value in (UUID[:-1], UUID + '0', f'{{{UUID}}}', f'urn:uuid:{UUID}', '', ' ' + UUID):
            with self.subTest(value=value):
                self.assertIn('uuid', self.reason(value, schema.UUID))

    def test_defaults_not_added_to_body(self):
        value = {}
        operation.checker(schema.obj({'a': {'type': 'string', 'default': 'x'}}))(value)
        self.assertEqual({}, value)


class ViewTest(unittest.TestCase):
    """View, whose schema and whose output agree."""

    VIEW = schema.View({
        'id': schema.UUID,
        'size': ({'type': 'integer'}, 'size_gb'),
        'bootable': ({'enum': ['true', 'false']}, lambda one: str(one.bootable).lower()),
        'snapshot_id': {'type': 'null'},
        'links': ({'type': 'array'}, schema.GIVEN),
    })

    def test_view_shows_each_key(self):
        record = types.SimpleNamespace(id=UUID, size_gb=3, bootable=True)
        shown = self.VIEW.show(record, links=[])
        self.assertEqual({'id': UUID, 'size': 3, 'bootable': 'true', 'snapshot_id': None,
                          'links': []}, shown)
        self.assertEqual(list(self.VIEW.keys), list(shown))
        operation.checker(self.VIEW.whole)(shown)

    def test_whole_schema_requires_exact_keys(self):
        shown = self.VIEW.show(types.SimpleNamespace(id=UUID, size_gb=3, bootable=True), links=[])
        for value in ({**shown, 'more': 1},
                      *({key: shown[key] for key in shown if key != name} for name in shown)):
            with self.subTest(keys=sorted(value)), self.assertRaises(errors.InvalidInput):
                operation.checker(self.VIEW.whole)(value)

    def test_show_without_given_key_raises(self):
        with self.assertRaises(KeyError):
            self.VIEW.show(types.SimpleNamespace(id=UUID, size_gb=3, bootable=True))
