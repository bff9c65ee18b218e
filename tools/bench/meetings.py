"""Scenarios with all clients on one volume: a storm, in which all can attach, and a race."""
import collections
import functools
import threading
from collections.abc import Callable
from typing import Any

from bench import acts
from bench import client
from blockattach.platform import clock as clocks

_REFUSED = (400, 409)
_GONE = (404,)


class _Meeting:
    """Rounds in which all threads start at the same time."""

    def __init__(self, job: acts.Job, clock: clocks.Clock) -> None:
        self._job = job
        self._clock = clock
        self._clients = [acts.Timed(job.endpoint, clock) for _ in job.items]
        self._lock = threading.Lock()
        self.milliseconds: list[float] = []
        self.errors: collections.Counter[str] = collections.Counter()
        self.facts: dict[str, Any] = {}

    @property
    def steps(self) -> dict[str, list[float]]:
        """Durations of the steps."""
        return acts.merged(self._clients)

    def prepare(self) -> None:
        """Open the persistent connections of clients in advance, so that all start equally."""
        for one in self._clients if self._job.endpoint.kept else self._clients[:1]:
            one.ask('look', 'GET', f'/volumes/{self._job.items[0].volume_id}')
            one.steps.clear()

    def _together(self, act: Callable[[int], None]) -> float:
        """Call a function in each thread with the number of the thread.

        :returns: seconds until all threads have ended
        """
        barrier = threading.Barrier(len(self._clients) + 1)

        def begin(number: int) -> None:
            barrier.wait()
            try:
                act(number)
            except (client.Unexpected, ValueError, KeyError) as exc:
                self._failed(exc)

        threads = [threading.Thread(target=begin, args=(number,))
                   for number in range(len(self._clients))]
        for thread in threads:
            thread.start()
        barrier.wait()
        begun = self._clock.monotonic()
        for thread in threads:
            thread.join()
        return self._clock.monotonic() - begun

    def _failed(self, exc: Exception) -> None:
        with self._lock:
            self.errors[str(exc) or type(exc).__name__] += 1


class Storm(_Meeting):
    """Attachment of one volume to many hosts. An operation is the attachment of a host."""

    def run(self) -> float:
        """Run all rounds, and return the seconds of attaching."""
        joining = leaving = 0.0
        hosts = self._job.hosts or len(self._clients)
        volume_id = self._job.items[0].volume_id
        self.facts = {'asked': hosts * self._job.rounds, 'wrong': 0}
        for _ in range(self._job.rounds):
            joined: list[str] = []
            joining += self._together(functools.partial(
                self._join, volume_id=volume_id, hosts=hosts, joined=joined))
            self.facts['wrong'] += acts.status_of(self._clients[0], volume_id) != 'in-use'
            if not self._job.stay:
                leaving += self._leave(joined)
                self.facts['wrong'] += acts.status_of(self._clients[0], volume_id) != 'available'
        self.facts |= {'joined': len(self.milliseconds), 'join_seconds': round(joining, 3),
                       'leave_seconds': round(leaving, 3)}
        return joining

    def _join(self, number: int, volume_id: str, hosts: int, joined: list[str]) -> None:
        """Attach the hosts of one thread."""
        timed = self._clients[number]
        for host in range(number, hosts, len(self._clients)):
            begin = self._clock.monotonic()
            try:
                made = acts.attachment_id(acts.attach(
                    timed, volume_id, f'host-{self._job.first + host}')[1])
                with self._lock:
                    joined.append(made)
                acts.complete(timed, made)
            except client.Unexpected as exc:
                self._failed(exc)
                continue
            with self._lock:
                self.milliseconds.append((self._clock.monotonic() - begin) * 1000)

    def _leave(self, joined: list[str]) -> float:
        def leave(number: int) -> None:
            for made in joined[number::len(self._clients)]:
                acts.detach(self._clients[number], made)
        return self._together(leave)


class Race(_Meeting):
    """Competition of many hosts for a volume that only one can attach. An operation is a round."""

    def run(self) -> float:
        """Run all rounds, and return their seconds without the detach."""
        seconds = 0.0
        volume_id = self._job.items[0].volume_id
        self.facts = {'rounds': self._job.rounds, 'wrong': 0}
        for _ in range(self._job.rounds):
            won: list[str] = []
            taken = self._together(functools.partial(
                self._want, volume_id=volume_id, won=won))
            seconds += taken
            self.milliseconds.append(taken * 1000)
            wrong = len(won) != 1
            for made in won:
                acts.detach(self._clients[0], made, _GONE)
            self.facts['wrong'] += wrong or acts.status_of(
                self._clients[0], volume_id) != 'available'
        return seconds

    def _want(self, number: int, volume_id: str, won: list[str]) -> None:
        status, answer = acts.attach(self._clients[number], volume_id, f'host-{number}', _REFUSED)
        if status not in _REFUSED:
            with self._lock:
                won.append(acts.attachment_id(answer))
