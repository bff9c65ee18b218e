"""Named points in the code where something can be made to fail. Off: one dictionary look-up.

A point's name says where it is: ``<package>.<module>.<moment>`` in the code of a verb,
``db.<module>.<verb>.before`` and ``.after`` around each verb of the database,
``work.<noun>.<verb>.before`` and ``.after`` around work,
``rpc.<interface>.<method>.<moment>`` on the bus, ``backend.<part>.<verb>.before`` and ``.after``
around each act on a backend. The page "Failpoints" of the documentation lists them all.

The service never arms one by itself. A test arms a point with an action of its own; an operator,
or a test of whole processes, by ``[failpoints] armed``: ``NAME=ACTION``, where the action is one
of `ACTIONS`; with ``NAME=ACTION*3`` it happens the first three times only.
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
    """What an action returns to the sender or receiver of a message; ignored elsewhere."""

    DROP = 'drop'
    """The message, or the answer, is lost."""
    DUPLICATE = 'duplicate'
    """The message comes twice."""


Action = Callable[[], Effect | None]
_EVERY = ''

_armed: dict[str, Callable[..., Effect | None]] = {}


class Reached(Exception):
    """Raised where a point is armed with ``raise``: an error that nobody foresees."""


def point(name: str) -> Effect | None:
    """Run the action armed at this point, if there is one."""
    if _armed:
        action = _armed.get(name)
        if action is not None:
            return action()
        every = _armed.get(_EVERY)
        if every is not None:
            return every(name)
    return None


def arm(name: str, action: Action) -> None:
    """Let ``action`` run whenever the point is passed."""
    _armed[name] = action


def disarm(name: str) -> None:
    """Make the point pass silently again."""
    _armed.pop(name, None)


def arm_every(action: Callable[[str], Effect | None]) -> None:
    """Let ``action`` run, with its name, at every point that is not armed by itself."""
    _armed[_EVERY] = action


def disarm_every() -> None:
    """Undo `arm_every`."""
    _armed.pop(_EVERY, None)


def configure(texts: Iterable[str]) -> None:
    """Arm points by ``NAME=ACTION[:SECONDS][*TIMES]``.

    :raises ConfigurationError: one cannot be understood
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
"""What an armed point does, by the name of the action; a delay lasts so many seconds."""
