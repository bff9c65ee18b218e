"""``blockattach-scheduler``: chooses pools."""
import sys

from blockattach.cmd import process
from blockattach.wiring import scheduler


def main() -> int:
    """Run until told to stop."""
    return process.run('blockattach-scheduler', sys.argv[1:],
                       lambda base: [scheduler.build_scheduler(base)])


if __name__ == '__main__':
    sys.exit(main())
