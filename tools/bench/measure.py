"""Measurement of a load process on a target, with the costs of the processes of the target."""
import contextlib
import json
import math
import os
import pathlib
import select
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from bench import acts
from bench import cloud
from bench import processes
from bench import target as targets
from blockattach.platform import clock as clocks

_TOOLS = pathlib.Path(__file__).resolve().parents[1]
# Seconds that a load process may need besides its measurement, to start and to end operations.
_SLACK_SECONDS = 180
_COUNTED_SECONDS = 1
Row = dict[str, Any]
"""Row of the results. Unknown figures are None."""
NOISE = 0.1
"""Maximum share of CPU that other processes may use. Above this share, a measurement is void."""


def is_void(row: Row) -> bool:
    """Return True if other processes used too much CPU during the measurement."""
    return bool(row['noise'] is not None and row['noise'] > NOISE)


def measure(target: targets.Target, job: acts.Job, name: str, clock: clocks.Clock,
            beside: contextlib.AbstractContextManager[object], **facts: Any) -> Row:
    """Run a job on a target, and return its row.

    :param name: name of the scenario in the row
    :param beside: context that is open during the load
    :param facts: additional values of the row
    :raises CannotMeasure: the load process failed
    """
    with loading('bench.load', [json.dumps(job.plain())]) as load:
        return {'target': target.name, 'scenario': name, 'clients': job.clients, **facts,
                **counted(load, job.seconds, target.own, target.backing, clock, beside)}


def counted(load: subprocess.Popen[str], seconds: float, own: processes.Processes,
            backing: processes.Processes, clock: clocks.Clock,
            beside: contextlib.AbstractContextManager[object]) -> Row:
    """Start a load process that is ready, and return its results with the costs."""
    before, backing_before = own.cpu_ms(), backing.cpu_ms()
    busy = processes.machine_busy_ms()
    begin = clock.monotonic()
    with beside, processes.PeakMemory(own, clock) as peak:
        send(load, '')
        answer = _answer(load, seconds)
        after, backing_after = own.cpu_ms(), backing.cpu_ms()
    passed = clock.monotonic() - begin
    cpu = {name: after[name] - before[name] for name in before}
    shared = {name: backing_after[name] - backing_before[name] for name in backing_before}
    others = (processes.machine_busy_ms() - busy - sum(cpu.values()) - sum(shared.values())
              - answer['cpu_ms'])
    # Without the processes of the service, their CPU time would count as that of others. In a
    # short time, the counters are too inaccurate. In both cases the noise is unknown.
    known = own.names and backing.names and passed >= _COUNTED_SECONDS
    share = others / (passed * 1000 * (os.cpu_count() or 1))
    return {**summary(answer, cpu, shared), 'peak_pss_mib': peak.mib,
            'noise': round(max(0.0, share), 3) if known else None}


def summary(answer: Row, cpu: dict[str, float], shared: dict[str, float]) -> Row:
    """Return the figures of a row.

    CPU times are in milliseconds per operation. ``backing`` stands for database and bus.
    """
    taken = sorted(answer['milliseconds'])
    count = len(taken)

    def per_operation(milliseconds: dict[str, float]) -> float | None:
        return round(sum(milliseconds.values()) / count, 3) if count and milliseconds else None

    return {
        'operations': count, 'seconds': round(answer['seconds'], 2),
        'per_second': round(count / answer['seconds'], 2) if answer['seconds'] else None,
        'p50_ms': percentile(taken, 50), 'p95_ms': percentile(taken, 95),
        'p99_ms': percentile(taken, 99),
        'cpu_ms': per_operation(cpu), 'backing_cpu_ms': per_operation(shared),
        'cpu_ms_by_process': {name: round(ms / count, 3) for name, ms in {
            **cpu, **shared}.items()} if count else {},
        'failed': answer['failed'], 'errors': answer['errors'], 'facts': answer['facts'],
        'load_cpu_ms': round(answer['cpu_ms'] / count, 3) if count else None,
        'steps': {step: {'p50_ms': percentile(sorted(one), 50),
                         'p99_ms': percentile(sorted(one), 99)}
                  for step, one in sorted(answer['steps'].items())}}


def percentile(ordered: list[float], percent: int) -> float | None:
    """Return the smallest value that is at least as large as a percentage of the values.

    :param ordered: sorted values
    """
    if not ordered:
        return None
    return round(ordered[math.ceil(len(ordered) * percent / 100) - 1], 2)


@contextlib.contextmanager
def loading(module: str, lines: list[str], *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Start a module as a process, wait until it is ready, and kill it at the end of the context.

    :raises CannotMeasure: the process does not become ready
    """
    paths = [str(_TOOLS), str(_TOOLS.parent), *filter(None, [os.environ.get('PYTHONPATH')])]
    process = subprocess.Popen(
        [sys.executable, '-m', module, *arguments], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True,
        env={**os.environ, 'PYTHONPATH': os.pathsep.join(paths)})
    with process:
        try:
            for line in lines:
                send(process, line)
            assert process.stdout is not None
            if (not select.select([process.stdout], [], [], _SLACK_SECONDS)[0]
                    or process.stdout.readline() != 'ready\n'):
                raise cloud.CannotMeasure(f'{module} did not become ready')
            yield process
        finally:
            process.kill()


def send(process: subprocess.Popen[str], line: str) -> None:
    """Send a line to a process."""
    assert process.stdin is not None
    process.stdin.write(f'{line}\n')
    process.stdin.flush()


def _answer(process: subprocess.Popen[str], seconds: float) -> Row:
    try:
        assert process.stdout is not None
        # Read the results before the process ends, because its exit is not part of an operation.
        ready = select.select([process.stdout], [], [], seconds * 10 + _SLACK_SECONDS)[0]
        return dict(json.loads(process.stdout.readline())) if ready else _silent()
    except ValueError as exc:
        raise cloud.CannotMeasure('the load process failed') from exc


def _silent() -> Row:
    raise cloud.CannotMeasure('the load process did not end in time')
