"""``[failpoints]``: where a process is made to fail, for tests of whole installations."""
from oslo_config import cfg

GROUP = 'failpoints'

OPTS = [
    cfg.ListOpt('armed', default=[],
                help='Points at which this process fails on purpose, as NAME=ACTION. Actions are '
                     'raise, kill (the process, as kill -9 does), delay:SECONDS, and on the bus '
                     'drop and duplicate; ``*TIMES`` may follow. The names are in the '
                     'documentation for contributors. For tests only.'),
]
