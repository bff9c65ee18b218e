"""Command that runs the conformance kits against a driver and prints the results.

    blockattach-conformance my_driver.tests.test_conformance

Each module contains test classes that are derived from the kits. The results of all classes that
test the same driver are printed as one table. The exit status is 1 if a behavior failed, if the
declared capabilities of a driver differ from its proved capabilities, or if no test has run.
"""
import argparse
import importlib
import inspect
import io
import os
import sys
import types
import unittest
from collections.abc import Iterable
from collections.abc import Sequence

from blockattach import version
from blockattach.conformance import report
from blockattach.conformance import scsi
from blockattach.conformance import store
from blockattach.conformance import target
from blockattach.storage.drivers import base

KITS: dict[str, tuple[type[report.Reported], ...]] = {
    'store': (store.StoreContract,),
    'target': (target.TargetContract, target.AccessContract, target.ResizeContract,
               target.DaemonContract, target.ReservationContract, scsi.ScsiContract),
}
"""Contract classes of each kit."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests of the modules on the command line, and print the results.

    :param arguments: command-line arguments; None for the arguments of this process
    :returns: exit status
    """
    # Find modules in the current directory, as ``python -m`` does. The console script has its own
    # directory as the first entry instead.
    sys.path.insert(0, os.getcwd())
    parser = argparse.ArgumentParser(
        prog='blockattach-conformance',
        description='Run the conformance kits against a driver and print the results.')
    parser.add_argument('modules', nargs='*', metavar='MODULE',
                        help='module with test classes derived from the kits')
    parser.add_argument('--list', action='store_true', help='list the behaviors and exit')
    parser.add_argument('--version', action='version', version=version.version_string())
    options = parser.parse_args(arguments)
    if options.list:
        _list()
        return 0
    if not options.modules:
        parser.error('specify at least one MODULE or --list')
    reports = examine(importlib.import_module(name) for name in options.modules)
    for driver_report in reports:
        print('\n'.join(driver_report.table()))
    return 0 if reports and all(map(_is_sound, reports)) else 1


def examine(modules: Iterable[types.ModuleType]) -> list[report.Report]:
    """Run the test classes that the modules define and derive from a kit.

    Errors and failures are printed to standard error.

    :returns: one report for each driver
    """
    output, reports = io.StringIO(), []
    # The reports of all classes are joined and printed as one table instead.
    report.Reported.prints_report = False
    try:
        for module in modules:
            kinds = _kinds(module)
            suite = unittest.TestSuite(
                unittest.defaultTestLoader.loadTestsFromTestCase(kind) for kind in kinds)
            result = unittest.TextTestRunner(output, verbosity=0).run(suite)
            # A class that unittest skipped as a whole has no report.
            reports += [kind.report for kind in kinds if 'report' in vars(kind)]
            if not result.wasSuccessful():
                print(output.getvalue(), file=sys.stderr)
    finally:
        report.Reported.prints_report = True
    return _joined(reports)


def _kinds(module: types.ModuleType) -> list[type[report.Reported]]:
    # A module may import test classes of other modules, and the kits themselves. Only the classes
    # that the module defines belong to its driver.
    return [kind for kind in vars(module).values()
            if isinstance(kind, type) and issubclass(kind, report.Reported)
            and kind.__module__ == module.__name__ and not inspect.isabstract(kind)
            and unittest.defaultTestLoader.getTestCaseNames(kind)]


def _joined(reports: Iterable[report.Report]) -> list[report.Report]:
    """Join the reports on each driver. The drivers keep the order of their first reports."""
    by_driver: dict[str, report.Report] = {}
    for part in reports:
        name = part.subject or part.driver
        by_driver.setdefault(name, report.Report(
            name, frozenset(base.CAPABILITIES))).join(part)
    return list(by_driver.values())


def _is_sound(driver_report: report.Report) -> bool:
    return not (driver_report.count(report.Outcome.FAILED) or driver_report.unproved()
                or driver_report.undeclared())


def _list() -> None:
    for noun, parts in KITS.items():
        behaviors = list(dict.fromkeys(report.behaviors(*parts)))
        print(f'{noun}: {len(behaviors)} behaviors')
        for contract, name in behaviors:
            print(f'  {contract}: {name}')


if __name__ == '__main__':
    sys.exit(main())
