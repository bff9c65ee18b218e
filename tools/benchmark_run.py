"""What `tools/benchmark` does: starts a service, seeds it, has it loaded, prints what was seen."""
import argparse
import concurrent.futures
import contextlib
import json
import math
import os
import platform
import select
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import benchmark_load
from blockattach import clock
from blockattach import version
from blockattach.testing import stack

LOAD = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'benchmark_load.py')
TICK_MS = 1000 / os.sysconf('SC_CLK_TCK')
LOAD_PROCESSES = 2
SEED_THREADS = 8
# What a load process needs beside its seconds: to start, and to end an operation in flight.
SLACK_SECONDS = 60
AVAILABLE_SECONDS = 120
NAME = 'benchmark'

HEADINGS = ('scenario', 'clients', 'operations', 'per second', 'p50 ms', 'p95 ms', 'p99 ms',
            'CPU ms/op', 'errors')


class CannotMeasure(Exception):
    """One line that says why."""


class Service:
    """What is measured, and the volumes that were made for it."""

    def __init__(self, url: str, pid: int | None) -> None:
        self.url = url
        self._pid = pid
        self._clock = clock.Clock()
        self._volumes: list[str] = []
        self._attachments: list[str] = []

    def volumes(self, count: int) -> list[str]:
        """So many volumes of ours, each available or attached by us; made where they are missing.

        :raises CannotMeasure: the service cannot have so many
        """
        missing = count - len(self._volumes)
        if missing > 0:
            with concurrent.futures.ThreadPoolExecutor(SEED_THREADS) as pool:
                shares = [missing // SEED_THREADS + (number < missing % SEED_THREADS)
                          for number in range(SEED_THREADS)]
                for made in pool.map(self._create, shares):
                    self._volumes += made
        return self._volumes[:count]

    def items(self, count: int, attached: bool) -> list[dict[str, str]]:
        """What each client works on."""
        found = []
        with contextlib.closing(benchmark_load.Client(self.url)) as client:
            for number, volume_id in enumerate(self.volumes(count)):
                host = f'host-{number}'
                found.append({'volume_id': volume_id, 'host': host, 'attachment_id':
                              self._attach(client, volume_id, host) if attached else ''})
        return found

    def free(self) -> None:
        """Remove the attachments that were made to be looked at."""
        with contextlib.closing(benchmark_load.Client(self.url)) as client:
            while self._attachments:
                client.ask(200, 'DELETE', f'/attachments/{self._attachments.pop()}')

    def clean(self) -> None:
        """Leave a service that is not ours as it was found."""
        self.free()
        with contextlib.closing(benchmark_load.Client(self.url)) as client:
            while self._volumes:
                client.ask(202, 'DELETE', f'/volumes/{self._volumes.pop()}')

    def cpu_ms(self) -> float:
        """CPU time of the service until now, its children's included; not a number if unknown."""
        if self._pid is None:
            return math.nan
        return sum(_cpu_ticks(pid) for pid in _family(self._pid)) * TICK_MS

    def _create(self, count: int) -> list[str]:
        with contextlib.closing(benchmark_load.Client(self.url)) as client:
            made = [client.ask_json(202, 'POST', '/volumes', {
                'volume': {'size': 1, 'name': NAME}})['volume']['id'] for _ in range(count)]
            deadline = self._clock.monotonic() + AVAILABLE_SECONDS
            for volume_id in made:
                self._wait(client, volume_id, deadline)
        return made

    def _wait(self, client: benchmark_load.Client, volume_id: str, deadline: float) -> None:
        never = threading.Event()
        while True:
            status = client.ask_json(200, 'GET', f'/volumes/{volume_id}')['volume']['status']
            if status == 'available':
                return
            if status == 'error' or self._clock.monotonic() > deadline:
                raise CannotMeasure(f'volume {volume_id} is {status} instead of available')
            self._clock.wait(never, 0.05)

    def _attach(self, client: benchmark_load.Client, volume_id: str, host: str) -> str:
        made = client.ask_json(200, 'POST', '/attachments', {'attachment': {
            'volume_uuid': volume_id, 'connector': benchmark_load.connector(host)}})
        self._attachments.append(made['attachment']['id'])
        return self._attachments[-1]


def _family(pid: int) -> list[int]:
    """A process and all that it has started and that lives."""
    found, waiting = [], [pid]
    while waiting:
        found.append(waiting.pop())
        with contextlib.suppress(OSError):
            for task in os.listdir(f'/proc/{found[-1]}/task'):
                with open(f'/proc/{found[-1]}/task/{task}/children', encoding='ascii') as file:
                    waiting += [int(child) for child in file.read().split()]
    return found


def _cpu_ticks(pid: int) -> int:
    """User and system time, and that of children that have ended (proc(5): fields 14 to 17)."""
    try:
        with open(f'/proc/{pid}/stat', encoding='utf-8', errors='replace') as file:
            return sum(int(field) for field in file.read().rpartition(')')[2].split()[11:15])
    except (FileNotFoundError, ProcessLookupError):
        return 0


@contextlib.contextmanager
def service(url: str | None, pid: int | None) -> Iterator[Service]:
    """The service that was named, or one of our own."""
    if url is not None:
        found = Service(url.rstrip('/'), pid)
        try:
            yield found
        finally:
            found.clean()
        return
    with stack.Stack('fake') as own:
        yield Service(own.endpoint, own.pid)


def measure(target: Service, scenario: str, clients: int, seconds: float,
            volumes: int) -> dict[str, Any]:
    """Load the service with one scenario.

    :raises CannotMeasure: the load could not be put on it
    """
    if scenario == 'list-detail':
        target.volumes(volumes)
    items = target.items(clients, attached=scenario == 'show-attachment')
    count = min(LOAD_PROCESSES, clients)
    with contextlib.ExitStack() as running:
        loads = [running.enter_context(_load(
            {'scenario': scenario, 'url': target.url, 'seconds': seconds,
             'items': items[number::count]})) for number in range(count)]
        before = target.cpu_ms()
        for load in loads:
            _tell(load, '')
        answers = [_answer(load, seconds) for load in loads]
        cpu_ms = target.cpu_ms() - before
    target.free()
    return summary(scenario, clients, answers, cpu_ms)


@contextlib.contextmanager
def _load(job: dict[str, Any]) -> Iterator[subprocess.Popen[str]]:
    """A load process that is ready to begin; ended in any case."""
    paths = [path for path in sys.path if path]
    process = subprocess.Popen(
        [sys.executable, LOAD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, 'PYTHONPATH': os.pathsep.join(paths)})
    with process:
        try:
            _tell(process, json.dumps(job))
            assert process.stdout is not None
            if (not select.select([process.stdout], [], [], SLACK_SECONDS)[0]
                    or process.stdout.readline() != 'ready\n'):
                raise CannotMeasure('the load process did not start')
            yield process
        finally:
            process.kill()


def _tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f'{line}\n')
    process.stdin.flush()


def _answer(process: subprocess.Popen[str], seconds: float) -> dict[str, Any]:
    try:
        text, _ = process.communicate(timeout=seconds + SLACK_SECONDS)
        return dict(json.loads(text))
    except (subprocess.TimeoutExpired, ValueError) as exc:
        raise CannotMeasure(f'the load process did not end well: {type(exc).__name__}') from exc


def summary(scenario: str, clients: int, answers: list[dict[str, Any]],
            cpu_ms: float) -> dict[str, Any]:
    """One row of the result; a figure that is not known is None."""
    taken = sorted(one for answer in answers for one in answer['milliseconds'])
    seconds = max(answer['seconds'] for answer in answers)
    known = bool(taken) and not math.isnan(cpu_ms)
    return {
        'scenario': scenario, 'clients': clients, 'operations': len(taken),
        'per_second': round(len(taken) / seconds, 1),
        'p50_ms': _percentile(taken, 50), 'p95_ms': _percentile(taken, 95),
        'p99_ms': _percentile(taken, 99),
        'cpu_ms_per_operation': round(cpu_ms / len(taken), 2) if known else None,
        'failed': sum(answer['failed'] for answer in answers),
        'errors': [text for answer in answers for text in answer['errors']],
    }


def _percentile(ordered: list[float], percent: int) -> float | None:
    """The smallest value that so many percent do not exceed."""
    if not ordered:
        return None
    return round(ordered[math.ceil(len(ordered) * percent / 100) - 1], 2)


def line(values: tuple[Any, ...]) -> str:
    """One row of the table."""
    shown = ['-' if value is None else str(value) for value in values]
    return f'{shown[0]:<16}' + ''.join(f'{text:>{max(len(heading), 6) + 2}}'
                                       for heading, text in zip(HEADINGS[1:], shown[1:],
                                                                strict=True))


def parse(arguments: list[str], description: str) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog='tools/benchmark', description=description)
    parser.add_argument('--scenario', action='append', choices=list(benchmark_load.SCENARIOS),
                        help='may be given several times; default: all')
    parser.add_argument('--seconds', type=float, default=5, help='of each scenario (5)')
    parser.add_argument('--concurrency', type=int, nargs='+', default=[1, 8], metavar='CLIENTS',
                        help='how many clients at the same time (1 8)')
    parser.add_argument('--volumes', type=int, default=1000,
                        help='how many volumes list-detail lists (1000)')
    parser.add_argument('--url', help='measure this service; with version: http://host:8776/v3')
    parser.add_argument('--pid', type=int, help='its process, for CPU (with --url)')
    parser.add_argument('--json', metavar='FILE', help='write the results there as well')
    return parser.parse_args(arguments)


def main(description: str) -> int:
    """Measure; 1 if anything went wrong."""
    options = parse(sys.argv[1:], description)
    results = []
    print(line(HEADINGS), flush=True)
    try:
        with service(options.url, options.pid) as target:
            for scenario in options.scenario or benchmark_load.SCENARIOS:
                for clients in options.concurrency:
                    result = measure(target, scenario, clients, options.seconds, options.volumes)
                    print(line(tuple(value for key, value in result.items() if key != 'errors')),
                          flush=True)
                    results.append(result)
    except (CannotMeasure, stack.StackRefused, benchmark_load.Unexpected, OSError) as exc:
        print(f'Cannot measure: {exc}', file=sys.stderr)
        return 1
    for text in dict.fromkeys(text for result in results for text in result['errors']):
        print(f'error: {text}', file=sys.stderr)
    if options.json:
        with open(options.json, 'w', encoding='utf-8') as file:
            json.dump({'version': version.version_string(), 'python': platform.python_version(),
                       'cpus': os.cpu_count(), 'seconds': options.seconds,
                       'results': results}, file, indent=1)
    return 1 if any(result['failed'] for result in results) else 0
