"""Privsep contexts: one privileged daemon for LIO and one for LVM, with minimal capabilities.

A function that is marked with a context runs in the daemon of that context, which starts with the
first call. oslo.privsep reads its options from the global object of oslo.config (``cfg.CONF``),
which this project does not use elsewhere. `configure` therefore sets the commands that start the
daemons in this object.
"""
import os
import shlex
import shutil
import sys
from collections.abc import Sequence

from oslo_config import cfg
from oslo_privsep import capabilities
from oslo_privsep import priv_context

# Calls wait for the kernel, not for a processor. A call that hangs must not block the others.
_THREADS = 32


class Context(priv_context.PrivContext):
    """Privsep context whose daemon has 32 threads unless its options say otherwise."""

    def __init__(self, cfg_section: str, pypath: str, capabilities: Sequence[int]) -> None:
        super().__init__('blockattach', cfg_section, pypath, capabilities)
        cfg.CONF.set_default('thread_pool_size', _THREADS, group=cfg_section)


lio = Context(
    'privsep_lio', f'{__name__}.lio',
    # Credentials in the configfs tree of LIO require CAP_SYS_ADMIN. The other files of the tree
    # belong to root, which requires CAP_DAC_OVERRIDE. LIO binds a portal with the capabilities of
    # the caller, and a port below 1024 requires CAP_NET_BIND_SERVICE.
    capabilities=[capabilities.CAP_SYS_ADMIN, capabilities.CAP_DAC_OVERRIDE,
                  capabilities.CAP_NET_BIND_SERVICE])

lvm = Context(
    'privsep_lvm', f'{__name__}.lvm',
    # LVM commands are started as root and get all capabilities of root. The daemon itself only
    # opens devices.
    capabilities=[capabilities.CAP_SYS_ADMIN])

CONTEXTS = (lio, lvm)


def configure(conf: cfg.ConfigOpts) -> None:
    """Set the commands that start the privileged daemons.

    The default command passes the configuration files of this process to the daemon. It uses sudo
    unless this process runs as root.
    """
    for context in CONTEXTS:
        conf.register_opts(priv_context.OPTS, group=context.cfg_section)
        command = conf[context.cfg_section].helper_command or shlex.join(_helper(conf))
        cfg.CONF.set_override('helper_command', command, group=context.cfg_section)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the options of all contexts, for the sample generator of oslo.config."""
    return [(context.cfg_section, list(priv_context.OPTS)) for context in CONTEXTS]


def _helper(conf: cfg.ConfigOpts) -> list[str]:
    beside = os.path.join(os.path.dirname(sys.executable), 'privsep-helper')
    program = beside if os.path.exists(beside) else shutil.which('privsep-helper')
    files = [word for path in conf.config_file or () for word in ('--config-file', path)]
    folders = [word for path in conf.config_dir or () for word in ('--config-dir', path)]
    return [*([] if os.geteuid() == 0 else ['sudo']), program or 'privsep-helper',
            *files, *folders]
