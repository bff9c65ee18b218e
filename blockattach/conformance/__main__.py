"""Prints what the kits found of a driver: every behaviour, and whether it keeps what it declares.

    blockattach-conformance my_driver.tests.test_conformance

Each module holds classes made from the kits, as unittest runs them. All of them that concern one
driver make one table. Ends with 1 if a behaviour failed, or if the capabilities that the driver
declares are not those that were proved.
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
"""The parts of each kit."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the kits of some modules, which may be in the current directory.

    :returns: the exit status
    """
    # ``python -m`` does so; the console script has the directory of scripts there.
    sys.path.insert(0, os.getcwd())
    parser = argparse.ArgumentParser(
        prog='blockattach-conformance',
        description='Run the conformance kits against a driver and print the results.')
    parser.add_argument('modules', nargs='*', metavar='MODULE',
                        help='module with test classes derived from the kits')
    parser.add_argument('--list', action='store_true', help='list the behaviours and exit')
    parser.add_argument('--version', action='version', version=version.version_string())
    asked = parser.parse_args(arguments)
    if asked.list:
        _list()
        return 0
    if not asked.modules:
        parser.error('specify at least one MODULE or --list')
    found = examine(importlib.import_module(name) for name in asked.modules)
    for one in found:
        print('\n'.join(one.table()))
    return 0 if found and all(map(_is_sound, found)) else 1


def examine(modules: Iterable[types.ModuleType]) -> list[report.Report]:
    """Run every class of these modules that is made from a kit; a report for each driver."""
    output, found = io.StringIO(), []
    report.Reported.prints_report = False
    try:
        for module in modules:
            kinds = _kinds(module)
            suite = unittest.TestSuite(
                unittest.defaultTestLoader.loadTestsFromTestCase(kind) for kind in kinds)
            done = unittest.TextTestRunner(output, verbosity=0).run(suite)
            found += [kind.report for kind in kinds if 'report' in vars(kind)]
            if not done.wasSuccessful():
                print(output.getvalue(), file=sys.stderr)
    finally:
        report.Reported.prints_report = True
    return _joined(found)


def _kinds(module: types.ModuleType) -> list[type[report.Reported]]:
    return [kind for kind in vars(module).values()
            if isinstance(kind, type) and issubclass(kind, report.Reported)
            and kind.__module__ == module.__name__ and not inspect.isabstract(kind)
            and unittest.defaultTestLoader.getTestCaseNames(kind)]


def _joined(found: Iterable[report.Report]) -> list[report.Report]:
    """One report for each driver, in the order of their first parts."""
    by_driver: dict[str, report.Report] = {}
    for one in found:
        name = one.subject or one.driver
        by_driver.setdefault(name, report.Report(
            name, frozenset(base.CAPABILITIES))).join(one)
    return list(by_driver.values())


def _is_sound(found: report.Report) -> bool:
    return not (found.count(report.Outcome.FAILED) or found.unproved() or found.undeclared())


def _list() -> None:
    for noun, parts in KITS.items():
        known = list(dict.fromkeys(report.behaviours(*parts)))
        print(f'{noun}: {len(known)} behaviours')
        for contract, name in known:
            print(f'  {contract}: {name}')


if __name__ == '__main__':
    sys.exit(main())
