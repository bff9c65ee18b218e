"""``blockattach-all``: the whole service in one process, for a laptop, a lab or a single host."""
import sys
from typing import TYPE_CHECKING

from blockattach.cmd import process

if TYPE_CHECKING:
    from oslo_config import cfg

    from blockattach.wiring import processes

NAME = 'blockattach-all'
TEXT = 'Run all services in one process, for a laptop, a lab or a single host.'


def main() -> int:
    """Run until stopped; 1 and one line on standard error if it cannot start."""
    return process.run(NAME, load, TEXT)


def load(conf: 'cfg.ConfigOpts') -> 'processes.ServiceProcess':
    """What the command runs, with its own options."""
    from blockattach.storage.conf import embedded
    from blockattach.wiring import allinone

    embedded.register(conf)
    return allinone.AllInOne(conf, process.say)


if __name__ == '__main__':
    sys.exit(main())
