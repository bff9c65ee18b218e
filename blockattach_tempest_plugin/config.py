"""The group of tempest.conf that says on what the cases run."""
from oslo_config import cfg

GROUP = cfg.OptGroup('blockattach', title='Cases of volume attachments')
OPTIONS = (
    cfg.StrOpt('plain_type', help='Volume type of plain volumes; none: the default one.'),
    cfg.StrOpt('multiattach_type',
               help='Volume type of volumes for many hosts; none: '
                    '[volume] volume_type_multiattach, else the administrator makes one.'),
    cfg.StrOpt('service_role', default='service',
               help='Role of the user whose token is sent as a service token; the deployment '
                    'must have it, and take it for one. Empty: there is no such user.'),
    cfg.BoolOpt('differences', default=False,
                help='Try what only blockattach promises, wherever it is.'),
)
