"""``blockattach-volume``: keeps the backends named in ``[volume] enabled_backends``."""
import functools
import sys

from blockattach.cmd import process

NAME = 'blockattach-volume'
TEXT = 'Run the backends of this host: create volumes and export them to consumers.'
load = functools.partial(process.load_services, NAME, 'volume')


def main() -> int:
    """Run until stopped."""
    return process.run(NAME, load, TEXT)


if __name__ == '__main__':
    sys.exit(main())
