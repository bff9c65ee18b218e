"""``blockattach-scheduler``: chooses pools."""
import sys
from typing import TYPE_CHECKING

from blockattach.cmd import process

if TYPE_CHECKING:
    from oslo_config import cfg

NAME = 'blockattach-scheduler'
TEXT = 'Choose the pool in which each new volume is created.'


def main() -> int:
    """Run until stopped."""
    return process.run(NAME, _load, TEXT)


def _load(conf: 'cfg.ConfigOpts') -> process.Process:
    from blockattach.wiring import processes
    from blockattach.wiring import scheduler

    return processes.ServiceProcess(NAME, conf, scheduler.build_services)


if __name__ == '__main__':
    sys.exit(main())
