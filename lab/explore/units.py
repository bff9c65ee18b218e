"""Units that tools/explore runs: their layers, their order, and the findings in their output."""
import itertools
import pathlib
import random
import re
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import NamedTuple

from lab.planted import bugs

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS = 'blockattach.tests'
"""Package of the tests that the gate runs."""
LABORATORY = 'lab'
"""Package of the tests that have commands of their own and are no part of the gate."""
LOWEST = ('unit', 'api')
"""Test packages that tools/run-lowest runs with the lowest versions of the requirements."""
SIMULATIONS = 12
BUGS_AT_ONCE = 4
TEMPEST = (r"'^tempest\.api\.volume\.'", "'^cinder_tempest_plugin'")
"""Patterns of the tests that tools/run-tempest runs."""

_RANDOM = re.compile(r'BLOCKATTACH_TEST_SEED|self\.random\(\)')
_RULES = f'{TESTS}.rules.'
"""Prefix of the modules of rules. They match `_RANDOM`, but are not random tests."""
_IN_PARTS = re.compile(r'^from blockattach\.tests\.fixtures import exhaustive$', re.M)


class Layer(NamedTuple):
    """Kind of tests or simulations.

    :ivar units: returns the names of the units, which run separately
    :ivar command: command that runs a unit, with the fields ``{unit}`` and ``{seed}``
    :ivar found: pattern of output lines that name a finding, in the group ``what``
    :ivar again: command that reproduces a finding. Its fields can also be groups of ``found``
    """

    name: str
    units: Callable[[], Sequence[str]]
    command: str
    found: str
    again: str = '{command}'


class Unit(NamedTuple):
    """Part of a layer that one command runs."""

    layer: Layer
    name: str
    seed: int

    @property
    def key(self) -> str:
        """Key of the unit in the record of runs."""
        return f'{self.layer.name} {self.name}'

    @property
    def command(self) -> str:
        """Command line that runs the unit from the root of the checkout."""
        return self.layer.command.format(unit=self.name, seed=self.seed)


class Find(NamedTuple):
    """Finding of a unit.

    :ivar again: command that reproduces the finding
    """

    layer: str
    what: str
    again: str


def test_modules(*packages: str) -> list[str]:
    """Return the names of the test modules in the given packages."""
    return ['.'.join(path.relative_to(ROOT).with_suffix('').parts)
            for package in packages
            for path in sorted(ROOT.joinpath(*package.split('.')).rglob('test_*.py'))]


def gate_layers() -> list[str]:
    """Return the packages whose tests tools/run-tests runs."""
    folder = ROOT.joinpath(*TESTS.split('.'))
    return [path.name for path in sorted(folder.iterdir()) if any(path.rglob('test_*.py'))]


def random_modules() -> list[str]:
    """Return the test modules of the gate that use a seed.

    tools/run-tests always runs them with the same seed.
    """
    return [name for name in _modules_with(_RANDOM) if not name.startswith(_RULES)]


def modules_in_parts() -> list[str]:
    """Return the test modules of which the gate runs only a part."""
    return _modules_with(_IN_PARTS)


def _modules_with(pattern: re.Pattern[str]) -> list[str]:
    """Return the test modules of the gate whose source matches a pattern."""
    return [name for name in test_modules(TESTS)
            if pattern.search((ROOT / f'{name.replace(".", "/")}.py').read_text('utf-8'))]


def bug_batches() -> list[str]:
    """Return the arguments that select a few planted bugs at a time."""
    names = iter(bug.name for bug in bugs.BUGS)
    batches = iter(lambda: tuple(itertools.islice(names, BUGS_AT_ONCE)), ())
    return [' '.join(f'--only {name}' for name in batch) for batch in batches]


_VIOLATED = r'^(?P<what>seed .+) \((?P<shows>tools/simulate [^()]+)\)$'
_FAILED = r'^(?:Failed|flaky): (?P<what>.+)$'
LAYERS = (
    Layer('simulation', lambda: [str(number) for number in range(1, SIMULATIONS + 1)],
          'tools/simulate --seed {seed} --steps 5000',
          _VIOLATED, '{shows}'),
    # Simulations in which calls, or all messages, go over HTTP instead of the broker.
    Layer('http', lambda: ['calls', 'all'],
          'tools/simulate --seed {seed} --steps 15000 --way {unit}', _VIOLATED, '{shows}'),
    Layer('random', random_modules,
          'BLOCKATTACH_TEST_SEED={seed} tools/run-tests {unit}', _FAILED),
    # The gate runs only a part of these tests.
    Layer('exhaustive', modules_in_parts,
          'BLOCKATTACH_TEST_EXHAUSTIVE=1 tools/run-tests {unit}', _FAILED),
    # On database servers, the gate runs only tests whose subject differs between databases.
    Layer('servers', lambda: ['mysql', 'postgresql'],
          f'BLOCKATTACH_TEST_DATABASES={{unit}} tools/run-tests {TESTS}.db.', _FAILED),
    Layer('bugs', bug_batches, 'tools/plant-bugs {unit}',
          r'^(?P<what>(?P<bug>\w+): missed.*)$', 'tools/plant-bugs --only {bug}'),
    Layer('system', lambda: test_modules(f'{LABORATORY}.system'),
          'BLOCKATTACH_TEST_SEED={seed} tools/run-system-tests {unit}', _FAILED),
    Layer('faults', lambda: test_modules(f'{LABORATORY}.faults'),
          'BLOCKATTACH_TEST_SEED={seed} tools/run-faults {unit}', _FAILED),
    Layer('tempest', lambda: TEMPEST, 'tools/run-tempest {unit}', _FAILED),
    Layer('lab', lambda: test_modules(f'{LABORATORY}.guests'), 'tools/run-lab {unit}', _FAILED),
    Layer('compute', lambda: test_modules(f'{LABORATORY}.compute'), 'tools/run-compute {unit}',
          _FAILED),
    # Each requirement at its lower bound, in an environment of its own.
    Layer('lowest', lambda: list(LOWEST), 'BLOCKATTACH_TEST_SEED={seed} tools/run-lowest {unit}',
          _FAILED),
    # The gate with its own seed, to update the record of durations.
    Layer('gate', lambda: [f'{TESTS}.{layer}' for layer in gate_layers()],
          'tools/run-tests --write-durations {unit}', _FAILED, 'tools/run-tests {unit}'),
)


def units(layers: Iterable[Layer], seed: int) -> list[Unit]:
    """Return all units of layers. The seed of a unit depends on the seed and on its own name."""
    return [Unit(layer, name, random.Random(f'{seed} {layer.name} {name}').randrange(2 ** 32))
            for layer in layers for name in layer.units()]


def in_order(chosen: Iterable[Unit], played: Mapping[str, str]) -> list[Unit]:
    """Sort units by their last run, those that have never run first.

    :param played: time of the last run by the key of the unit
    """
    return sorted(chosen, key=lambda unit: played.get(unit.key, ''))


def finds(unit: Unit, status: int | None, output: str) -> list[Find]:
    """Return the findings of a unit.

    :param status: exit status; None if the unit timed out
    """
    findings: dict[str, Find] = {}
    for match in re.finditer(unit.layer.found, output, re.M):
        again = unit.layer.again.format(**match.groupdict(), command=unit.command, unit=unit.name)
        # A simulation prints several lines about one violation. Keep only the first.
        key = match.groupdict().get('shows', match['what'])
        findings.setdefault(key, Find(unit.layer.name, match['what'], again))
    if status is None:
        findings[''] = Find(unit.layer.name, f'{unit.name} timed out', unit.command)
    elif status and not findings:
        return [Find(unit.layer.name, f'{unit.name} exited with status {status}', unit.command)]
    return list(findings.values())


def table(planned: Iterable[Unit], played: Mapping[Unit, float],
          findings: Iterable[Find]) -> list[str]:
    """Return the table of layers, followed by each finding with the command that reproduces it.

    :param planned: all units, including those that have not run
    :param played: duration in seconds of each unit that has run
    :param findings: findings of all units
    """
    planned, findings = list(planned), list(findings)
    names = list(dict.fromkeys(unit.layer.name for unit in planned))
    width = max(map(len, (*names, 'layer')))
    lines = [f'{"layer":{width}}  units     run  found  seconds']
    for name in names:
        counts = (sum(unit.layer.name == name for unit in planned),
                  sum(unit.layer.name == name for unit in played),
                  sum(find.layer == name for find in findings),
                  sum(took for unit, took in played.items() if unit.layer.name == name))
        lines.append('{:{}}  {:5}  {:6}  {:5}  {:7.0f}'.format(name, width, *counts))
    for find in findings:
        lines += [f'{find.layer}: {find.what}', f'    {find.again}']
    return lines
