"""Files that an operator may change while a process runs."""
import contextlib
import logging
import os
import threading
from collections.abc import Callable
from collections.abc import Iterable
from typing import Generic
from typing import TypeVar

from blockattach.platform import errors
from blockattach.platform.log import fields

LOG = logging.getLogger(__name__)

T = TypeVar('T')
Marks = tuple[tuple[str, int, int, int], ...]
"""Path, inode, time of the last change and size of each file that is there."""


def marks(paths: Iterable[str]) -> Marks:
    """What differs as soon as one of these files does; what is missing is left out."""
    found = []
    for path in paths:
        with contextlib.suppress(OSError):
            facts = os.stat(path)
            found.append((path, facts.st_ino, facts.st_mtime_ns, facts.st_size))
    return tuple(found)


class ChangingFile(Generic[T]):
    """What one file says, read again when it has changed.

    A change that cannot be read is logged once, and its former content stays in force.
    """

    def __init__(self, path: str, parse: Callable[[str], T]) -> None:
        """
        :param parse: from the text to what it says; raises ConfigurationError
        :raises ConfigurationError: it cannot be read
        """
        self._path = path
        self._parse = parse
        self._lock = threading.Lock()
        self._marks = marks([path])
        self._wrong: str | None = None
        self._said = self._read()

    def said(self) -> T:
        """What it says now."""
        found = marks([self._path])
        if found != self._marks:
            # No caller gets the old content after another one got the new.
            with self._lock:
                if found != self._marks:
                    self._read_anew()
                    self._marks = found
        return self._said

    def wrong(self) -> str | None:
        """Return the reason why the file cannot be read, or None if it can."""
        self.said()
        return self._wrong

    def _read_anew(self) -> None:
        try:
            self._said = self._read()
            self._wrong = None
        except errors.ConfigurationError as exc:
            self._wrong = reason = str(exc)
        else:
            LOG.info('Changed file reloaded%s', fields(path=self._path))
            return
        # Beside the exception it would be logged twice.
        LOG.error('Failed to reload changed file, keeping the previous content%s',
                  fields(reason=reason))

    def _read(self) -> T:
        try:
            with open(self._path, encoding='utf-8') as file:
                text = file.read()
        except (OSError, ValueError) as exc:
            raise errors.ConfigurationError(
                reason=f'cannot read {self._path}: {getattr(exc, "strerror", None) or exc}'
            ) from exc
        try:
            return self._parse(text)
        except errors.ConfigurationError as exc:
            raise errors.ConfigurationError(reason=f'cannot read {self._path}: {exc}') from exc
