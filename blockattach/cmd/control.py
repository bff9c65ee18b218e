"""``blockattach-control``: the attachment operations that consumers call over the message bus."""
import functools
import sys

from blockattach.cmd import process

NAME = 'blockattach-control'
TEXT = 'Serve the attachment methods that consumers call over the message bus.'
load = functools.partial(process.load_services, NAME, 'control')


def main() -> int:
    """Run the control service until the process is stopped."""
    return process.run(NAME, load, TEXT)


if __name__ == '__main__':
    sys.exit(main())
