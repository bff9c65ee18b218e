"""Acts that are taken back, the last one first, when a later one fails."""
import types
from collections.abc import Callable
from typing import Self
from typing import TextIO


class Undo:
    """Within ``with``: what was done, and how it is undone if the block fails.

    An act that cannot be undone is said, with what to do, and keeps no other from being undone.
    """

    def __init__(self, said: TextIO) -> None:
        self._said = said
        self._acts: list[tuple[str, Callable[[], None], str]] = []

    def by(self, undone: str, act: Callable[[], None], remedy: str) -> None:
        """What was just done is undone by this.

        :param undone: the rollback as a noun phrase, such as "deletion of attachment ID"
        :param remedy: what a person does where the act fails
        """
        self._acts.append((undone, act, remedy))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _exc: BaseException | None,
                 _trace: types.TracebackType | None) -> None:
        if kind is None:
            return
        for undone, act, remedy in reversed(self._acts):
            try:
                act()
            except Exception as exc:
                self._said.write(f'Rollback failed: {undone}. {exc} {remedy}\n')
            else:
                self._said.write(f'Rollback completed: {undone}.\n')
