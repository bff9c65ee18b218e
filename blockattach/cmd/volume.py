"""``blockattach-volume``: the volume manager of the backends in ``[volume] enabled_backends``."""
import functools
import sys

from blockattach.cmd import process

NAME = 'blockattach-volume'
TEXT = 'Run the volume manager, which creates and exports the volumes of a host.'
load = functools.partial(process.load_services, NAME, 'volume')


def main() -> int:
    """Run the volume manager until the process is stopped."""
    return process.run(NAME, load, TEXT)


if __name__ == '__main__':
    sys.exit(main())
