"""The policy rules of all services, for the enforcers and the generators of oslo.policy."""
from oslo_policy import policy

from blockattach.policy import base
from blockattach.policy import rules
from blockattach.policy import servers


def list_rules() -> list[policy.RuleDefault]:
    """Return all rules, base rules first."""
    return [*base.RULES, *(rule.default for noun in (*rules.NOUNS, servers)
                           for rule in vars(noun).values() if isinstance(rule, base.Rule))]
