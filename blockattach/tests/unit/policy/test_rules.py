"""The registry: names as operators know them, each documented."""
import unittest

from oslo_policy import policy

from blockattach.platform.policy import base
from blockattach.wiring import rules


class RulesTest(unittest.TestCase):
    """Over all rules."""

    def test_names_are_given_once(self):
        names = [rule.name for rule in rules.list_rules()]
        self.assertEqual(sorted(set(names)), sorted(names))

    def test_all_but_the_base_rules_are_documented_with_their_operations(self):
        base_names = {rule.name for rule in base.RULES}
        for rule in rules.list_rules():
            with self.subTest(rule=rule.name):
                self.assertTrue(rule.description.endswith('.'))
                if rule.name not in base_names:
                    self.assertIsInstance(rule, policy.DocumentedRuleDefault)

    def test_defaults_refer_to_rules_that_exist(self):
        names = {rule.name for rule in rules.list_rules()}
        for rule in rules.list_rules():
            for word in rule.check_str.replace('(', ' ').replace(')', ' ').split():
                if word.startswith('rule:'):
                    with self.subTest(rule=rule.name):
                        self.assertIn(word.removeprefix('rule:'), names)
