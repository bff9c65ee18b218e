#!/usr/bin/env python3
"""Print the table of planted bugs."""
import pathlib
import sys

import rst

# The laboratory is not installed.
sys.path.append(str(pathlib.Path(__file__).resolve().parents[2]))

from lab.planted import bugs  # noqa: E402


def document() -> str:
    """Return the table of planted bugs."""
    return rst.NOTICE + rst.table(
        ('bug', 'file', 'broken rule', 'promise', 'detected by'),
        [[rst.literal(bug.name), rst.literal(bug.path), bug.guard, bug.promise,
          rst.literal(bug.test.removeprefix('blockattach.tests.')) or 'fixed seeds']
         for bug in bugs.BUGS], (25, 20, 30, 7, 18))


if __name__ == '__main__':
    sys.stdout.write(document())
