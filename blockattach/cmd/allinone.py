"""``blockattach-all``: the whole service in one process, for a laptop, a lab or a single host."""
import sys
from typing import TYPE_CHECKING

from blockattach.cmd import process

if TYPE_CHECKING:
    from oslo_config import cfg

NAME = 'blockattach-all'
TEXT = 'Run the whole service in one process, for a laptop, a lab or a single host.'


def main() -> int:
    """Run until stopped; 1 and one line on standard error if it cannot start."""
    return process.run(NAME, _load, TEXT)


def _load(conf: 'cfg.ConfigOpts') -> process.Process:
    from blockattach.conf import embedded
    from blockattach.wiring import allinone

    embedded.register(conf)
    return allinone.AllInOne(conf, process.say)


if __name__ == '__main__':
    sys.exit(main())
