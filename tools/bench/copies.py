"""Latency of attach and detach while the same manager copies volumes."""
import contextlib
import dataclasses
import functools
import json
import operator
import os
import pathlib
import statistics
import threading
from collections.abc import Iterator

from bench import acts
from bench import cloud as clouds
from bench import folders
from bench import measure
from bench import processes
from bench import scenarios
from bench import session as sessions
from bench import target as targets

COPIES = 'copies'
NONE = 'none'
STEPS = {'attach': 'create', 'detach': 'delete'}
"""Compared operations, with the names of their steps in an attach cycle."""
LIMIT = 50_000_000
"""Speed limit of copies in bytes per second."""
_CLIENTS = 4


@dataclasses.dataclass(frozen=True, slots=True)
class _Pair:
    """Two file backends between which volumes are migrated. A type can require one of them.

    :ivar limit: limit of the copy speed in bytes per second; 0 for none
    :ivar share: divisor of the size of a copy, so that slow copies end in time
    """

    name: str
    limit: int = 0
    share: int = 1

    @property
    def backends(self) -> tuple[str, str]:
        return f'{self.name}1', f'{self.name}2'

    @property
    def pools(self) -> tuple[str, ...]:
        """Names of the two pools in a migration request."""
        return tuple(f'{clouds.HOST}@{backend}#{self.name}' for backend in self.backends)

    def options(self, folder: pathlib.Path) -> dict[str, dict[str, str]]:
        return {backend: {'store': 'file', 'volumes_dir': str(folder / backend),
                          'volume_backend_name': self.name,
                          'volume_copy_bps_limit': str(self.limit)} for backend in self.backends}


_FREE, _LIMITED = _Pair('free'), _Pair('limited', LIMIT, 8)
KINDS = {'clone': ('clone-and-delete', _FREE), 'migration': ('migrate', _FREE),
         'limited clone': ('clone-and-delete', _LIMITED),
         'limited migration': ('migrate', _LIMITED)}
"""Kinds of copies: the repeated operation, and its backends."""
_POLL = 0.1
_BEGUN_MIB = 4
_LOOK_SECONDS = 0.05
_START_SECONDS = 60.0
_FOR_EVER = 3600.0
_COPY_SECONDS = 120.0


def measure_copies(session: sessions.Session) -> None:
    """Measure attach cycles during clones and migrations, with and without a speed limit."""
    with folders.temporary() as folder:
        pairs = _FREE, _LIMITED
        shape = session.shape(
            backends=tuple(backend for pair in pairs for backend in pair.backends),
            options=functools.reduce(operator.or_, (pair.options(folder.path) for pair in pairs),
                                     dict(clouds.CALLS[session.calls])))
        with clouds.Cloud(shape, session.clock) as cloud:
            others = session.target(cloud, backend=_FREE.name)
            sources = {}
            for pair in pairs:
                sources[pair] = session.target(cloud, backend=pair.name).plain(1)[0]
                _fill(next(folder.path.glob(f'*/volume-{sources[pair]}')),
                      max(1, session.plan.copied_mib // pair.share))
            for _ in range(session.plan.rounds):
                _play(session, others, NONE)
                for kind, (_, pair) in KINDS.items():
                    with _copying(session, others, kind, sources[pair]):
                        _play(session, others, kind)
    _compare(session)


def _fill(path: pathlib.Path, mib: int) -> None:
    """Write random bytes, because zeros would not be copied."""
    piece = os.urandom(2 ** 20)
    with path.open('r+b') as file:
        for _ in range(mib):
            file.write(piece)
        os.fsync(file.fileno())


def _play(session: sessions.Session, others: targets.Target, kind: str) -> None:
    written, begin = _written(others), session.clock.monotonic()
    row = scenarios.SCENARIOS['attach-cycle'](
        # Do not repeat the measurement because of CPU usage: the kernel writes the copied data.
        scenarios.Stage(others, session.clock, repeats=0), f'{COPIES} {kind}',
        scenarios.Load(_CLIENTS, session.plan.seconds, session.plan.warmup))
    assert row is not None
    passed = session.clock.monotonic() - begin
    session.keep({**row, 'copied_mib': round((_written(others) - written) / passed, 1)})


def _written(target: targets.Target) -> float:
    return processes.written_mib(target.own.families()['volume'])


@contextlib.contextmanager
def _copying(session: sessions.Session, others: targets.Target, kind: str,
             source: str) -> Iterator[None]:
    """Copy one volume repeatedly during the context."""
    scenario, pair = KINDS[kind]
    job = acts.Job(scenario, others.endpoint, (acts.Item(source),), _FOR_EVER, poll=_POLL,
                   pools=pair.pools)
    with measure.loading('bench.load', [json.dumps(job.plain())]) as load:
        before = _written(others)
        measure.send(load, '')
        _until_copied(session, others, before + _BEGUN_MIB)
        yield
    with contextlib.closing(others.timed()) as timed:
        _settle(timed, source)


def _settle(timed: acts.Timed, source: str) -> None:
    """Wait for the end of the last copy, and delete the clones."""
    for volume in timed.json('list', 'GET', '/volumes/detail')['volumes']:
        if volume['source_volid'] == source:
            acts.wait_available(timed, volume['id'], _POLL, _COPY_SECONDS, ('creating',))
            timed.ask('delete volume', 'DELETE', f'/volumes/{volume["id"]}')
            acts.wait_gone(timed, volume['id'], _POLL)
    while timed.json('look', 'GET', f'/volumes/{source}')['volume'][
            'migration_status'] == 'migrating':
        timed.pause(_POLL)


def _until_copied(session: sessions.Session, target: targets.Target, mib: float) -> None:
    """Wait until the manager has written a number of MiB.

    :raises CannotMeasure: a timeout
    """
    never = threading.Event()
    deadline = session.clock.monotonic() + _START_SECONDS
    while _written(target) < mib:
        if session.clock.monotonic() > deadline:
            raise clouds.CannotMeasure('no volume was copied')
        session.clock.wait(never, _LOOK_SECONDS)


def _compare(session: sessions.Session) -> None:
    """Store how much longer each step takes during a copy, by the medians of the rounds."""
    for name, step in STEPS.items():
        middle = {kind: median_p99(session.results.rows, kind, step) for kind in (NONE, *KINDS)}
        for fact, pair in (('p99', _FREE), ('limited_p99', _LIMITED)):
            if middle[NONE]:
                beside = max(middle[kind] for kind in KINDS if KINDS[kind][1] is pair)
                session.results.facts[f'{COPIES}_{name}_{fact}'] = round(
                    beside / middle[NONE], 2)


def median_p99(rows: list[measure.Row], kind: str, step: str) -> float:
    """Return the median p99 of a step in milliseconds during a kind of copy.

    :returns: 0 if the step was not measured
    """
    found = [row['steps'][step]['p99_ms'] for row in rows
             if row['scenario'] == f'{COPIES} {kind}' and step in row['steps']]
    return statistics.median(found) if found else 0.0
