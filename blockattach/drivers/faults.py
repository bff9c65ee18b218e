"""Faults that a fake driver can be told to show: what a real backend does at its worst."""
import enum
import functools
import threading
from collections.abc import Callable
from typing import Any
from typing import Concatenate
from typing import ParamSpec
from typing import TypeVar

from blockattach import errors

_P = ParamSpec('_P')
_R = TypeVar('_R')
_SLOWEST = 60.0


class Fault(enum.Enum):
    """How a call fails."""

    REFUSED = 'refused'
    FULL = 'full'
    UNCERTAIN_BEFORE = 'uncertain before'
    UNCERTAIN_AFTER = 'uncertain after'


class Faults:
    """What shall go wrong next, method by method. Also counts the calls."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._planned: dict[str, list[Fault]] = {}
        self._held: dict[str, threading.Event] = {}
        self.calls: dict[str, int] = {}

    def plan(self, method: str, fault: Fault, times: int = 1) -> None:
        """Let the next ``times`` calls of a method fail so; plans queue up."""
        with self._lock:
            self._planned.setdefault(method, []).extend([fault] * times)

    def hold(self, method: str) -> threading.Event:
        """Let every call of a method wait until the returned event is set."""
        event = threading.Event()
        with self._lock:
            self._held[method] = event
        return event

    def clear(self) -> None:
        """Nothing goes wrong any more; who waits goes on."""
        with self._lock:
            self._planned.clear()
            held = list(self._held.values())
            self._held.clear()
        for event in held:
            event.set()

    def enter(self, method: str) -> Fault | None:
        """Called by the fake before it acts; waits and raises as planned."""
        with self._lock:
            self.calls[method] = self.calls.get(method, 0) + 1
            held = self._held.get(method)
        if held is not None:
            held.wait(_SLOWEST)
        with self._lock:
            planned = self._planned.get(method)
            fault = planned.pop(0) if planned else None
        if fault is Fault.REFUSED:
            raise errors.BackendRefused(reason=f'{method} refused as planned')
        if fault is Fault.FULL:
            raise errors.BackendFull(size_gb='?', reason=f'{method} refused as planned')
        if fault is Fault.UNCERTAIN_BEFORE:
            raise errors.BackendUncertain(reason=f'{method} lost as planned')
        return fault


def faulty(method: Callable[Concatenate[Any, _P], _R]) -> Callable[Concatenate[Any, _P], _R]:
    """Let a fake's method show the faults planned in its ``faults``."""
    name = method.__name__

    @functools.wraps(method)
    def wrapped(self: Any, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        fault = self.faults.enter(name)
        result = method(self, *args, **kwargs)
        if fault is Fault.UNCERTAIN_AFTER:
            raise errors.BackendUncertain(reason=f'answer of {name} lost as planned')
        return result
    return wrapped
