"""``blockattach-compute``: the agent of a host, which runs servers and connects their volumes."""
import functools
import sys

from blockattach.cmd import process

NAME = 'blockattach-compute'
TEXT = 'Run the compute agent, which runs servers on this host for the compute API.'
load = functools.partial(process.load_outside, NAME, 'compute_agent')


def main() -> int:
    """Run the compute agent of this host until the process is stopped."""
    return process.run(NAME, load, TEXT)


if __name__ == '__main__':
    sys.exit(main())
