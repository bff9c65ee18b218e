"""``blockattach-control``: serves consumers of attachments on the bus."""
import sys
from typing import TYPE_CHECKING

from blockattach.cmd import process

if TYPE_CHECKING:
    from oslo_config import cfg

NAME = 'blockattach-control'
TEXT = 'Serve consumers of attachments that call over the message bus.'


def main() -> int:
    """Run until stopped."""
    return process.run(NAME, _load, TEXT)


def _load(conf: 'cfg.ConfigOpts') -> process.Process:
    from blockattach.wiring import control
    from blockattach.wiring import processes

    return processes.ServiceProcess(NAME, conf, control.build_services)


if __name__ == '__main__':
    sys.exit(main())
