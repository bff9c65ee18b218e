"""Load process, controlled by JSON on standard input.

The process reads a job in one line, warms up, and prints ``ready``. The next line starts the load.
At the end it prints the duration of each operation and the errors.
"""
import collections
import json
import os
import sys
import threading
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

from bench import acts
from bench import client
from bench import meetings
from bench import overload
from bench import volume_acts
from blockattach.platform import clock as clocks

_ERRORS_KEPT = 5
_ACTS = {**acts.REPEATED, **volume_acts.REPEATED}


class Repetition:
    """Threads that repeat an operation for the duration of a job, each with its own client."""

    def __init__(self, job: acts.Job, clock: clocks.Clock) -> None:
        self._job = job
        self._act = _ACTS[job.scenario]
        self._clock = clock
        self._clients = [acts.Timed(job.endpoint, clock) for _ in range(job.clients)]
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self.milliseconds: list[float] = []
        self.errors: collections.Counter[str] = collections.Counter()
        self.facts: dict[str, Any] = {}

    @property
    def steps(self) -> dict[str, list[float]]:
        """Durations of the measured steps."""
        return acts.merged(self._clients)

    def prepare(self) -> None:
        """Warm up, without counting the operations."""
        if self._job.warmup:
            self._run(self._job.warmup)
        self._forget()
        for one in self._clients:
            one.steps.clear()

    def run(self) -> float:
        """Run the job, and return the seconds until the last operation has ended.

        No operation starts after the duration of the job.
        """
        return self._run(self._job.seconds)

    def _run(self, seconds: float) -> float:
        begin = self._clock.monotonic()
        threads = [threading.Thread(target=self._repeat, args=(one, items))
                   for one, items in zip(self._clients, self._shares(begin + seconds),
                                         strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self._clock.monotonic() - begin

    def _shares(self, end: float) -> list[Iterator[acts.Item]]:
        """Return an iterator of the items for each thread."""
        return [self._again(item, end) for item in self._job.items]

    def _again(self, item: acts.Item, end: float) -> Iterator[acts.Item]:
        while self._clock.monotonic() < end:
            yield item

    def _repeat(self, timed: acts.Timed, items: Iterator[acts.Item]) -> None:
        taken: list[float] = []
        errors: collections.Counter[str] = collections.Counter()
        for item in items:
            begin = self._clock.monotonic()
            try:
                self._act(timed, item, self._job)
            except (client.Unexpected, ValueError, KeyError) as exc:
                errors[str(exc) or type(exc).__name__] += 1
            else:
                taken.append((self._clock.monotonic() - begin) * 1000)
        with self._lock:
            self.milliseconds += taken
            self.errors += errors


class Once(Repetition):
    """Threads that divide the items among them, and execute the operation once for each item."""

    def _shares(self, end: float) -> list[Iterator[acts.Item]]:
        return [iter(self._job.items[number::self._job.threads])
                for number in range(self._job.threads)]


LOADS: dict[str, Callable[[acts.Job, clocks.Clock], Any]] = {
    'storm': meetings.Storm,
    'race': meetings.Race,
    'overload': overload.Overload,
}
"""Loads of scenarios that are not repetitions of an operation."""


def serve(load: Any) -> None:
    """Warm up, wait for a line, run the load, and print the results."""
    load.prepare()
    print('ready', flush=True)
    sys.stdin.readline()
    before = os.times()
    seconds = load.run()
    after = os.times()
    print(json.dumps({
        'seconds': seconds, 'milliseconds': load.milliseconds, 'steps': load.steps,
        'failed': sum(load.errors.values()), 'errors': dict(
            load.errors.most_common(_ERRORS_KEPT)), 'facts': load.facts,
        'cpu_ms': (after.user + after.system - before.user - before.system) * 1000}))


def main() -> int:
    """Execute one job."""
    job = acts.Job.read(json.loads(sys.stdin.readline()))
    serve(LOADS.get(job.scenario, Once if job.threads else Repetition)(job, clocks.Clock()))
    return 0


if __name__ == '__main__':
    sys.exit(main())
