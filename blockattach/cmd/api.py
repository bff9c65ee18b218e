"""``blockattach-api``: the HTTP API on the built-in server, where no other is chosen."""
import sys
from typing import TYPE_CHECKING

from blockattach.cmd import process

if TYPE_CHECKING:
    from oslo_config import cfg

NAME = 'blockattach-api'
TEXT = 'Serve the HTTP API (Block Storage v3) on the built-in server.'


def main() -> int:
    """Run until stopped."""
    return process.run(NAME, _load, TEXT)


def _load(conf: 'cfg.ConfigOpts') -> process.Process:
    from blockattach.wiring import http_service
    from blockattach.wiring import processes

    return processes.ServiceProcess(NAME, conf, http_service.build_services)


if __name__ == '__main__':
    sys.exit(main())
