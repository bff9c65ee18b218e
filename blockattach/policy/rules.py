"""THE list of rules: read by the enforcer and by oslo.policy's generators."""
from oslo_policy import policy

from blockattach.policy import attachments
from blockattach.policy import base
from blockattach.policy import clusters
from blockattach.policy import default_types
from blockattach.policy import managing
from blockattach.policy import messages
from blockattach.policy import not_offered
from blockattach.policy import qos_specs
from blockattach.policy import quotas
from blockattach.policy import servers
from blockattach.policy import services
from blockattach.policy import snapshots
from blockattach.policy import transfers
from blockattach.policy import volume_types
from blockattach.policy import volumes

NOUNS = (attachments, clusters, default_types, managing, messages, not_offered, qos_specs, quotas,
         servers, services, snapshots, transfers, volume_types, volumes)


def list_rules() -> list[policy.RuleDefault]:
    """Every rule, base rules first."""
    return [*base.RULES, *(rule.default for noun in NOUNS for rule in vars(noun).values()
                           if isinstance(rule, base.Rule))]
