"""The privsep contexts: one daemon per kind of work, each with only the rights that it needs.

A function that is marked with a context runs in that context's daemon, which starts with the first
call. oslo.privsep has its options on oslo.config's global object, which we do not use elsewhere,
so `configure` sets how its daemons are started and which files they read.
"""
import os
import shlex
import shutil
import sys
from collections.abc import Sequence

from oslo_config import cfg
from oslo_privsep import capabilities
from oslo_privsep import priv_context

# Calls wait for the kernel, not for a processor: one that hangs must not hold up the others.
_THREADS = 32


class Context(priv_context.PrivContext):
    """A context whose daemon has threads enough, unless its group says otherwise."""

    def __init__(self, cfg_section: str, pypath: str, capabilities: Sequence[int]) -> None:
        super().__init__('blockattach', cfg_section, pypath, capabilities)
        cfg.CONF.set_default('thread_pool_size', _THREADS, group=cfg_section)


lio = Context(
    'privsep_lio', f'{__name__}.lio',
    # Credentials in LIO's tree are for CAP_SYS_ADMIN, the rest belongs to root; a portal below
    # 1024 is bound in the caller's name.
    capabilities=[capabilities.CAP_SYS_ADMIN, capabilities.CAP_DAC_OVERRIDE,
                  capabilities.CAP_NET_BIND_SERVICE])

lvm = Context(
    'privsep_lvm', f'{__name__}.lvm',
    # The programs of LVM are root's children and get what root has; we only open its devices.
    capabilities=[capabilities.CAP_SYS_ADMIN])

CONTEXTS = (lio, lvm)


def configure(conf: cfg.ConfigOpts) -> None:
    """Let every daemon be started as configured, by default without sudo where we are root."""
    for context in CONTEXTS:
        conf.register_opts(priv_context.OPTS, group=context.cfg_section)
        command = conf[context.cfg_section].helper_command or shlex.join(_helper(conf))
        cfg.CONF.set_override('helper_command', command, group=context.cfg_section)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """For oslo.config's sample generator."""
    return [(context.cfg_section, list(priv_context.OPTS)) for context in CONTEXTS]


def _helper(conf: cfg.ConfigOpts) -> list[str]:
    beside = os.path.join(os.path.dirname(sys.executable), 'privsep-helper')
    program = beside if os.path.exists(beside) else shutil.which('privsep-helper')
    files = [word for path in conf.config_file or () for word in ('--config-file', path)]
    folders = [word for path in conf.config_dir or () for word in ('--config-dir', path)]
    return [*([] if os.geteuid() == 0 else ['sudo']), program or 'privsep-helper',
            *files, *folders]
