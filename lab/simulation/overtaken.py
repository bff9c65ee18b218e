"""Hosts revoked by a process that had meanwhile lost its lease.

The service cannot prevent that, because any time may pass between the last check of the lease and
the operation of the backend. The process must repair the pair itself, immediately: its thread
enqueues the pair for the repair worker. The violation is excused until both have ended.
"""
import contextlib
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

from lab.simulation import baton as batons

_Pair = tuple[str, str]
_WORKER = 'repairer'


class Overtaken:
    """Pairs of volume and initiator that were wrongly revoked and are not repaired yet."""

    def __init__(self, baton: batons.Baton) -> None:
        self.turn_of: Callable[[str, str], str | None] = lambda volume_id, initiator: None
        """Returns the current holder of the lease of a pair; None without a holder."""
        self._baton = baton
        self._hit: dict[_Pair, batons.Task | None] = {}
        """Thread that revoked the pair; None if the backend refused an attempt to repair it."""

    def excuses(self, volume_id: str, initiator: str | None) -> bool:
        """Return True if the revoking process may still repair the pair, or has died or failed."""
        if initiator is None or (volume_id, initiator) not in self._hit:
            return False
        task = self._hit[volume_id, initiator]
        return task is None or task.process.dead or any(
            one is task or one.name == _WORKER for one in task.process.tasks)

    @contextlib.contextmanager
    def watching(self, verb: str, arguments: tuple[Any, ...]) -> Iterator[Callable[[], None]]:
        """Watch an operation of a backend. The caller calls the yielded function after it."""
        pair = _pair_of(verb, arguments)
        if pair is None:
            yield lambda: None
            return
        turn, acted = self.turn_of(*pair), False

        def done() -> None:
            nonlocal acted
            acted = True
            if verb == 'revoke' and turn is not None and self.turn_of(*pair) != turn:
                self._hit[pair] = self._baton.current
            else:
                self._hit.pop(pair, None)
        try:
            yield done
        except Exception:
            if pair in self._hit and not acted:
                self._hit[pair] = None
            raise


def _pair_of(verb: str, arguments: tuple[Any, ...]) -> _Pair | None:
    if verb == 'revoke':
        volume_id, initiator = arguments
        return volume_id, initiator
    if verb == 'grant':
        return arguments[1].volume_id, arguments[1].initiator
    return None
