"""``blockattach-manage target``."""
from oslo_config import cfg

from blockattach.wiring import own_tgtd


def stop(conf: cfg.ConfigOpts) -> None:
    """End the tgtd that the volume manager of this configuration has started.

    :raises ConfigurationError: hosts use it, or it does not answer, and force was not asked for
    """
    pid = own_tgtd.stop(conf, conf.noun.force)
    print('No tgtd runs.' if pid is None else f'tgtd (process {pid}) is stopped.')
