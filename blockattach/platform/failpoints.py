"""Failpoints: named places in the code where tests inject failures.

While no failpoint is armed, a failpoint costs only a function call. The name of a failpoint
contains its place:

* ``<package>.<module>.<moment>``: in the code of an operation
* ``db.<module>.<function>.before`` and ``.after``: around a database operation
* ``work.<noun>.<verb>.before`` and ``.after``: around asynchronous work
* ``rpc.<interface>.<method>.<moment>``: on the message bus
* ``backend.<part>.<verb>.before`` and ``.after``: around a call of a backend driver

The page "Failpoints" of the documentation lists all failpoints.

The service never arms a failpoint by itself. Unit tests arm a failpoint with a function. Operators
and tests of whole processes use the option ``[failpoints] armed`` with values ``NAME=ACTION``,
where the action is one of `ACTIONS`. With ``NAME=ACTION*3``, the action runs only the first three
times.
"""
import enum
import functools
import os
import signal
import threading
from collections.abc import Callable
from collections.abc import Iterable

from blockattach.platform import errors


class Effect(enum.Enum):
    """Effect of an action on the message at an RPC failpoint; ignored at other failpoints."""

    DROP = 'drop'
    """The message or the reply is lost."""
    DUPLICATE = 'duplicate'
    """The message is delivered twice."""


Action = Callable[[], Effect | None]
_EVERY = ''

_armed: dict[str, Callable[..., Effect | None]] = {}


class Reached(Exception):
    """Unexpected exception that the action ``raise`` raises at a failpoint."""


def point(name: str) -> Effect | None:
    """Run the action of a failpoint, if the failpoint is armed.

    :returns: effect on the RPC message; None for no effect
    """
    if _armed:
        action = _armed.get(name)
        if action is not None:
            return action()
        every = _armed.get(_EVERY)
        if every is not None:
            return every(name)
    return None


def arm(name: str, action: Action) -> None:
    """Arm a failpoint with an action, which runs each time the failpoint is reached."""
    _armed[name] = action


def disarm(name: str) -> None:
    """Remove the action of a failpoint."""
    _armed.pop(name, None)


def arm_every(action: Callable[[str], Effect | None]) -> None:
    """Arm all failpoints without an action of their own. ``action`` gets the failpoint name."""
    _armed[_EVERY] = action


def disarm_every() -> None:
    """Remove the action set by `arm_every`."""
    _armed.pop(_EVERY, None)


def configure(texts: Iterable[str]) -> None:
    """Arm failpoints given as ``NAME=ACTION[:SECONDS][*TIMES]``.

    :raises ConfigurationError: an item of ``texts`` is malformed or contains an unknown action
    """
    for text in texts:
        name, _, effect = text.partition('=')
        effect, _, times = effect.partition('*')
        kind, _, value = effect.partition(':')
        try:
            action = functools.partial(
                ACTIONS[kind], name, float(value) if kind == 'delay' else 0.0)
            arm(name, action if not times else _first(int(times), action))
        except (KeyError, ValueError):
            raise errors.ConfigurationError(
                reason=f'cannot arm a failpoint by {text!r}: use NAME=ACTION, where the action '
                       f'is raise, kill, drop, duplicate or delay:SECONDS, and *TIMES may '
                       f'follow') from None


def _first(times: int, action: Action) -> Action:
    left = iter(range(times))

    def some() -> Effect | None:
        return None if next(left, None) is None else action()
    return some


def _raise(name: str, _seconds: float) -> Effect | None:
    raise Reached(f'failpoint {name}')


def _kill(_name: str, _seconds: float) -> Effect | None:
    os.kill(os.getpid(), signal.SIGKILL)
    return None


def _delay(_name: str, seconds: float) -> Effect | None:
    threading.Event().wait(seconds)
    return None


ACTIONS: dict[str, Callable[[str, float], Effect | None]] = {
    'raise': _raise,
    'delay': _delay,
    'kill': _kill,
    'drop': lambda name, seconds: Effect.DROP,
    'duplicate': lambda name, seconds: Effect.DUPLICATE,
}
"""Actions by name. An action is called with the name of the failpoint and a delay in seconds."""
