"""``blockattach-compute-api``: the compute API for servers that use volumes."""
import functools
import sys

from blockattach.cmd import process

NAME = 'blockattach-compute-api'
TEXT = 'Serve the compute API for servers with volumes of a block storage service.'
load = functools.partial(process.load_outside, NAME, 'compute_api')


def main() -> int:
    """Run the compute API until the process is stopped."""
    return process.run(NAME, load, TEXT)


if __name__ == '__main__':
    sys.exit(main())
