"""The options of oslo.policy, for processes that decide nothing too: they read the same files."""
from oslo_config import cfg
from oslo_policy import opts


def register(conf: cfg.ConfigOpts) -> None:
    """Make the group [oslo_policy] known."""
    for group, options in opts.list_opts():
        conf.register_opts(options, group=group)
