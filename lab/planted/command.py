"""Plant bugs in copies of the package, one at a time, and check that each bug is detected.

A planted bug breaks one rule of the service. A fixed seed of the simulation detects the bug, or
the test of the gate that the table names.

The command prints a line for each bug. The exit status is 0 if all bugs are detected, and 1 if a
bug is missed. It is 2 if a bug cannot be planted, or if the unchanged package fails where a bug
was detected.
"""
import argparse
import functools
import os
import sys

from lab.planted import bugs
from lab.planted import planting


def main() -> int:
    """Plant the selected bugs, or list all."""
    parser = argparse.ArgumentParser(prog='tools/plant-bugs', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--only', action='append', metavar='NAME',
                        help='plant this bug; can be repeated')
    parser.add_argument('--jobs', type=int, default=os.cpu_count() or 1,
                        help='number of parallel runs (default: number of CPUs)')
    parser.add_argument('--list', action='store_true', help='list the bugs and exit')
    asked = parser.parse_args()
    known = {bug.name: bug for bug in bugs.BUGS}
    if asked.list:
        for bug in bugs.BUGS:
            print(f'{bug.name}: {bug.promise}, {bug.guard}')
        return 0
    unknown = set(asked.only or ()) - known.keys()
    if unknown:
        parser.error(f'unknown bug: {", ".join(sorted(unknown))}')
    try:
        return planting.report([known[name] for name in asked.only or known], asked.jobs,
                               say=functools.partial(print, flush=True))
    except planting.NotPlanted as error:
        print(f'cannot plant bug {error}', file=sys.stderr)
        return 2

