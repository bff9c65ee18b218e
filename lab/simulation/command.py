"""Simulate the whole service under a virtual clock, and check its invariants.

The simulation combines random requests of many clients with random faults. Processes crash at any
point. Messages are lost, delayed, duplicated and reordered. Storage is slow and fails. The
database aborts transactions. The command prints one line for each violation, with the seed that
reproduces the violation.
"""
import argparse
import hashlib
import os
from collections import Counter

from blockattach.platform import clock
from lab.simulation import direct
from lab.simulation import many
from lab.simulation import play


def main() -> int:
    """Run the simulations, and return 1 if an invariant was violated."""
    parser = argparse.ArgumentParser(prog='tools/simulate', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--seed', type=int, required=True)
    parser.add_argument('--steps', type=int, default=many.LONGEST,
                        help='number of operations; they are divided into simulations of at most '
                             f'{many.LONGEST}')
    parser.add_argument('--processes', type=int, default=os.cpu_count() or 1)
    parser.add_argument('--verbose', action='store_true',
                        help='also print the counts of faults and of status codes')
    parser.add_argument('--nouns', default='', help='comma-separated nouns to play (default: all)')
    parser.add_argument('--way', choices=list(direct.Way), default=direct.Way.BROKER,
                        help='messages that go over HTTP instead of the broker: none (broker), '
                             'calls, or all')
    arguments = parser.parse_args()
    time = clock.Clock()
    begun = time.monotonic()
    reports = []
    for report in many.run(arguments.seed, arguments.steps, arguments.processes,
                           tuple(filter(None, arguments.nouns.split(','))),
                           direct.Way(arguments.way)):
        reports.append(report)
        for violation in report.violations:
            print(violation, flush=True)
    _print_sums(reports, time.monotonic() - begun, arguments.verbose)
    return 1 if any(report.violations for report in reports) else 0


def _print_sums(reports: list[play.Report], seconds: float, verbose: bool) -> None:
    steps = sum(report.steps for report in reports)
    happened: Counter[str] = sum((report.faults for report in reports), Counter())
    trace = hashlib.sha256(''.join(report.trace for report in reports).encode()).hexdigest()
    print(f'{steps} operations in {len(reports)} simulations, {sum(happened.values())} faults, '
          f'{sum(report.instances for report in reports)} process instances, '
          f'{sum(len(report.violations) for report in reports)} violations; '
          f'{steps / seconds:.0f} operations/s; trace {trace[:16]}')
    if verbose:
        statuses: Counter[str] = sum((report.statuses for report in reports), Counter())
        for name, counted in (*happened.most_common(), *sorted(statuses.items())):
            print(f'  {name}: {counted}')
