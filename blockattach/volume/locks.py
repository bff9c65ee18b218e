"""Locks by name inside one process. Between processes, exclusion is the transitional row.

What concerns a volume as a whole (make, remove, unexport) is done alone; grant and revoke go on
side by side, one at a time per (volume, initiator), so that a hundred hosts join one volume in
parallel.
"""
import contextlib
import threading
from collections.abc import Hashable
from collections.abc import Iterator
from typing import Any

from blockattach.telemetry import threads


class NamedLocks:
    """A lock per name; a name costs nothing once nobody holds it."""

    def __init__(self, waiting: threads.Threads | None = None) -> None:
        self._waiting = waiting or threads.Threads()
        self._guard = threading.Lock()
        self._locks: dict[Hashable, tuple[contextlib.AbstractContextManager[Any], int]] = {}

    def held(self, name: Hashable) -> bool:
        """Whether anybody holds the lock of a name now, or waits for it."""
        with self._guard:
            return name in self._locks

    def names(self) -> list[str]:
        """All that somebody holds now, or waits for."""
        with self._guard:
            return [_shown(name) for name in self._locks]

    @contextlib.contextmanager
    def holding(self, name: Hashable) -> Iterator[None]:
        """Hold the lock of one name."""
        with self._guard:
            lock, users = self._locks.get(name, (None, 0))
            lock = lock or self._waiting.lock()
            self._locks[name] = (lock, users + 1)
        try:
            with lock:
                yield
        finally:
            with self._guard:
                lock, users = self._locks[name]
                if users == 1:
                    del self._locks[name]
                else:
                    self._locks[name] = (lock, users - 1)


class SharedLocks:
    """A lock per name that many hold together, or one holds alone; a free one costs nothing."""

    def __init__(self, waiting: threads.Threads | None = None) -> None:
        self._changed = (waiting or threads.Threads()).condition()
        self._sharing: dict[Hashable, int] = {}
        self._alone: set[Hashable] = set()

    def names(self) -> list[str]:
        """All that are held now, and how."""
        with self._changed:
            return [*(f'{_shown(name)} alone' for name in self._alone),
                    *(f'{_shown(name)} by {users}' for name, users in self._sharing.items())]

    @contextlib.contextmanager
    def shared(self, name: Hashable) -> Iterator[None]:
        """Hold it together with whoever else shares it."""
        with self._changed:
            self._changed.wait_for(lambda: name not in self._alone)
            self._sharing[name] = self._sharing.get(name, 0) + 1
        try:
            yield
        finally:
            with self._changed:
                self._sharing[name] -= 1
                if not self._sharing[name]:
                    del self._sharing[name]
                    self._changed.notify_all()

    @contextlib.contextmanager
    def alone(self, name: Hashable) -> Iterator[None]:
        """Hold it while nobody else does."""
        with self._changed:
            self._changed.wait_for(
                lambda: name not in self._alone and name not in self._sharing)
            self._alone.add(name)
        try:
            yield
        finally:
            with self._changed:
                self._alone.remove(name)
                self._changed.notify_all()


def _shown(name: Hashable) -> str:
    return ' '.join(map(str, name)) if isinstance(name, tuple) else str(name)
