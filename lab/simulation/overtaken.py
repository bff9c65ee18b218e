"""Hosts that were revoked by a process that had lost its lease meanwhile.

Nothing can prevent that: between its last check of the lease and its act any time may pass. The
process has to repair the pair itself, and at once: its thread enqueues it for the repair worker.
Until both have ended it is excused.
"""
import contextlib
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

from lab.simulation import baton as batons

_Pair = tuple[str, str]
_WORKER = 'repairer'


class Overtaken:
    """Pairs of volume and initiator that were hit so, and are not repaired yet."""

    def __init__(self, baton: batons.Baton) -> None:
        self.turn_of: Callable[[str, str], str | None] = lambda volume_id, initiator: None
        """The holder of the lease of a pair now; None: there is none, or none is needed."""
        self._baton = baton
        self._hit: dict[_Pair, batons.Task | None] = {}
        """By which thread; None: one has tried to repair the pair, and was refused."""

    def excuses(self, volume_id: str, initiator: str | None) -> bool:
        """Whether the process is still acting, or has died or failed meanwhile."""
        if initiator is None or (volume_id, initiator) not in self._hit:
            return False
        task = self._hit[volume_id, initiator]
        return task is None or task.process.dead or any(
            one is task or one.name == _WORKER for one in task.process.tasks)

    @contextlib.contextmanager
    def watching(self, verb: str, arguments: tuple[Any, ...]) -> Iterator[Callable[[], None]]:
        """While a backend is asked; what is returned is called as soon as it has acted."""
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
