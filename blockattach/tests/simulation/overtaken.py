"""Whom one has shut out who had lost his turn while he did it.

Nothing can prevent that: between his last look at his turn and his act any time may pass. What he
owes is to put it right himself, and at once. Until then he is excused.
"""
import contextlib
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

from blockattach.tests.simulation import baton as batons

_Pair = tuple[str, str]


class Overtaken:
    """Pairs of volume and initiator that were hit so, and are not put right yet."""

    def __init__(self, baton: batons.Baton) -> None:
        self.turn_of: Callable[[str, str], str | None] = lambda volume_id, initiator: None
        """Who has the turn of a pair now; None: nobody, or none is needed."""
        self._baton = baton
        self._hit: dict[_Pair, batons.Task | None] = {}
        """By whom; None: he has tried to put it right, and was refused."""

    def excuses(self, volume_id: str, initiator: str | None) -> bool:
        """Whether who did it is at it still, or has died or failed over it."""
        if initiator is None or (volume_id, initiator) not in self._hit:
            return False
        task = self._hit[volume_id, initiator]
        return task is None or task.process.dead or task in task.process.tasks

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
