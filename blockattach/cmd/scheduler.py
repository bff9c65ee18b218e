"""``blockattach-scheduler``: chooses pools."""
import functools
import sys

from blockattach.cmd import process

NAME = 'blockattach-scheduler'
TEXT = 'Choose the pool in which each new volume is created.'
load = functools.partial(process.load_services, NAME, 'scheduler')


def main() -> int:
    """Run until stopped."""
    return process.run(NAME, load, TEXT)


if __name__ == '__main__':
    sys.exit(main())
