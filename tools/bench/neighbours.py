"""Effects of many waiting requests: on a slow backend, and on one volume that all hosts attach."""
import contextlib
import json
import threading
from collections.abc import Iterator

from bench import acts
from bench import cloud as clouds
from bench import measure
from bench import results
from bench import scenarios
from bench import session as sessions
from bench import target as targets

ALONE, BESIDE, RUSH = 'baseline', 'slow-backend', 'rush'
_QUICK, _SLOW = 'quick', 'slow'
_CLIENTS = 4
_WAITING = 64
_OTHERS = ('attach-cycle', 'show-volume')
_SLOW_SECONDS = 30.0
_LOOK_SECONDS = 0.2
_START_SECONDS = 60.0
_FOR_EVER = 3600.0


def measure_slow_backend(session: sessions.Session) -> None:
    """Measure a backend while many requests wait for another, which takes 30 seconds per call."""
    shape = session.shape(backends=(_QUICK, _SLOW))
    with clouds.Cloud(shape, session.clock) as cloud:
        others = session.target(cloud, backend=_QUICK)
        slow = session.target(cloud, backend=_SLOW)
        for _ in range(session.plan.rounds):
            _play_others(session, others, ALONE)
            with _waiting(session, cloud, slow):
                _play_others(session, others, BESIDE)
            slow.repair()
    ratios = []
    for scenario in _OTHERS:
        alone, beside = (session.results.median(results.OWN, results.Case(
            f'{when} {scenario}', _CLIENTS), results.P99) for when in (ALONE, BESIDE))
        if alone and beside:
            ratios.append(beside / alone)
    session.results.facts['slow_backend_p99'] = round(max(ratios), 2)


def _play_others(session: sessions.Session, others: targets.Target, when: str) -> None:
    for scenario in _OTHERS:
        row = scenarios.SCENARIOS[scenario](
            scenarios.Stage(others, session.clock), f'{when} {scenario}',
            scenarios.Load(_CLIENTS, session.plan.seconds, session.plan.warmup))
        assert row is not None
        session.keep(row)


@contextlib.contextmanager
def _waiting(session: sessions.Session, cloud: clouds.Cloud,
             slow: targets.Target) -> Iterator[None]:
    """Keep hosts waiting for the slow backend during the context.

    A host whose cycle has ended starts the next one.
    """
    items = tuple(acts.Item(volume_id, host=f'slow-{number}')
                  for number, volume_id in enumerate(slow.plain(_WAITING)))
    job = acts.Job('attach-cycle', slow.endpoint, items, _FOR_EVER)
    with (cloud.slowed(_SLOW, _SLOW_SECONDS),
          measure.loading('bench.load', [json.dumps(job.plain())]) as load):
        measure.send(load, '')
        _until_held(session, slow)
        yield


def _until_held(session: sessions.Session, slow: targets.Target) -> None:
    """Wait until a request waits for the slow backend.

    :raises CannotMeasure: a timeout
    """
    never = threading.Event()
    deadline = session.clock.monotonic() + _START_SECONDS
    with contextlib.closing(slow.timed()) as timed:
        while acts.status_of(timed, slow.plain(1)[0]) != 'attaching':
            if session.clock.monotonic() > deadline:
                raise clouds.CannotMeasure('no request waits for the slow backend')
            session.clock.wait(never, _LOOK_SECONDS)


def measure_rush(session: sessions.Session) -> None:
    """Count the rejected hosts if very many hosts attach one volume at the same time."""
    hosts = session.plan.rush
    with clouds.Cloud(session.shape(), session.clock) as cloud:
        target = session.target(cloud)
        volume_id = target.crowd()
        row = session.keep(scenarios.Stage(target, session.clock).play(RUSH, acts.Job(
            'storm', target.endpoint, (acts.Item(volume_id),) * hosts, stay=True)))
    facts = session.results.facts
    facts['rush'] = {'hosts': hosts, 'joined': row['operations'], 'refused': row['failed'],
                     'p99_of_create_ms': row['steps']['create']['p99_ms'],
                     'seconds': row['facts']['join_seconds']}
    facts['rush_refused'] = hosts - row['operations']
