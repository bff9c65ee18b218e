"""Group of options in tempest.conf that configures the test cases."""
from oslo_config import cfg

GROUP = cfg.OptGroup('blockattach', title='Tests of volume attachments')
OPTIONS = (
    cfg.StrOpt('plain_type',
               help='Volume type of volumes without multiattach. If unset, the default volume '
                    'type is used.'),
    cfg.StrOpt('multiattach_type',
               help='Volume type of multiattach volumes. If unset, [volume] '
                    'volume_type_multiattach is used. If that is unset too, the administrator '
                    'creates a volume type.'),
    cfg.StrOpt('service_role', default='service',
               help='Role of the user whose token is sent as a service token. The role must '
                    'exist and must be accepted as a service role by the deployment. If empty, '
                    'test cases that require a service token are skipped.'),
    cfg.BoolOpt('differences', default=False,
                help='Run the test cases that only blockattach guarantees, against any '
                     'service.'),
)
