"""Durations of tests: the summary of a run, and the record that distributes the next run."""
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
"""Path relative to the root. Each line is a test module, a space, and its seconds."""
SHORTEST = 1.0
"""Modules that take fewer seconds are not in the record."""
UNRECORDED = 0.02
"""Seconds that are assumed for each test of a module that is not in the record."""
SLOWEST = 10

_MODULE = re.compile(r'\b(?:\w+\.)*?test_\w+')


class Timing(NamedTuple):
    """Time at which a worker ran a test.

    :ivar begun: start in seconds since an arbitrary time
    :ivar ended: end in seconds since the same time
    """

    name: str
    worker: str
    begun: float
    ended: float

    @property
    def seconds(self) -> float:
        """Duration of the test itself, without the set-up of its class and module."""
        return self.ended - self.begun


def module_of(name: str) -> str:
    """Return the module of a test, or of a class that is named as ``setUpClass (NAME)``."""
    found = _MODULE.search(name)
    return found[0] if found else name


def layer_of(name: str) -> str:
    """Return the package below blockattach.tests that contains a test."""
    return module_of(name).removeprefix('blockattach.tests.').partition('.')[0]


def spent(timings: Iterable[Timing]) -> Iterable[tuple[str, float]]:
    """Yield each test with the seconds since the end of the previous test on the same worker.

    These seconds include the set-up of classes and modules, which is recorded nowhere else.
    """
    ordered = sorted(timings, key=operator.attrgetter('worker', 'begun'))
    for _, worked in itertools.groupby(ordered, operator.attrgetter('worker')):
        before = None
        for timing in worked:
            yield timing.name, timing.ended - (timing.begun if before is None else before)
            before = timing.ended


def summary(timings: Iterable[Timing]) -> list[str]:
    """Return the lines with the slowest tests and the total duration of each layer."""
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
    """Return the recorded seconds by module. Lines that start with # are comments."""
    lines = (line.split() for line in text.splitlines() if not line.startswith('#'))
    return {module: float(seconds) for module, seconds in filter(None, lines)}


def refreshed(recorded: Mapping[str, float], timings: Iterable[Timing],
              root: pathlib.Path = pathlib.Path()) -> str:
    """Return the text of the record after a run.

    Modules that ran get their new durations. Modules without a file are left out.

    :param recorded: seconds by module before the run
    """
    seconds = {module: took for module, took in recorded.items()
               if (root / f'{module.replace(".", "/")}.py').exists()}
    seconds.update(_sums((module_of(name), took) for name, took in spent(timings)))
    return ''.join(f'{module} {took:.1f}\n' for module, took in sorted(seconds.items())
                   if took >= SHORTEST)


def shared(listed: Iterable[str], recorded: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds of each test: an equal part of the duration of its module.

    Every test has a duration, because stestr distributes tests without one in turn, regardless of
    the other work of a worker.

    :param listed: names of the tests
    :param recorded: seconds by module
    """
    modules = {name: module_of(name) for name in listed}
    tests = Counter(modules.values())
    return {name: recorded[module] / tests[module] if module in recorded else UNRECORDED
            for name, module in modules.items()}


def replace_history(repository: pathlib.Path, seconds: Mapping[str, float]) -> None:
    """Replace the durations that stestr knows, so that they do not depend on earlier runs.

    :param repository: directory of the records of stestr, which distributes the longest groups
        first
    :param seconds: seconds by the name of the test
    """
    with dumb.open(str(repository / 'times.dbm'), 'n') as times:
        for name, took in seconds.items():
            times[name] = str(took)


def _sums(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    sums: defaultdict[str, float] = defaultdict(float)
    for name, seconds in pairs:
        sums[name] += seconds
    return sums
