"""Load beyond the capacity of the service: attach cycles that start at a fixed rate.

A client that is rejected (503, or no response) gives up its cycle. It then repeats the detach
until its volume is free, as a patient consumer does. Thus nothing remains attached, provided that
the service finishes what it has begun.
"""
import collections
import threading
from typing import Any

from bench import acts
from bench import client
from blockattach.platform import clock as clocks

_AGAIN_SECONDS = 0.5
_WAIT_SECONDS = 60.0
_GONE = (404,)
_REFUSALS = (429, 503)


class Overload:
    """Threads that start cycles on a schedule.

    No cycle is skipped. A cycle that is due while all threads are busy starts late.
    """

    def __init__(self, job: acts.Job, clock: clocks.Clock) -> None:
        self._job = job
        self._clock = clock
        self._clients = [acts.Timed(job.endpoint, clock) for _ in job.items]
        self._lock = threading.Lock()
        self._next = 0
        self.milliseconds: list[float] = []
        self.errors: collections.Counter[str] = collections.Counter()
        self.facts: dict[str, Any] = {'begun': 0, 'refused': 0, 'late': 0, 'stuck': 0}

    @property
    def steps(self) -> dict[str, list[float]]:
        """Durations of the steps that were answered."""
        return acts.merged(self._clients)

    def prepare(self) -> None:
        """Do nothing, because the service is warm from the measurement before."""

    def run(self) -> float:
        """Start cycles for the duration of the job, and return this duration."""
        begin = self._clock.monotonic()
        threads = [threading.Thread(target=self._repeat, args=(one, item, begin))
                   for one, item in zip(self._clients, self._job.items, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.facts['seconds_until_free'] = round(
            self._clock.monotonic() - begin - self._job.seconds, 2)
        return self._job.seconds

    def _repeat(self, timed: acts.Timed, item: acts.Item, begin: float) -> None:
        while (due := self._due(begin)) is not None:
            timed.pause(max(0.0, due - self._clock.monotonic()))
            started = self._clock.monotonic()
            if started > begin + self._job.seconds:
                return
            late = started - due > 1
            done = self._cycle(timed, item)
            ended = self._clock.monotonic()
            with self._lock:
                self.facts['begun'] += 1
                self.facts['late'] += late
                # Only cycles that ended within the duration of the job count as completed.
                if done and ended <= begin + self._job.seconds:
                    self.milliseconds.append((ended - started) * 1000)

    def _due(self, begin: float) -> float | None:
        """Return the time of the next cycle, or None after the end of the job."""
        with self._lock:
            due = begin + self._next / self._job.rate
            self._next += 1
        return due if due < begin + self._job.seconds else None

    def _cycle(self, timed: acts.Timed, item: acts.Item) -> bool:
        """Attach, complete and detach a volume, and return True if no request was rejected."""
        made = ''
        try:
            made = acts.attachment_id(acts.attach(timed, item.volume_id, item.host)[1])
            acts.complete(timed, made)
            acts.detach(timed, made)
            return True
        except client.Unexpected as exc:
            self._refused(exc)
        self._free(timed, item.volume_id)
        return False

    def _refused(self, exc: client.Unexpected) -> None:
        with self._lock:
            self.facts['refused'] += 1
            if exc.status not in _REFUSALS:
                self.errors[str(exc)] += 1

    def _free(self, timed: acts.Timed, volume_id: str) -> None:
        """Delete the attachments of a volume until none is left."""
        deadline = self._clock.monotonic() + _WAIT_SECONDS
        while self._clock.monotonic() < deadline:
            try:
                left = timed.json('look', 'GET', f'/attachments?volume_id={volume_id}')
                for one in left['attachments']:
                    acts.detach(timed, one['id'], _GONE)
                if not left['attachments']:
                    return
            except client.Unexpected:
                timed.pause(_AGAIN_SECONDS)
        with self._lock:
            self.facts['stuck'] += 1
