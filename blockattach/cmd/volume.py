"""``blockattach-volume``: keeps the backends named in ``[volume] enabled_backends``."""
import functools
import sys

from blockattach.cmd import process

NAME = 'blockattach-volume'
TEXT = 'Run the volume manager, which creates and exports the volumes of a host.'
load = functools.partial(process.load_services, NAME, 'volume')


def main() -> int:
    """Run until stopped."""
    return process.run(NAME, load, TEXT)


if __name__ == '__main__':
    sys.exit(main())
