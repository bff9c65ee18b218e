"""Rollback of completed steps, in reverse order, when a later step fails."""
import types
from collections.abc import Callable
from typing import Self
from typing import TextIO


class Undo:
    """Context manager that rolls completed steps back if the block fails.

    If a step cannot be rolled back, its remedy is printed, and the rollback continues with the
    other steps.
    """

    def __init__(self, said: TextIO) -> None:
        self._said = said
        self._acts: list[tuple[str, Callable[[], None], str]] = []

    def by(self, undone: str, act: Callable[[], None], remedy: str) -> None:
        """Register the rollback of a step that has just been completed.

        :param undone: description of the rollback, such as "deletion of attachment ID"
        :param act: function that rolls the step back
        :param remedy: advice for the user if the rollback fails
        """
        self._acts.append((undone, act, remedy))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _exc: BaseException | None,
                 _trace: types.TracebackType | None) -> None:
        if kind is None:
            return
        # Any exception rolls back, including KeyboardInterrupt.
        for undone, act, remedy in reversed(self._acts):
            try:
                act()
            except Exception as exc:
                self._said.write(f'Rollback failed: {undone}. {exc} {remedy}\n')
            else:
                self._said.write(f'Rollback completed: {undone}.\n')
