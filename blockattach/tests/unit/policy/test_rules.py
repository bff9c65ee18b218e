"""Registry of the policies."""
import unittest

from oslo_policy import policy

from blockattach.platform.policy import base
from blockattach.wiring import rules


class RulesTest(unittest.TestCase):
    """Checks of each policy."""

    def test_policy_names_unique(self):
        names = [rule.name for rule in rules.list_rules()]
        self.assertEqual(sorted(set(names)), sorted(names))

    def test_each_policy_documented_with_operations(self):
        base_names = {rule.name for rule in base.RULES}
        for rule in rules.list_rules():
            with self.subTest(rule=rule.name):
                self.assertTrue(rule.description.endswith('.'))
                if rule.name not in base_names:
                    self.assertIsInstance(rule, policy.DocumentedRuleDefault)

    def test_defaults_refer_to_existing_rules(self):
        names = {rule.name for rule in rules.list_rules()}
        for rule in rules.list_rules():
            for word in rule.check_str.replace('(', ' ').replace(')', ' ').split():
                if word.startswith('rule:'):
                    with self.subTest(rule=rule.name):
                        self.assertIn(word.removeprefix('rule:'), names)
