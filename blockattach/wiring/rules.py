"""Policy rules of all services, for the enforcers and the generators of oslo.policy."""
from oslo_policy import policy

from blockattach.compute import policy as compute_policy
from blockattach.platform.policy import base
from blockattach.storage.policy import rules


def list_rules() -> list[policy.RuleDefault]:
    """Return all policy rules. The base rules, to which other rules refer, come first."""
    return [*base.RULES, *(rule.default for noun in (*rules.NOUNS, compute_policy)
                           for rule in vars(noun).values() if isinstance(rule, base.Rule))]
