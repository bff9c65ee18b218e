"""Leases: which thread may act now on a pair, an initiator of a volume, or on a volume as a whole.

Threads of one process exclude each other by names. Where several processes serve a backend, each
also stores what it acts on (`db.attachments.leases`). A process that serves its backend alone
stores nothing, and waits while a command has stored a lease (`Leases.desired_state`).
"""
import collections
import contextlib
import threading
from collections.abc import Iterator

from oslo_log import log as oslo_log

from blockattach.platform import clock as clocks
from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform import log
from blockattach.platform.telemetry import threads
from blockattach.storage.db import storage_db
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.db.attachments import grants
from blockattach.storage.db.attachments import leases

LOG = oslo_log.getLogger(__name__)

DesiredState = grants.DesiredState

_FIRST_REST = 0.01
_LAST_REST = 0.25


class Lease:
    """The right to act on a pair or a volume, until it is released or its deadline has passed."""

    def __init__(self, clock: clocks.Clock, until: float, volume_id: str, initiator: str,
                 stored: leases.Lease | None) -> None:
        """
        :param until: how long another process's lease is waited for, on the monotonic clock
        :param stored: None: no other process serves the backend
        """
        self.volume_id = volume_id
        self.initiator = initiator
        self.stored = stored
        self.giving_back = None if stored is None else leases.giving_back(stored)
        """What gives it back in the transaction that records the act."""
        self.released = False
        """Whether it was given back with the record of the act."""
        self.lost = False
        """Whether the database has said that another process has it."""
        self.ends: float | None = None
        """Earlier than the deadline in the database; None: without end."""
        self._clock = clock
        self._until = until
        self._rest = _FIRST_REST

    def check(self) -> None:
        """Right before the backend is touched.

        :raises BackendUncertain: the deadline has passed: others may have acted meanwhile
        """
        if self.is_late():
            raise errors.BackendUncertain(
                reason=f'the lease on volume {self.volume_id} expired before the operation '
                       f'finished')

    def is_late(self) -> bool:
        """Whether another process may act there by now."""
        if self.released or self.ends is None:
            return False
        return self.lost or self._clock.monotonic() >= self.ends

    def wait(self) -> None:
        """Rest before another look at another process's lease, each time twice as long.

        :raises BackendUncertain: it was waited for long enough
        """
        remaining = self._until - self._clock.monotonic()
        if remaining <= 0:
            raise errors.BackendUncertain(
                reason=f'another operation on volume {self.volume_id} is in progress')
        self._clock.wait(threading.Event(), min(self._rest, remaining))
        self._rest = min(self._rest * 2, _LAST_REST)


class Leases:
    """Those of one process instance."""

    def __init__(self, database: storage_db.Database, address: str, owner: str, seconds: float,
                 cluster: bool = False, clock: clocks.Clock | None = None,
                 waiting: threads.Threads | None = None) -> None:
        """
        :param address: the ``host@backend`` that is served
        :param owner: as `blockattach.storage.db.attachments.leases.owner_of` makes it
        :param seconds: how long an act on a pair may take, by the database's clock
        :param cluster: other processes act on the same backend
        :param waiting: how threads of this process wait for each other
        """
        self.owner = owner
        self._address = address
        self._database = database
        self._seconds = seconds
        self._cluster = cluster
        self._clock = clock or clocks.Clock()
        self._names = _Names(waiting or threads.Threads())

    @contextlib.contextmanager
    def pair(self, volume_id: str, initiator: str,
             caller: context.RequestContext | None = None) -> Iterator[Lease]:
        """Wait for the lease of a pair, as long as the caller does.

        :raises BackendUncertain: another thread or process acts there all the time
        """
        with (self._names.held_by(volume_id, initiator),
              self._lease(volume_id, initiator, self._until(caller)) as lease):
            self._acquire(lease)
            yield lease

    @contextlib.contextmanager
    def try_pair(self, volume_id: str, initiator: str) -> Iterator[Lease | None]:
        """The lease of a pair if it is free; None: another one acts there."""
        if self.is_held(volume_id, initiator):
            yield None
            return
        with (self._names.held_by(volume_id, initiator),
              self._lease(volume_id, initiator, self._clock.monotonic()) as lease):
            yield lease if self._is_free(lease) else None

    @contextlib.contextmanager
    def volume(self, volume_id: str, wait: bool = True) -> Iterator[Lease | None]:
        """The lease of a volume as a whole: no pair of it is acted on meanwhile.

        :param wait: until others have ended what they are at
        :returns: None: another thread or process acts there
        """
        with self.alone(volume_id):
            until = self._until() if wait else self._clock.monotonic()
            with self._lease(volume_id, leases.WHOLE, until) as lease:
                try:
                    self._acquire(lease)
                except errors.BackendUncertain:
                    yield None
                    return
                yield lease

    def alone(self, volume_id: str) -> contextlib.AbstractContextManager[None]:
        """Exclude the other threads of this process from a volume as a whole, and no others."""
        return self._names.held_by(volume_id, leases.WHOLE)

    def is_held(self, volume_id: str, initiator: str) -> bool:
        """Whether a thread of this process acts on a pair, or waits to."""
        return self._names.is_asked_for(volume_id, initiator)

    def held(self) -> list[str]:
        """What threads of this process act on: pairs, and volumes as a whole."""
        return self._names.held()

    def leave(self) -> None:
        """Let others of the cluster go on at once with what this instance has not ended.

        Nothing of it may touch the backend any more. What cannot be released ends at its deadline.
        """
        if not self._cluster:
            return
        try:
            rows = leases.leave(self._database, self._address, self.owner)
        except Exception as exc:
            LOG.error('Failed to release leases, which expire at their deadlines%s',
                      log.fields(owner=self.owner, reason=exc), exc_info=not errors.is_known(exc))
        else:
            LOG.info('Leases released to other processes%s',
                     log.fields(owner=self.owner, rows=rows))

    def desired_state(self, lease: Lease, also: str | None = None) -> DesiredState:
        """What the rows of a pair want now, once no other process has a lease where this one
        stores none.

        The intent is in the row already, and a process that stores a lease looks for intents then:
        at least one of the two sees the other.

        :param also: a row that wants its host granted, whatever its state says
        :raises BackendUncertain: another process has it all the time
        """
        while True:
            state = grants.desired_state(self._database, lease.volume_id, lease.initiator, also)
            if lease.stored is not None or state.leased_by is None:
                return state
            lease.wait()

    def sweep(self) -> None:
        """Remove leases of ended processes, long after their deadlines."""
        if self._cluster:
            leases.forget(self._database)

    @contextlib.contextmanager
    def _lease(self, volume_id: str, initiator: str, until: float) -> Iterator[Lease]:
        """Not acquired yet; what was, and was not released with a record, is given back."""
        stored = leases.Lease(volume_id, initiator, self.owner) if self._cluster else None
        lease = Lease(self._clock, until, volume_id, initiator, stored)
        try:
            yield lease
        finally:
            if lease.ends is not None and not lease.released:
                self._give_back(lease)

    def _acquire(self, lease: Lease) -> None:
        """First the row, then a look for others: of two at once at least one sees the other.

        :raises BackendUncertain: another process has it all the time
        """
        while lease.stored is not None:
            # Before the database is asked: its deadline comes later than this.
            ends = self._clock.monotonic() + self._seconds
            if leases.take(self._database, lease.stored, self._seconds):
                lease.ends = ends
                if not leases.is_excluded(self._database, lease.stored):
                    return
                if lease.initiator != leases.WHOLE:
                    # Pairs give way, or a volume would wait for them for ever.
                    leases.give_back(self._database, lease.stored)
                    lease.ends = None
            lease.wait()

    def _is_free(self, lease: Lease) -> bool:
        """Acquire it now or never. A process that serves its backend alone stores no lease, so
        one that does looks also for rows that are at work: they were written before any look.
        """
        pair = lease.volume_id, lease.initiator
        if lease.stored is None:
            return not leases.is_taken(self._database, *pair)
        try:
            self._acquire(lease)
        except errors.BackendUncertain:
            return False
        return pair not in attachment_queries.at_work(self._database, self._address)

    def _until(self, caller: context.RequestContext | None = None) -> float:
        # A lease of a dead process is free after its deadline.
        ends = self._clock.monotonic() + self._seconds + _LAST_REST
        if caller is None or caller.deadline is None:
            return ends
        return min(caller.deadline, ends)

    def _give_back(self, lease: Lease) -> None:
        assert lease.stored is not None
        try:
            leases.give_back(self._database, lease.stored)
        except Exception as exc:
            LOG.error('Failed to release lease, expires at its deadline%s',
                      log.fields(owner=self.owner, reason=exc), exc_info=not errors.is_known(exc))


class _Names:
    """Among threads: a volume as a whole excludes its pairs, which go on side by side."""

    def __init__(self, waiting: threads.Threads) -> None:
        self._changed = waiting.condition()
        self._held: dict[str, set[str]] = {}
        self._asked: collections.Counter[tuple[str, str]] = collections.Counter()

    def is_asked_for(self, volume_id: str, initiator: str) -> bool:
        """Whether a thread holds it, or waits for it."""
        with self._changed:
            return (volume_id, initiator) in self._asked

    def held(self) -> list[str]:
        """What threads hold now."""
        with self._changed:
            return [f'{volume_id} {initiator or "whole volume"}'
                    for volume_id, found in self._held.items() for initiator in sorted(found)]

    @contextlib.contextmanager
    def held_by(self, volume_id: str, initiator: str) -> Iterator[None]:
        """Hold one, once no thread holds what excludes it."""
        name = volume_id, initiator
        with self._changed:
            self._asked[name] += 1
            self._changed.wait_for(lambda: self._is_free(*name))
            self._held.setdefault(volume_id, set()).add(initiator)
        try:
            yield
        finally:
            with self._changed:
                self._asked[name] -= 1
                if not self._asked[name]:
                    del self._asked[name]
                self._held[volume_id].remove(initiator)
                if not self._held[volume_id]:
                    del self._held[volume_id]
                self._changed.notify_all()

    def _is_free(self, volume_id: str, initiator: str) -> bool:
        held = self._held.get(volume_id)
        return held is None or not (
            initiator == leases.WHOLE or initiator in held or leases.WHOLE in held)
