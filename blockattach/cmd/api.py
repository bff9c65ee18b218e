"""``blockattach-api``: the Block Storage API on the built-in server."""
import functools
import sys

from blockattach.cmd import process

NAME = 'blockattach-api'
TEXT = 'Serve the HTTP API (Block Storage v3) on the built-in server.'
load = functools.partial(process.load_services, NAME, 'http_service')


def main() -> int:
    """Run the Block Storage API until the process is stopped."""
    return process.run(NAME, load, TEXT)


if __name__ == '__main__':
    sys.exit(main())
