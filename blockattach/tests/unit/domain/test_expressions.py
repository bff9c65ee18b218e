"""Expressions of filter and goodness functions: operators, precedence and errors."""
import unittest

from blockattach.storage.domain import expressions

NAMES = {
    'stats': {'free_capacity_gb': 99.5, 'allocated_capacity_gb': 7, 'vendor_name': 'Open Source',
              'total_capacity_gb': float('inf')},
    'capabilities': {'total_volumes': 3, 'tier': 'gold', 'as_text': '12', 'real_text': '1.5',
                     'multiattach': True, 'nothing': None, 'list': [1]},
    'volume': {'size': 10, 'display_name': 'disk 1'},
    'extra': {'tier': 'gold'},
    'qos': {'maxIOPS': '500'},
}

ROWS = (
    # expression, what it comes to
    ('1', 1), ('1.5', 1.5), ('"a b"', 'a b'), ("'a b'", 'a b'), ('word', 'word'),
    ("'5'", '5'), ('  7  ', 7),
    ('volume.size', 10), ('stats.free_capacity_gb', 99.5), ('qos.maxIOPS', 500),
    ('capabilities.as_text + 1', 13), ('capabilities.real_text * 2', 3.0),
    ('capabilities.multiattach', True),
    # Arithmetic, and how it binds.
    ('1 + 2 * 3', 7), ('(1 + 2) * 3', 9), ('10 - 4 - 3', 3), ('8 / 4 / 2', 1), ('7 / 2', 3.5),
    ('2 ^ 3', 8), ('2 ^ 3 ^ 2', 512), ('-2 ^ 2', -4), ('2 * 3 ^ 2', 18), ('2 * -3', -6),
    ('--2', 2), ('+5', 5), ('1 - -1', 2),
    # Comparisons; chained ones hold all together.
    ('1 < 2', True), ('2 < 1', False), ('2 <= 2', True), ('3 > 2', True), ('2 >= 3', False),
    ('2 == 2.0', True), ('2 != 2', False), ('2 <> 3', True), ('1 < 5 < 10', True),
    ('1 < 20 < 10', False), ('1 + 1 == 2', True), ('1 == 1 == 1', True),
    ('capabilities.tier == gold', True), ("capabilities.tier == 'gold'", True),
    ('capabilities.tier == extra.tier', True), ('capabilities.tier != "tin"', True),
    ("stats.vendor_name == 'Open Source'", True), ('capabilities.tier == 5', False),
    ('stats.total_capacity_gb > 1000000', True), ('capabilities.multiattach == 1', True),
    # Logic, in every spelling.
    *((f'1 {sign} 0', 0) for sign in ('and', 'AND', '&', '&&')),
    *((f'1 {sign} 1', 1) for sign in ('and', 'AND', '&', '&&')),
    *((f'0 {sign} 2', 2) for sign in ('or', 'OR', '|', '||')),
    *((f'{sign} 0', True) for sign in ('not', 'NOT', '!')),
    ('!1', False), ('not not 3', True), ('1 and 1 and 0', 0), ('0 or 0 or 1', 1),
    ('1 or 0 and 0', 1), ('not 1 == 0', True), ('(not (1 == 0))', True),
    ('volume.size < 20 and volume.size > 5', True),
    # Choice binds looser than comparisons, and tighter than logic.
    ('1 ? 2 : 3', 2), ('0 ? 2 : 3', 3), ('volume.size < 5 ? 100 : 50', 50),
    ('(volume.size >= 5) ? 100 : 25', 100), ('0 ? 1 : 0 ? 2 : 3', 3),
    ('0 and 1 ? 2 : 3', 0), ('0 ? capabilities.absent : 4', 4),
    # Functions.
    ('abs(-3)', 3), ('abs(2 - 5) + 1', 4), ('max(1, 2)', 2), ('min(1, 2)', 1),
    ('max(1, 7, 3)', 7), ('max(volume.size, min(20, 15))', 15), ('max (1, 2)', 2),
    ('max', 'max'),
)

WRONG = (
    # expression, words of the error; read already
    ('', 'unexpected end'), ('1 +', 'unexpected end'), ('(1', "missing ')'"),
    ('1)', 'unexpected'), ('1 2', 'unexpected'), ('* 2', 'unexpected'),
    ('1 ? 2', "missing ':'"), ('1 = 1', 'syntax error'), ('#', 'syntax error'),
    ('1, 2', 'unexpected'), ('"open', 'syntax error'), ('2 ^ -1', 'unexpected'),
    ('1 == not 0 )', 'unexpected'), ('sqrt(4)', 'unknown function sqrt'), ('max(1)', 'at least 2'),
    ('abs(1, 2)', 'abs requires 1'), ('abs()', 'unexpected'),
    ('volumes.size', 'unknown name'), ('volume.size.unit', 'unknown name'),
    ('os.system', 'unknown name'),
    ('(' * 21 + '1' + ')' * 21, 'parentheses'), ('abs(' * 500 + '1' + ')' * 500, 'parentheses'),
    ('__import__("os")', 'unknown function'), ('[1]', 'syntax error'),
)

FAILING = (
    # expression, words of the error; only with these facts
    ('volume.color', 'volume.color is not available'), ('capabilities.nothing', 'not available'),
    ('capabilities.list', 'neither'), ('1 / 0', 'division'), ('9 ^ 9 ^ 9 ^ 9', 'evaluated'),
    ('capabilities.tier + 1', "'gold' is not a number"), ('-capabilities.tier', 'not a number'),
    ('"a" * 9', 'not a number'), ('max(1, gold)', 'not a number'),
    ('capabilities.tier < 5', 'evaluated'), ('1 or capabilities.absent', 'not available'),
    ('0 - 1 / (volume.size - 10)', 'division'), ('(0 - 8) ^ 0.5', 'evaluated'),
)


class ExpressionsTest(unittest.TestCase):

    def test_expression_evaluates_to_value(self):
        for expression, value in ROWS:
            with self.subTest(expression):
                found = expressions.evaluate(expression, NAMES)
                self.assertEqual(value, found)
                self.assertEqual(isinstance(value, str), isinstance(found, str))

    def test_check_rejects_invalid_expression(self):
        for expression, words in WRONG:
            with self.subTest(expression), \
                    self.assertRaises(expressions.ExpressionError) as caught:
                expressions.check(expression)
            self.assertIn(words, str(caught.exception), expression)

    def test_evaluate_fails_on_missing_or_wrong_values(self):
        for expression, words in FAILING:
            expressions.check(expression)
            with self.subTest(expression), \
                    self.assertRaises(expressions.ExpressionError) as caught:
                expressions.evaluate(expression, NAMES)
            self.assertIn(words, str(caught.exception), expression)

    def test_long_expression_needs_no_recursion(self):
        self.assertEqual(5000, expressions.evaluate('+'.join(['1'] * 5000), {}))
        self.assertEqual(1, expressions.evaluate('-' * 5000 + '1', {}))
        self.assertEqual(1, expressions.evaluate('^'.join(['1'] * 5000), {}))
        self.assertEqual(7, expressions.evaluate('0 ? 1 : ' * 5000 + '7', {}))

    def test_rows_cover_each_operator_and_function(self):
        tried = ' '.join(expression for expression, _ in ROWS)
        for level in expressions.LEVELS:
            for sign in level.operators:
                self.assertIn(sign, tried)
        for name in expressions.FUNCTIONS:
            self.assertIn(f'{name}(', tried)
