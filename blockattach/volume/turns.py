"""Whose turn it is to act on a backend: between processes that serve it together, a lease.

Where a process serves its backend alone, its own locks exclude its threads and every turn is had
for nothing; it takes no lease, and waits where a command has taken one
(`blockattach.volume.exports`). Threads of one process have their turn by these locks before the
database is asked.
"""
import contextlib
import threading
from collections.abc import Callable
from collections.abc import Iterator
from typing import TypeVar

from oslo_log import log as oslo_log

from blockattach import clock as clocks
from blockattach import context
from blockattach import errors
from blockattach import log
from blockattach.db import engine
from blockattach.db import leases
from blockattach.db import volumes
from blockattach.domain import records
from blockattach.domain import volume_lifecycle
from blockattach.telemetry import threads
from blockattach.volume import locks

LOG = oslo_log.getLogger(__name__)

_T = TypeVar('_T')

_FIRST_TICK = 0.01
_LAST_TICK = 0.25


class Turn:
    """To let one initiator of a volume in or to shut it out, or to act on a volume as a whole."""

    def __init__(self, volume_id: str, lease: leases.Lease | None = None,
                 ends: float | None = None, turns: 'Turns | None' = None,
                 until: float = 0.0) -> None:
        """A turn of a process that is alone, unless there is more.

        :param ends: on the monotonic clock of this process
        :param turns: whoever can have it again
        :param until: how long somebody else's lease is waited for, where this turn has none
        """
        self.until = until
        self.volume_id = volume_id
        self.over = False
        """Whether it was given back with the record of the act."""
        self.lease = lease
        self._ends = ends
        self._turns = turns

    def check(self) -> None:
        """Right before the backend is touched.

        :raises BackendUncertain: whoever was paused for so long may have been overtaken
        """
        if self._turns is not None and self._ends is not None:
            self._turns.check(self.volume_id, self._ends)

    def is_late(self) -> bool:
        """Whether somebody else may have it by now."""
        return self._turns is not None and self._ends is not None and self._turns.is_over(
            self._ends)

    def regain(self) -> None:
        """Before what was done is put right: again alone, whatever has happened meanwhile.

        :raises BackendUncertain: somebody else is at work there all the time
        """
        if self._turns is None:
            return
        if self.lease is None:
            self.until = self._turns.until()
        else:
            self._ends = self._turns.again(self.lease)


class Turns:
    """One life of one process. ``shared``: other processes serve the same backend."""

    def __init__(self, database: engine.Database, address: str, owner: str, seconds: float,
                 volume_seconds: float, shared: bool = False,
                 clock: clocks.Clock | None = None,
                 waiting: threads.Threads | None = None) -> None:
        """
        :param waiting: how threads of this process wait for each other
        :param address: where others find whoever serves the backend
        :param owner: as `blockattach.db.leases.owner_of` makes it
        :param seconds: how long an act on a pair may take, by the database's clock
        :param volume_seconds: the same for one that makes or removes a volume
        """
        self._address = address
        self.owner = owner
        self.shared = shared
        self.waiting = waiting or threads.Threads()
        self.locks = locks.NamedLocks(self.waiting)
        """Of pairs, among the threads of this process."""
        self._database = database
        self._seconds = seconds
        self._volume_seconds = volume_seconds
        self._clock = clock or clocks.Clock()

    def own(self, volume_id: str, generation: int) -> bool:
        """Take a volume on, to be made or removed; False: somebody else has done so."""
        return volumes.own(self._database, volume_id, generation, self.owner,
                           self._volume_seconds, self._address)

    def take_over(self, volume: records.Volume) -> int:
        """Go on with a volume that was left half done; returns its new generation.

        :raises StaleGeneration: somebody else does
        """
        return volumes.take_over(
            self._database, volume.id, volume.generation,
            volume_lifecycle.OwnStatus(volume.own_status), self.owner, self._volume_seconds)

    def leave(self) -> None:
        """Let others of the cluster go on at once with what this life has taken on and not ended.

        Nothing of it may touch the backend any more. What cannot be told ends at its deadline.
        """
        if not self.shared:
            return
        try:
            left = leases.leave(self._database, self._address, self.owner)
        except Exception as exc:
            LOG.error('Cannot leave work to others; it ends at its deadline%s',
                      log.fields(owner=self.owner, reason=exc), exc_info=not errors.is_known(exc))
        else:
            LOG.info('Work is left to others%s', log.fields(owner=self.owner, rows=left))

    def sweep(self) -> None:
        """Forget what dead processes left long ago."""
        if self.shared:
            leases.forget(self._database)

    @contextlib.contextmanager
    def pair(self, volume_id: str, initiator: str,
             caller: context.RequestContext | None = None) -> Iterator[Turn]:
        """Wait for the turn, as long as the caller does.

        :raises BackendUncertain: somebody else is at work there all the time
        """
        with self.locks.holding((volume_id, initiator)):
            until = self.until(caller)
            if not self.shared:
                yield Turn(volume_id, turns=self, until=until)
                return
            lease = leases.Lease(volume_id, initiator, self.owner)
            taken = self.wait(lambda: self._take(lease), until, volume_id)
            with self._kept(lease, taken) as turn:
                yield turn

    @contextlib.contextmanager
    def free_pair(self, volume_id: str, initiator: str) -> Iterator[Turn | None]:
        """The turn if nobody has it now; None: somebody is at work there, and leaves it right."""
        if self.locks.held((volume_id, initiator)):
            yield None
            return
        with self.locks.holding((volume_id, initiator)):
            if not self.shared:
                free = not leases.taken(self._database, volume_id, initiator)
                yield Turn(volume_id, turns=self) if free else None
                return
            lease = leases.Lease(volume_id, initiator, self.owner)
            taken = self._take(lease)
            if taken is None:
                yield None
                return
            with self._kept(lease, taken) as turn:
                yield turn

    @contextlib.contextmanager
    def whole(self, volume_id: str, wait: bool = True) -> Iterator[Turn | None]:
        """Act on a volume as a whole, while nobody acts on a pair of it.

        :param wait: until others have ended what they are at
        :returns: the turn; None: it may not be done now
        """
        if not self.shared:
            yield Turn(volume_id, turns=self)
            return
        until = self.until() if wait else self._clock.monotonic()
        ends: list[float] = []

        def taken() -> bool:
            ends[:] = [self._ends()]
            return leases.take_volume(self._database, volume_id, self.owner, self._seconds)

        if not self._patient(taken, until):
            yield None
            return
        try:
            free = self._patient(lambda: not leases.pairs_taken(
                self._database, volume_id, self.owner), until)
            yield Turn(volume_id, ends=ends[0], turns=self) if free else None
        finally:
            self._give_back(leases.give_back_volume, volume_id, self.owner)

    @contextlib.contextmanager
    def _kept(self, lease: leases.Lease, ends: float) -> Iterator[Turn]:
        turn = Turn(lease.volume_id, lease, ends, self)
        try:
            yield turn
        finally:
            if not turn.over:
                self._give_back(leases.give_back, lease)

    def is_over(self, ends: float) -> bool:
        """Whether a turn with this end is."""
        return self._clock.monotonic() >= ends

    def check(self, volume_id: str, ends: float) -> None:
        """See `Turn.check`."""
        if self.is_over(ends):
            raise errors.BackendUncertain(
                reason=f'the turn at volume {volume_id} is over: it took too long')

    def again(self, lease: leases.Lease) -> float:
        """See `Turn.regain`; returns the new end."""
        return self.wait(lambda: self._take(lease), self.until(), lease.volume_id)

    def _take(self, lease: leases.Lease) -> float | None:
        """The pair first, then a look at the volume; returns the end, None where one is taken."""
        ends = self._ends()
        if not leases.take(self._database, lease, self._seconds):
            return None
        try:
            taken = leases.volume_taken(self._database, lease.volume_id, lease.owner)
        except BaseException:
            self._give_back(leases.give_back, lease)
            raise
        if taken:
            leases.give_back(self._database, lease)
            return None
        return ends

    def wait(self, attempt: Callable[[], _T | None], until: float, volume_id: str) -> _T:
        """What the attempt gives once it gives something; it is made once at least.

        :raises BackendUncertain: it never does
        """
        patience = _Patience(self._clock, until)
        while (found := attempt()) is None:
            if not patience.rest():
                raise errors.BackendUncertain(
                    reason=f'another process is at work on volume {volume_id}')
        return found

    def _patient(self, condition: Callable[[], bool], until: float) -> bool:
        """Whether it is so now, or comes to be so in time."""
        patience = _Patience(self._clock, until)
        while not condition():
            if not patience.rest():
                return False
        return True

    def _ends(self) -> float:
        """Before the database is asked: its deadline comes later than this."""
        return self._clock.monotonic() + self._seconds

    def until(self, caller: context.RequestContext | None = None) -> float:
        """How long to wait for others: as long as the caller does, or a lease lasts."""
        # What a dead process has left is free after one deadline.
        ends = self._clock.monotonic() + self._seconds + _LAST_TICK
        if caller is None or caller.deadline is None:
            return ends
        return min(caller.deadline, ends)

    def _give_back(self, verb: Callable[..., None], *what: object) -> None:
        """What cannot be given back now is free at its deadline."""
        try:
            verb(self._database, *what)
        except Exception as exc:
            LOG.error('Cannot give a lease back; it ends at its deadline%s',
                      log.fields(owner=self.owner, reason=exc), exc_info=not errors.is_known(exc))


class _Patience:
    """Rests between two looks, each twice as long as the one before."""

    def __init__(self, clock: clocks.Clock, until: float) -> None:
        self._clock = clock
        self._until = until
        self._tick = _FIRST_TICK

    def rest(self) -> bool:
        """False: the time is over."""
        left = self._until - self._clock.monotonic()
        if left <= 0:
            return False
        self._clock.wait(threading.Event(), min(self._tick, left))
        self._tick = min(self._tick * 2, _LAST_TICK)
        return True
