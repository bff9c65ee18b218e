"""Who may do what with transfers of volumes. The names are Cinder's."""
from blockattach.policy import base

GET_ALL = 'volume:get_all_transfers'
GET = 'volume:get_transfer'
CREATE = 'volume:create_transfer'
ACCEPT = 'volume:accept_transfer'
DELETE = 'volume:delete_transfer'

PATHS = ('/os-volume-transfer', '/volume-transfers')

RULES = (
    base.Rule(GET_ALL, base.READER, 'List transfers.',
              *(f'GET {path}{end}' for path in PATHS for end in ('', '/detail'))),
    base.Rule(GET, base.READER, 'Show a transfer.',
              *(f'GET {path}/{{transfer_id}}' for path in PATHS)),
    base.Rule(CREATE, base.MEMBER, 'Offer a volume to another project.',
              *(f'POST {path}' for path in PATHS)),
    base.Rule(ACCEPT, base.MEMBER, 'Take a volume that another project offers.',
              *(f'POST {path}/{{transfer_id}}/accept' for path in PATHS)),
    base.Rule(DELETE, base.MEMBER, 'Take an offer back.',
              *(f'DELETE {path}/{{transfer_id}}' for path in PATHS)),
)
