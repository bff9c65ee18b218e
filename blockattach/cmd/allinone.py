"""``blockattach-all``: all services in a single process, for a laptop, a lab or a single host."""
import sys
from typing import TYPE_CHECKING

from blockattach.cmd import process

if TYPE_CHECKING:
    from oslo_config import cfg

    from blockattach.wiring import processes

NAME = 'blockattach-all'
TEXT = 'Run all services in one process, for a laptop, a lab or a single host.'


def main() -> int:
    """Run all services in this process until the process is stopped.

    If the process cannot start, a line is printed on standard error, and the exit status is 1.
    """
    return process.run(NAME, load, TEXT)


def load(conf: 'cfg.ConfigOpts') -> 'processes.ServiceProcess':
    """Register the options of the command, and return the process to run."""
    from blockattach.storage.conf import embedded
    from blockattach.wiring import allinone

    embedded.register(conf)
    return allinone.AllInOne(conf, process.say)


if __name__ == '__main__':
    sys.exit(main())
