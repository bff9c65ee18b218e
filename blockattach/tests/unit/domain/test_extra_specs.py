"""Comparison of extra specs with the capabilities of a pool."""
import unittest

from blockattach.storage.domain import volume_type

YES, NO = True, False

OPERATORS = (
    # what the pool reports, what the type wants, whether that matches
    (10, '= 10', YES), (11, '= 10', YES), (9, '= 10', NO), ('11', '= 10', YES),
    (10, '== 10', YES), ('10.0', '== 10', YES), (11, '== 10', NO),
    (11, '!= 10', YES), (10, '!= 10', NO),
    (10, '>= 10', YES), (9.5, '>= 10', NO), (100, '>= 20', YES),
    (10, '<= 10', YES), (10.5, '<= 10', NO), (9, '<= 10', YES),
    # Without order: neither operator exists for numbers, so the text is compared as it is.
    (11, '> 10', NO), (9, '< 10', NO), ('> 10', '> 10', YES),
    # Texts.
    ('abc', 's== abc', YES), ('abc', 's== abd', NO), ('Abc', 's== abc', NO),
    ('abc', 's!= abd', YES), ('abc', 's!= abc', NO),
    ('abc', 's< abd', YES), ('abd', 's< abd', NO),
    ('abd', 's<= abd', YES), ('abe', 's<= abd', NO),
    ('abe', 's> abd', YES), ('abd', 's> abd', NO),
    ('abd', 's>= abd', YES), ('abc', 's>= abd', NO),
    ('10', 's< 9', YES),
    # A part of a text.
    ('thin iSCSI pool', '<in> iSCSI', YES), ('thin pool', '<in> iSCSI', NO),
    # Booleans: what is no word for true is false.
    (True, '<is> True', YES), (True, '<is> true', YES), (True, '<is> TRUE', YES),
    (True, '<is> yes', YES), (True, '<is> False', NO), (False, '<is> False', YES),
    (False, '<is> True', NO), ('true', '<is> True', YES), (False, '<is> maybe', YES),
    (True, '<is> maybe', NO), ('unheard of', '<is> False', YES),
    # One of several texts.
    ('a', '<or> a <or> b', YES), ('b', '<or> a <or> b', YES), ('c', '<or> a <or> b', NO),
    ('c', '<or> a <or> b <or> c', YES), ('b', '<or> a b', NO), (1, '<or> 1', NO),
    ('a', '<or>', NO), ('<or>', '<or> a <or> b', NO),
    # Only the first word behind the operator counts, save for <or>.
    ('abc', 's== abc def', YES), ('abc def', 's== abc def', NO), (10, '= 5 500', YES),
    (True, '<is> True story', YES), ('iSCSI', '<in> iSCSI FC', YES),
    # An operator without operand matches nothing.
    ('', 's==', NO), (10, '=', NO), (True, '<is>', NO), ('<in>', '<in>', NO),
    # No operator: the whole text, exactly.
    ('gold', 'gold', YES), ('gold', 'Gold', NO), ('very gold', 'very gold', YES),
    ('very gold', 'gold', NO), (10, '10', NO), (True, 'True', NO), ('', '', YES), ('x', '', NO),
    ('  x', '  x', YES),
    # What is no number does not match and is no error.
    ('infinite', '>= 10', NO), ('ten', '= 10', NO), (10, '>= ten', NO), (None, '>= 10', NO),
    ({'a': 1}, '>= 10', NO), (None, '<in> x', NO), (10, '<in> 1', NO), (10, 's< 9', NO),
)

KEYS = (
    # extra specs, what the pool reports, whether it passes
    ({'tier': 'gold'}, {'tier': 'gold'}, YES),
    ({'capabilities:tier': 'gold'}, {'tier': 'gold'}, YES),
    ({'capabilities:tier': 'tin'}, {'tier': 'gold'}, NO),
    ({'capabilities:disk:kind': 'ssd'}, {'disk': {'kind': 'ssd'}}, YES),
    ({'capabilities:disk:kind': 'ssd'}, {'disk': {'kind': 'tape'}}, NO),
    ({'capabilities:disk:kind': 'ssd'}, {'disk': 'ssd'}, NO),
    ({'capabilities:disk:kind': 'ssd'}, {'disk': {}}, NO),
    ({'capabilities:a:b:c': '>= 2'}, {'a': {'b': {'c': 3}}}, YES),
    # Another scope is some driver's own matter.
    ({'vendor:tier': 'gold'}, {'tier': 'tin'}, YES),
    ({'vendor:capabilities:tier': 'gold'}, {'tier': 'tin'}, YES),
    ({'RESKEY:availability_zones': 'az1'}, {}, YES),
    # Not reported, or reported as nothing.
    ({'tier': 'gold'}, {}, NO),
    ({'tier': '<is> False'}, {}, NO),
    ({'tier': 's!= gold'}, {'tier': None}, NO),
    # A list: any of its elements.
    ({'protocols': 'iSCSI'}, {'protocols': ['NVMe', 'iSCSI']}, YES),
    ({'protocols': 'FC'}, {'protocols': ['NVMe', 'iSCSI']}, NO),
    ({'sizes': '>= 9'}, {'sizes': [1, 10]}, YES),
    ({'protocols': '<or> FC <or> NVMe'}, {'protocols': ['NVMe', 'iSCSI']}, YES),
    ({'protocols': 'FC'}, {'protocols': []}, NO),
    # All of them.
    ({'a': '1', 'b': '2'}, {'a': '1', 'b': '2'}, YES),
    ({'a': '1', 'b': '2'}, {'a': '1', 'b': '3'}, NO),
    ({}, {}, YES),
    # Which backend.
    ({'volume_backend_name': 'lvm'}, {'volume_backend_name': 'lvm'}, YES),
    ({'volume_backend_name': 'lvm'}, {'volume_backend_name': 'file'}, NO),
    # The service's own keys.
    ({'mode': 'RO'}, {}, YES),
    ({'capabilities:mode': 'RO'}, {}, NO),
    ({'multiattach': '<is> True'}, {'multiattach': True}, YES),
    ({'multiattach': '<is> true'}, {'multiattach': True}, YES),
    ({'multiattach': 'True'}, {'multiattach': True}, YES),
    ({'multiattach': '<is> True'}, {'multiattach': False}, NO),
    ({'multiattach': '<is> True'}, {}, NO),
    ({'multiattach': '<is> maybe'}, {'multiattach': False}, YES),
    ({'multiattach': '<is> maybe'}, {'multiattach': True}, NO),
)


class OperatorTest(unittest.TestCase):
    def test_operator_matches_capability(self):
        for reported, wanted, expected in OPERATORS:
            with self.subTest(reported=reported, wanted=wanted):
                self.assertIs(expected, volume_type.matches(reported, wanted))


class KeyTest(unittest.TestCase):
    def test_extra_specs_match_capabilities(self):
        for specs, reported, expected in KEYS:
            with self.subTest(specs=specs, reported=reported):
                reason = volume_type.lacking(reported, specs)
                self.assertEqual(expected, reason is None, reason)

    def test_reason_names_key_reported_and_required(self):
        self.assertEqual('capability tier is tin (required: s== gold)',
                         volume_type.lacking({'tier': 'tin'}, {'tier': 's== gold'}))
