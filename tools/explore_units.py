"""What tools/explore plays: layers, the units they are cut into, their order, what was found."""
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

ROOT = pathlib.Path(__file__).resolve().parent.parent
TESTS = 'blockattach.tests'
"""Package of the tests that the gate runs."""
LABORATORY = 'lab'
"""Package of the tests that have commands of their own and are no part of the gate."""
LOWEST = ('unit', 'api')
"""Packages of tests that run with the lowest versions, too: tools/run-lowest."""
SIMULATIONS = 12
BUGS_AT_ONCE = 4
TEMPEST = (r"'^tempest\.api\.volume\.'", "'^cinder_tempest_plugin'")
"""Patterns of the tests that tools/run-tempest plays."""

_RANDOM = re.compile(r'BLOCKATTACH_TEST_SEED|self\.random\(\)')
_RULES = f'{TESTS}.rules.'
"""Rules name what random tests use, and are none."""
_IN_PARTS = re.compile(r'^from blockattach\.tests\.fixtures import exhaustive$', re.M)


class Layer(NamedTuple):
    """A kind of play.

    ``units``: the parts that are played for themselves. ``command``: plays one; ``{unit}`` and
    ``{seed}`` are filled in. ``found``: the lines of its output that name a find, in ``what``.
    ``again``: the command that shows a find again, filled in from that line, too.
    """

    name: str
    units: Callable[[], Sequence[str]]
    command: str
    found: str
    again: str = '{command}'


class Unit(NamedTuple):
    """A part of a layer, and the command that plays it."""

    layer: Layer
    name: str
    seed: int

    @property
    def key(self) -> str:
        """What it is remembered by."""
        return f'{self.layer.name} {self.name}'

    @property
    def command(self) -> str:
        """As one types it at the root of the checkout."""
        return self.layer.command.format(unit=self.name, seed=self.seed)


class Find(NamedTuple):
    """Something that is not as it should be, and the command that shows it again."""

    layer: str
    what: str
    again: str


def test_modules(*packages: str) -> list[str]:
    """Return the names of the test modules in the given packages."""
    return ['.'.join(path.relative_to(ROOT).with_suffix('').parts)
            for package in packages
            for path in sorted(ROOT.joinpath(*package.split('.')).rglob('test_*.py'))]


def gate_layers() -> list[str]:
    """The packages whose tests tools/run-tests runs."""
    folder = ROOT.joinpath(*TESTS.split('.'))
    return [path.name for path in sorted(folder.iterdir()) if any(path.rglob('test_*.py'))]


def random_modules() -> list[str]:
    """The gate's random tests: tools/run-tests gives them the same seed each time."""
    return [name for name in _modules_with(_RANDOM) if not name.startswith(_RULES)]


def modules_in_parts() -> list[str]:
    """The gate's tests of which it plays a part."""
    return _modules_with(_IN_PARTS)


def _modules_with(pattern: re.Pattern[str]) -> list[str]:
    """Modules of the gate whose text has it."""
    return [name for name in test_modules(TESTS)
            if pattern.search((ROOT / f'{name.replace(".", "/")}.py').read_text('utf-8'))]


def bug_batches() -> list[str]:
    """The planted bugs, a few at once."""
    names = iter(bug.name for bug in bugs.BUGS)
    batches = iter(lambda: tuple(itertools.islice(names, BUGS_AT_ONCE)), ())
    return [' '.join(f'--only {name}' for name in batch) for batch in batches]


_VIOLATED = r'^(?P<what>seed .+) \((?P<shows>tools/simulate [^()]+)\)$'
_FAILED = r'^(?:Failed|flaky): (?P<what>.+)$'
LAYERS = (
    Layer('simulation', lambda: [str(number) for number in range(1, SIMULATIONS + 1)],
          'tools/simulate --seed {seed} --steps 5000',
          _VIOLATED, '{shows}'),
    # The same without a broker.
    Layer('http', lambda: ['calls', 'all'],
          'tools/simulate --seed {seed} --steps 15000 --way {unit}', _VIOLATED, '{shows}'),
    Layer('random', random_modules,
          'BLOCKATTACH_TEST_SEED={seed} tools/run-tests {unit}', _FAILED),
    # The gate plays a part of what these cut off.
    Layer('exhaustive', modules_in_parts,
          'BLOCKATTACH_TEST_EXHAUSTIVE=1 tools/run-tests {unit}', _FAILED),
    # The gate plays on the servers what differs between them only.
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
    # With the gate's own seed, for the record of durations.
    Layer('gate', lambda: [f'{TESTS}.{layer}' for layer in gate_layers()],
          'tools/run-tests --write-durations {unit}', _FAILED, 'tools/run-tests {unit}'),
)


def units(layers: Iterable[Layer], seed: int) -> list[Unit]:
    """All units of layers. Each has a seed that follows from the seed and from its own name."""
    return [Unit(layer, name, random.Random(f'{seed} {layer.name} {name}').randrange(2 ** 32))
            for layer in layers for name in layer.units()]


def in_order(found: Iterable[Unit], played: Mapping[str, str]) -> list[Unit]:
    """What was never played first, then what was not played for longest.

    :param played: when each was played last, by its key
    """
    return sorted(found, key=lambda unit: played.get(unit.key, ''))


def finds(unit: Unit, status: int | None, output: str) -> list[Find]:
    """What the end and the output of a unit mean.

    :param status: None if the unit did not end
    """
    found: dict[str, Find] = {}
    for match in re.finditer(unit.layer.found, output, re.M):
        again = unit.layer.again.format(**match.groupdict(), command=unit.command, unit=unit.name)
        # A simulation says much about what went wrong once: the first line is enough.
        key = match.groupdict().get('shows', match['what'])
        found.setdefault(key, Find(unit.layer.name, match['what'], again))
    if status is None:
        found[''] = Find(unit.layer.name, f'{unit.name} timed out', unit.command)
    elif status and not found:
        return [Find(unit.layer.name, f'{unit.name} exited with status {status}', unit.command)]
    return list(found.values())


def table(known: Iterable[Unit], played: Mapping[Unit, float],
          found: Iterable[Find]) -> list[str]:
    """The lines at the end: each layer, then each find with what shows it again.

    :param played: how many seconds each took
    """
    known, found = list(known), list(found)
    names = list(dict.fromkeys(unit.layer.name for unit in known))
    width = max(map(len, (*names, 'layer')))
    lines = [f'{"layer":{width}}  units     run  found  seconds']
    for name in names:
        counts = (sum(unit.layer.name == name for unit in known),
                  sum(unit.layer.name == name for unit in played),
                  sum(find.layer == name for find in found),
                  sum(took for unit, took in played.items() if unit.layer.name == name))
        lines.append('{:{}}  {:5}  {:6}  {:5}  {:7.0f}'.format(name, width, *counts))
    for find in found:
        lines += [f'{find.layer}: {find.what}', f'    {find.again}']
    return lines
