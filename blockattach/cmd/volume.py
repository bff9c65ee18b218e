"""``blockattach-volume``: keeps the backends named in ``[volume] enabled_backends``."""
import sys
from typing import TYPE_CHECKING

from blockattach.cmd import process

if TYPE_CHECKING:
    from oslo_config import cfg

NAME = 'blockattach-volume'
TEXT = 'Run the backends of this host: create volumes and export them to consumers.'


def main() -> int:
    """Run until stopped."""
    return process.run(NAME, _load, TEXT)


def _load(conf: 'cfg.ConfigOpts') -> process.Process:
    from blockattach.wiring import processes
    from blockattach.wiring import volume

    return processes.ServiceProcess(NAME, conf, volume.build_services)


if __name__ == '__main__':
    sys.exit(main())
