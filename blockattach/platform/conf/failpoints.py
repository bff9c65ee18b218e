"""``[failpoints]``: injected failures, for tests of whole installations."""
from oslo_config import cfg

GROUP = 'failpoints'

OPTS = [
    cfg.ListOpt('armed', default=[],
                help='Failpoints of this process, each as NAME=ACTION. The actions are raise, '
                     'kill (as with kill -9), delay:SECONDS, and, on the message bus, drop and '
                     'duplicate; ``*TIMES`` limits how often an action runs. The contributor '
                     'documentation lists the names. For tests only.'),
]
