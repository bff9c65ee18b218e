"""Who may do what with transfers of volumes. The names are Cinder's."""
from oslo_policy import policy

from blockattach.policy import base

GET_ALL = 'volume:get_all_transfers'
GET = 'volume:get_transfer'
CREATE = 'volume:create_transfer'
ACCEPT = 'volume:accept_transfer'
DELETE = 'volume:delete_transfer'

PATHS = ('/os-volume-transfer', '/volume-transfers')


def _on(method: str, *below: str) -> list[dict[str, str]]:
    return [{'method': method, 'path': f'{path}{end}'} for path in PATHS for end in below]


RULES = (
    policy.DocumentedRuleDefault(
        GET_ALL, base.READER, 'List transfers.', _on('GET', '', '/detail')),
    policy.DocumentedRuleDefault(
        GET, base.READER, 'Show a transfer.', _on('GET', '/{transfer_id}')),
    policy.DocumentedRuleDefault(
        CREATE, base.MEMBER, 'Offer a volume to another project.', _on('POST', '')),
    policy.DocumentedRuleDefault(
        ACCEPT, base.MEMBER, 'Take a volume that another project offers.',
        _on('POST', '/{transfer_id}/accept')),
    policy.DocumentedRuleDefault(
        DELETE, base.MEMBER, 'Take an offer back.', _on('DELETE', '/{transfer_id}')),
)
