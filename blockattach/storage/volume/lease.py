"""Leases on pairs (one volume and one initiator) and on whole volumes.

A thread calls the backend for a pair or a volume only while it holds the lease. Threads of one
process exclude each other in memory. If several processes serve a backend, each process also
stores its leases in the database (`db.attachments.leases`). A process that serves its backend
alone stores no leases. It only waits while a command of an operator has stored a lease
(`Leases.desired_state`).
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

# First and longest wait in seconds between two attempts to acquire a lease.
_FIRST_REST = 0.01
_LAST_REST = 0.25


class Lease:
    """Lease on a pair or a whole volume, valid until its release or its deadline.

    :ivar stored: lease in the database; None if no other process serves the backend
    :ivar giving_back: function that releases the stored lease in the transaction that records the
        result of the backend call; None if no lease is stored
    :ivar released: True if the transaction that recorded the result has released the lease
    :ivar lost: True if the database has reported that another process holds the lease
    :ivar ends: end of the lease on the monotonic clock, earlier than the deadline in the database;
        None for a lease that is not stored
    """

    def __init__(self, clock: clocks.Clock, until: float, volume_id: str, initiator: str,
                 stored: leases.Lease | None) -> None:
        """Create a lease that is not acquired yet.

        :param until: time on the monotonic clock at which the wait for another process ends
        :param stored: lease to store in the database; None to store no lease
        """
        self.volume_id = volume_id
        self.initiator = initiator
        self.stored = stored
        self.giving_back = None if stored is None else leases.giving_back(stored)
        self.released = False
        self.lost = False
        self.ends: float | None = None
        self._clock = clock
        self._until = until
        self._rest = _FIRST_REST

    def check(self) -> None:
        """Check that the lease is still valid.

        Called right before a backend call, and after a call whose result is not recorded.

        :raises BackendUncertain: if the lease is no longer valid; another process may have acted
        """
        if self.is_late():
            raise errors.BackendUncertain(
                reason=f'the lease on volume {self.volume_id} expired before the operation '
                       f'finished')

    def is_late(self) -> bool:
        """Return True if the lease has expired or is lost, so that another process may act."""
        if self.released or self.ends is None:
            return False
        return self.lost or self._clock.monotonic() >= self.ends

    def wait(self) -> None:
        """Sleep before the next attempt to acquire the lease.

        The time doubles with each call, up to a maximum.

        :raises BackendUncertain: if the time for the wait is over
        """
        remaining = self._until - self._clock.monotonic()
        if remaining <= 0:
            raise errors.BackendUncertain(
                reason=f'another operation on volume {self.volume_id} is in progress')
        self._clock.wait(threading.Event(), min(self._rest, remaining))
        self._rest = min(self._rest * 2, _LAST_REST)


class Leases:
    """Leases of one process instance on the volumes of one backend."""

    def __init__(self, database: storage_db.Database, address: str, owner: str, seconds: float,
                 cluster: bool = False, clock: clocks.Clock | None = None,
                 waiting: threads.Threads | None = None) -> None:
        """Create the leases of a process instance.

        :param address: the served ``host@backend``
        :param owner: result of `blockattach.storage.db.attachments.leases.owner_of`
        :param seconds: time in seconds after which a lease expires, by the clock of the database
        :param cluster: True if other processes serve the same backend
        :param waiting: factory of locks and conditions for threads of this process
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
        """Wait for the lease of a pair, and hold the lease during the ``with`` block.

        The wait for other threads of this process has no limit. The wait for other processes ends
        at the deadline of the caller, or after the time in which the lease of a dead process
        expires, whichever is earlier.

        :raises BackendUncertain: if another process holds a conflicting lease until the wait ends
        """
        with (self._names.held_by(volume_id, initiator),
              self._lease(volume_id, initiator, self._until(caller)) as lease):
            self._acquire(lease)
            yield lease

    @contextlib.contextmanager
    def try_pair(self, volume_id: str, initiator: str) -> Iterator[Lease | None]:
        """Hold the lease of a pair during the ``with`` block if the lease is free.

        The context manager yields None if another thread or process holds the lease.
        """
        if self.is_held(volume_id, initiator):
            yield None
            return
        with (self._names.held_by(volume_id, initiator),
              self._lease(volume_id, initiator, self._clock.monotonic()) as lease):
            yield lease if self._is_free(lease) else None

    @contextlib.contextmanager
    def volume(self, volume_id: str, wait: bool = True) -> Iterator[Lease | None]:
        """Hold the lease of a whole volume during the ``with`` block.

        The lease excludes the leases of all pairs of the volume. The context manager yields None
        if another process holds a conflicting lease.

        :param wait: True to wait for the leases of other processes, for as long as in `pair`
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
        """Return a context manager that excludes other threads of this process from a volume.

        Other processes are not excluded.
        """
        return self._names.held_by(volume_id, leases.WHOLE)

    def is_held(self, volume_id: str, initiator: str) -> bool:
        """Return True if a thread of this process holds or waits for the lease of a pair."""
        return self._names.is_asked_for(volume_id, initiator)

    def held(self) -> list[str]:
        """Return descriptions of the pairs and volumes that threads of this process hold."""
        return self._names.held()

    def leave(self) -> None:
        """Release all leases of this process instance, so that other processes can continue.

        No thread of this process may call the backend any more. A lease that cannot be released
        expires at its deadline.
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
        """Return the desired state of a pair.

        If this process stores no leases, the method first waits until no other process holds a
        lease on the pair.

        :param also: id of an attachment that needs a grant, whatever its state
        :raises BackendUncertain: if another process holds the lease until the wait ends
        """
        while True:
            state = grants.desired_state(self._database, lease.volume_id, lease.initiator, also)
            # Storing no lease is safe here, because the intent is already stored. A process that
            # has stored a lease reads the intents afterwards. At least one of the two processes
            # thus notices the other.
            if lease.stored is not None or state.leased_by is None:
                return state
            lease.wait()

    def sweep(self) -> None:
        """Delete stored leases whose deadlines passed long ago."""
        if self._cluster:
            leases.forget(self._database)

    @contextlib.contextmanager
    def _lease(self, volume_id: str, initiator: str, until: float) -> Iterator[Lease]:
        stored = leases.Lease(volume_id, initiator, self.owner) if self._cluster else None
        lease = Lease(self._clock, until, volume_id, initiator, stored)
        try:
            yield lease
        finally:
            # A lease that was released in the transaction that recorded its act is already gone.
            if lease.ends is not None and not lease.released:
                self._give_back(lease)

    def _acquire(self, lease: Lease) -> None:
        """Acquire a lease in the database, if leases are stored.

        :raises BackendUncertain: if another process holds a conflicting lease until the wait ends
        """
        while lease.stored is not None:
            # The time is taken before the statement, so that this end is earlier than the deadline
            # in the database.
            ends = self._clock.monotonic() + self._seconds
            if leases.take(self._database, lease.stored, self._seconds):
                lease.ends = ends
                # The lease is stored before conflicting leases are looked for. In this order, at
                # least one of two concurrent processes notices the other.
                if not leases.is_excluded(self._database, lease.stored):
                    return
                if lease.initiator != leases.WHOLE:
                    # Pairs yield to whole volumes. Otherwise a volume might wait for ever, because
                    # there would always be a lease on one of its pairs.
                    leases.give_back(self._database, lease.stored)
                    lease.ends = None
            lease.wait()

    def _is_free(self, lease: Lease) -> bool:
        """Acquire a lease without waiting, and return True on success."""
        pair = lease.volume_id, lease.initiator
        if lease.stored is None:
            return not leases.is_taken(self._database, *pair)
        try:
            self._acquire(lease)
        except errors.BackendUncertain:
            return False
        # A process that serves its backend alone stores no lease, so attachments that are being
        # connected or disconnected are checked, too. This suffices, because that process writes
        # the state of an attachment before it looks for stored leases.
        return pair not in attachment_queries.at_work(self._database, self._address)

    def _until(self, caller: context.RequestContext | None = None) -> float:
        # The lease of a dead process is free after its deadline, so waiting longer is pointless.
        ends = self._clock.monotonic() + self._seconds + _LAST_REST
        if caller is None or caller.deadline is None:
            return ends
        return min(caller.deadline, ends)

    def _give_back(self, lease: Lease) -> None:
        assert lease.stored is not None
        try:
            leases.give_back(self._database, lease.stored)
        except Exception as exc:
            LOG.error('Failed to release lease, expires at its deadline%s', log.fields(
                volume_id=lease.volume_id, initiator=lease.initiator, owner=self.owner,
                reason=exc), exc_info=not errors.is_known(exc))


class _Names:
    """Locks of the threads of a process on pairs and whole volumes.

    The lock of a whole volume excludes the locks of its pairs. The locks of different pairs of a
    volume do not exclude each other.
    """

    def __init__(self, waiting: threads.Threads) -> None:
        self._changed = waiting.condition()
        self._held: dict[str, set[str]] = {}
        self._asked: collections.Counter[tuple[str, str]] = collections.Counter()

    def is_asked_for(self, volume_id: str, initiator: str) -> bool:
        """Return True if a thread holds or waits for the lock of a pair or a whole volume."""
        with self._changed:
            return (volume_id, initiator) in self._asked

    def held(self) -> list[str]:
        """Return descriptions of the pairs and whole volumes whose locks are held."""
        with self._changed:
            return [f'{volume_id} {initiator or "whole volume"}' for volume_id, initiators
                    in self._held.items() for initiator in sorted(initiators)]

    @contextlib.contextmanager
    def held_by(self, volume_id: str, initiator: str) -> Iterator[None]:
        """Wait until no thread holds a conflicting lock, and lock a pair or a whole volume."""
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
