"""``blockattach-compute``: the agent of a host, which runs servers and reaches their volumes."""
import sys
from typing import TYPE_CHECKING

from blockattach.cmd import process

if TYPE_CHECKING:
    from oslo_config import cfg

    from blockattach.wiring import processes

NAME = 'blockattach-compute'
TEXT = 'Run servers on this host, as the compute API asks for it.'


def load(conf: 'cfg.ConfigOpts') -> 'processes.ServiceProcess':
    """Import what the process consists of."""
    from blockattach.wiring import compute_processes

    return compute_processes.load_agent(conf)


def main() -> int:
    """Run until stopped."""
    return process.run(NAME, load, TEXT)


if __name__ == '__main__':
    sys.exit(main())
