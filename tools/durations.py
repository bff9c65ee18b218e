"""How long tests take: what a run prints of it, and the record that shares out the next run."""
import itertools
import operator
import pathlib
import re
from collections import Counter
from collections import defaultdict
from collections.abc import Iterable
from collections.abc import Mapping
from dbm import dumb
from typing import NamedTuple

RECORD = pathlib.Path('blockattach/tests/durations.txt')
"""Relative to the root: a line each, a module of tests, a space, its seconds."""
SHORTEST = 1.0
"""Modules that take less are not in the record."""
UNRECORDED = 0.02
"""Seconds of one test of a module that is not in the record."""
SLOWEST = 10

_MODULE = re.compile(r'\b(?:\w+\.)*?test_\w+')


class Timing(NamedTuple):
    """When a worker ran a test, in seconds since some moment."""

    name: str
    worker: str
    begun: float
    ended: float

    @property
    def seconds(self) -> float:
        """What the test itself took."""
        return self.ended - self.begun


def module_of(name: str) -> str:
    """The module of a test, or of the class whose set-up is recorded as ``setUpClass (NAME)``."""
    found = _MODULE.search(name)
    return found[0] if found else name


def layer_of(name: str) -> str:
    """The package below blockattach.tests that a test is in."""
    return module_of(name).removeprefix('blockattach.tests.').partition('.')[0]


def spent(timings: Iterable[Timing]) -> Iterable[tuple[str, float]]:
    """Tests and their seconds, with those since the end of the test before on the same worker:
    the set-up of classes and modules is recorded nowhere else.
    """
    ordered = sorted(timings, key=operator.attrgetter('worker', 'begun'))
    for _, worked in itertools.groupby(ordered, operator.attrgetter('worker')):
        before = None
        for timing in worked:
            yield timing.name, timing.ended - (timing.begun if before is None else before)
            before = timing.ended


def summary(timings: Iterable[Timing]) -> list[str]:
    """The lines that say which tests are slowest, and what each layer takes."""
    timings = list(timings)
    slowest = sorted(timings, key=operator.attrgetter('seconds'), reverse=True)[:SLOWEST]
    seconds = _sums((layer_of(name), took) for name, took in spent(timings))
    tests = Counter(layer_of(one.name) for one in timings)
    return ['Slowest tests:',
            *(f'{one.seconds:8.1f} s  {one.name}' for one in slowest),
            'Layers:',
            *(f'{took:8.1f} s  {tests[layer]:5} tests  {layer}'
              for layer, took in sorted(seconds.items()))]


def parse(text: str) -> dict[str, float]:
    """Seconds by module, as the record has them; what begins with # is a comment."""
    lines = (line.split() for line in text.splitlines() if not line.startswith('#'))
    return {module: float(seconds) for module, seconds in filter(None, lines)}


def refreshed(known: Mapping[str, float], timings: Iterable[Timing],
              root: pathlib.Path = pathlib.Path()) -> str:
    """The text of the record after a run: what ran is replaced, what is no file is left out.

    :param known: the record before the run
    """
    seconds = {module: took for module, took in known.items()
               if (root / f'{module.replace(".", "/")}.py').exists()}
    seconds.update(_sums((module_of(name), took) for name, took in spent(timings)))
    return ''.join(f'{module} {took:.1f}\n' for module, took in sorted(seconds.items())
                   if took >= SHORTEST)


def shared(listed: Iterable[str], known: Mapping[str, float]) -> dict[str, float]:
    """Seconds of every test: those of its module, in equal parts.

    None is left without: stestr deals those out one by one, whatever else a worker has to do.
    """
    modules = {name: module_of(name) for name in listed}
    tests = Counter(modules.values())
    return {name: known[module] / tests[module] if module in known else UNRECORDED
            for name, module in modules.items()}


def replace_history(repository: pathlib.Path, seconds: Mapping[str, float]) -> None:
    """Let stestr know these times and no others: what ran here before decides nothing.

    :param repository: the folder of stestr's records, which shares out the longest groups first
    """
    with dumb.open(str(repository / 'times.dbm'), 'n') as times:
        for name, took in seconds.items():
            times[name] = str(took)


def _sums(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    sums: defaultdict[str, float] = defaultdict(float)
    for name, seconds in pairs:
        sums[name] += seconds
    return sums
