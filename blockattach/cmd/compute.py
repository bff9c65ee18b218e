"""``blockattach-compute``: the agent of a host, which runs servers and reaches their volumes."""
import functools
import sys

from blockattach.cmd import process

NAME = 'blockattach-compute'
TEXT = 'Run servers on this host, as the compute API asks for it.'
load = functools.partial(process.load_outside, NAME, 'compute_agent')


def main() -> int:
    """Run until stopped."""
    return process.run(NAME, load, TEXT)


if __name__ == '__main__':
    sys.exit(main())
