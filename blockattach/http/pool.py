"""The threads of the built-in server, and the line of connections for which there is none.

A connection on which something has come goes to a thread at once, as long as there are threads.
When there are none, a few others, which do nothing else, read what is asked for: health is
answered there and then, everything else waits for a thread, at most so many and so long. Who waits
in the line costs a connection and no thread.
"""
import collections
import logging
import threading
from collections.abc import Callable
from typing import NamedTuple
from typing import Protocol

from blockattach import clock as clocks
from blockattach import errors

LOG = logging.getLogger(__name__)

_RECEPTION = 4
"""Threads that read while all others are busy: so many clients may be slow to send at once."""


class Connection(Protocol):
    """One connection of the server."""

    def communicate(self) -> bool:
        """Answer what is asked; whether more may follow."""

    def receive(self) -> bool:
        """Read what is asked, and answer it if it never waits; whether that is still to be done.
        """

    def refuse(self, error: errors.BlockattachError) -> None:
        """Let `communicate` answer what was received with this."""

    def close(self) -> None:
        """End it, by whoever has it."""

    def cut_off(self) -> None:
        """Let whoever has it come to an end."""


class Use(NamedTuple):
    """How the threads are used, and how many connections wait for one."""

    threads: int
    busy: int
    waiting: int


class _Parked(NamedTuple):
    connection: Connection
    until: float


class Pool:
    """What cheroot calls its ``requests``. Threads are begun when they are needed, and kept."""

    def __init__(self, keep: Callable[[Connection], None], threads: int, size: int,
                 seconds: float, clock: clocks.Clock, refused: Callable[[str], None]) -> None:
        """
        :param keep: takes a connection on which more may follow
        :param threads: how many requests are had at the same time
        :param size: how many wait for a thread
        :param seconds: for how long
        :param refused: told of each that had none in time, by the code of its error
        """
        self._keep = keep
        self._most = threads
        self._size = size
        self._seconds = seconds
        self._clock = clock
        self._refused = refused
        self._work = threading.Condition()
        # Something has come, or is to be looked at again.
        self._news = threading.Event()
        self._workers: list[threading.Thread] = []
        self._receptionists: list[threading.Thread] = []
        self._at: dict[int, Connection] = {}
        self._idle = 0
        # What a thread is about to take, what nobody has read, and what waits for a thread.
        self._given: collections.deque[Connection] = collections.deque()
        self._come: collections.deque[Connection] = collections.deque()
        self._parked: collections.deque[_Parked] = collections.deque()
        self._ending = False

    def start(self) -> None:
        """Begin the threads that read; the others begin when they are needed."""
        with self._work:
            self._receptionists = [
                threading.Thread(target=self._receive_each, name=f'http-reception-{number}',
                                 daemon=True) for number in range(_RECEPTION)]
        for thread in self._receptionists:
            thread.start()

    def put(self, connection: Connection) -> None:
        """Something has come on a connection."""
        with self._work:
            if self._give(connection):
                return
            self._come.append(connection)
            self._news.set()

    def use(self) -> Use:
        """As it is now."""
        with self._work:
            return Use(self._most, len(self._workers) - self._idle + len(self._given),
                       len(self._parked) + len(self._come))

    def stop(self, seconds: float | None) -> None:
        """Return when all that was taken on is answered; it is cut off after so long."""
        with self._work:
            self._ending = True
            self._work.notify_all()
            self._news.set()
        until = None if seconds is None else self._clock.monotonic() + seconds
        for thread in (*self._receptionists, *self._workers):
            thread.join(None if until is None else max(until - self._clock.monotonic(), 0))
        with self._work:
            left = [*self._given, *self._come, *(one.connection for one in self._parked)]
            self._given.clear()
            self._come.clear()
            self._parked.clear()
            late = list(self._at.values())
        for connection in left:
            connection.close()
        for connection in late:
            connection.cut_off()

    def _give(self, connection: Connection) -> bool:
        """Have a thread take it; False: there is none. Called with the lock."""
        if self._idle > len(self._given):
            self._given.append(connection)
            self._work.notify()
            return True
        if len(self._workers) >= self._most or self._ending:
            return False
        thread = threading.Thread(target=self._work_on_each, args=(connection,), daemon=True,
                                  name=f'http-{len(self._workers)}')
        self._workers.append(thread)
        thread.start()
        return True

    def _work_on_each(self, connection: Connection | None) -> None:
        while connection is not None:
            self._serve(connection)
            connection = self._following()

    def _following(self) -> Connection | None:
        """What this thread does next; None: nothing any more."""
        with self._work:
            while True:
                # What was promised a thread first: it is watched by nobody any more.
                if self._given:
                    return self._given.popleft()
                if self._parked:
                    return self._parked.popleft().connection
                if self._ending and not self._come:
                    return None
                self._idle += 1
                self._work.wait()
                self._idle -= 1

    def _serve(self, connection: Connection) -> None:
        mine = threading.get_ident()
        self._at[mine] = connection
        more = False
        try:
            more = connection.communicate()
        except OSError as exc:
            LOG.debug('Client is lost: %s', exc)
        except Exception:
            # Whatever it is, the thread goes on: there is no other in its place.
            LOG.exception('Cannot serve a connection')
        finally:
            del self._at[mine]
        self._give_back(connection, more)

    def _give_back(self, connection: Connection, more: bool) -> None:
        try:
            if more:
                self._keep(connection)
            else:
                connection.close()
        except Exception:
            LOG.exception('Cannot give a connection back')

    def _receive_each(self) -> None:
        while True:
            with self._work:
                late = self._parked.popleft().connection if self._is_late() else None
                come = self._come.popleft() if late is None and self._come else None
                left = self._until_late()
                if late is None and come is None:
                    if self._ending:
                        # Whoever has waited for what we might have read ends too.
                        self._work.notify_all()
                        return
                    self._news.clear()
            if late is not None:
                self._turn_away(late, errors.TurnTooLate())
            elif come is not None:
                self._receive(come)
            elif left is None:
                self._news.wait()
            else:
                self._clock.wait(self._news, left)

    def _receive(self, connection: Connection) -> None:
        waits = False
        try:
            waits = connection.receive()
        except OSError as exc:
            LOG.debug('Client is lost: %s', exc)
        except Exception:
            LOG.exception('Cannot read from a connection')
        if not waits:
            self._give_back(connection, False)
            return
        with self._work:
            if self._give(connection):
                return
            if len(self._parked) < self._size:
                self._parked.append(_Parked(connection,
                                            self._clock.monotonic() + self._seconds))
                self._news.set()
                return
        self._turn_away(connection, errors.QueueFull())

    def _turn_away(self, connection: Connection, error: errors.BlockattachError) -> None:
        self._refused(error.code)
        connection.refuse(error)
        self._serve(connection)

    def _is_late(self) -> bool:
        return bool(self._parked) and self._parked[0].until <= self._clock.monotonic()

    def _until_late(self) -> float | None:
        return max(self._parked[0].until - self._clock.monotonic(), 0) if self._parked else None
