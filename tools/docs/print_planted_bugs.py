#!/usr/bin/env python3
"""Print which bugs are planted, and what each of them breaks."""
import sys

import rst
from blockattach.tests.planted import bugs


def document() -> str:
    """The table."""
    return rst.NOTICE + rst.table(
        ('bug', 'where', 'the guard that it breaks', 'promise', 'caught by'),
        [[rst.literal(bug.name), rst.literal(bug.path), bug.guard, bug.promise,
          rst.literal(bug.test.removeprefix('blockattach.tests.')) or 'fixed seeds']
         for bug in bugs.BUGS], (25, 20, 30, 7, 18))


if __name__ == '__main__':
    sys.stdout.write(document())
