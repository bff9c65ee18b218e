"""``blockattach-scheduler``: the scheduler, which chooses the pools of new volumes."""
import functools
import sys

from blockattach.cmd import process

NAME = 'blockattach-scheduler'
TEXT = 'Choose the pool in which each new volume is created.'
load = functools.partial(process.load_services, NAME, 'scheduler')


def main() -> int:
    """Run the scheduler until the process is stopped."""
    return process.run(NAME, load, TEXT)


if __name__ == '__main__':
    sys.exit(main())
