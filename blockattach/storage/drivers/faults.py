"""Injection of planned faults into the methods of fake drivers."""
import collections
import contextlib
import enum
import functools
import os
import threading
from collections.abc import Callable
from typing import Any
from typing import Concatenate
from typing import ParamSpec
from typing import TypeVar

from blockattach.platform import clock as clocks
from blockattach.platform import errors

_P = ParamSpec('_P')
_R = TypeVar('_R')
_SLOWEST = 60.0
_LOOK = 0.1
_SLOWED = ('grant', 'revoke')


class Fault(enum.Enum):
    """Kind of failure of a method of a fake driver.

    A method that raises BackendUncertain fails either before or after it has changed the state of
    the driver.
    """

    REFUSED = 'refused'
    FULL = 'full'
    UNCERTAIN_BEFORE = 'uncertain before'
    UNCERTAIN_AFTER = 'uncertain after'


class Faults:
    """Planned faults of a fake driver by method, with a counter of the calls of each method."""

    def __init__(self, hold_file: str | None = None) -> None:
        """Create an empty plan.

        :param hold_file: path of a file that another process creates to slow the backend down.
            While the file exists, each grant and revoke waits. The file contains the longest wait
            in seconds. An empty file means 60 seconds.
        """
        self._hold_file = hold_file
        self._clock = clocks.Clock()
        self._lock = threading.Lock()
        self._planned: dict[str, list[Fault]] = {}
        self._held: dict[str, tuple[threading.Event, bool]] = {}
        self.calls: collections.Counter[str] = collections.Counter()

    def plan(self, method: str, fault: Fault, times: int = 1) -> None:
        """Plan a fault for ``times`` calls of a method.

        The calls follow those for which a fault has been planned earlier.
        """
        with self._lock:
            self._planned.setdefault(method, []).extend([fault] * times)

    def hold(self, method: str, once: bool = False) -> threading.Event:
        """Make every call of a method wait until the returned event is set.

        A call waits for 60 seconds at most.

        :param once: True to hold only the next call
        """
        event = threading.Event()
        with self._lock:
            self._held[method] = event, once
        return event

    def clear(self) -> None:
        """Cancel all planned faults and release the waiting calls."""
        with self._lock:
            self._planned.clear()
            held = list(self._held.values())
            self._held.clear()
        for event, _ in held:
            event.set()

    def _slow(self) -> None:
        """Wait while the hold file exists, for at most the number of seconds in the file."""
        path = self._hold_file
        if path is None:
            return
        with contextlib.suppress(FileNotFoundError):
            with open(path, encoding='ascii') as file:
                most = float(file.read() or _SLOWEST)
            self._clock.until(lambda: not os.path.exists(path), most, _LOOK)

    def enter(self, method: str) -> Fault | None:
        """Count a call of a method, wait if the call is held, and raise the planned fault.

        The decorator `faulty` calls this method before it runs the decorated method.

        :returns: fault that the caller must raise after the method has run, or None
        :raises BackendRefused, BackendFull, BackendUncertain: as planned
        """
        with self._lock:
            self.calls[method] += 1
            event, once = self._held.get(method, (None, False))
            if once:
                del self._held[method]
        if event is not None:
            event.wait(_SLOWEST)
        with self._lock:
            planned = self._planned.get(method)
            fault = planned.pop(0) if planned else None
        if fault is Fault.REFUSED:
            raise errors.BackendRefused(reason=f'{method} refused as planned')
        if fault is Fault.FULL:
            raise errors.BackendFull(size_gb='?', reason=f'{method} refused as planned')
        if fault is Fault.UNCERTAIN_BEFORE:
            raise errors.BackendUncertain(reason=f'{method} lost as planned')
        if method in _SLOWED:
            self._slow()
        return fault


def faulty(method: Callable[Concatenate[Any, _P], _R]) -> Callable[Concatenate[Any, _P], _R]:
    """Decorate a method of a fake driver.

    The decorated method raises the planned ``faults`` of the driver, and runs under its ``lock``.
    """
    name = method.__name__

    @functools.wraps(method)
    def wrapped(self: Any, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        fault = self.faults.enter(name)
        with self.lock:
            result = method(self, *args, **kwargs)
        if fault is Fault.UNCERTAIN_AFTER:
            raise errors.BackendUncertain(reason=f'answer of {name} lost as planned')
        return result
    return wrapped
