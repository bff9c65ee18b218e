"""Configuration files that are read again when an operator changes them, and their permissions."""
import contextlib
import logging
import os
import shlex
import stat
import threading
from collections.abc import Callable
from collections.abc import Iterable
from typing import Generic
from typing import TypeVar

from blockattach.platform import errors
from blockattach.platform.log import fields

LOG = logging.getLogger(__name__)

_OTHERS = 0o077
T = TypeVar('T')
Marks = tuple[tuple[str, int, int, int], ...]
"""Path, inode, modification time in nanoseconds and size of each existing file."""


def marks(paths: Iterable[str]) -> Marks:
    """Return values that differ after any of the files has changed. Missing files are left out."""
    found = []
    for path in paths:
        with contextlib.suppress(OSError):
            facts = os.stat(path)
            # With the inode, because a replaced file may have the time and size of the old one.
            found.append((path, facts.st_ino, facts.st_mtime_ns, facts.st_size))
    return tuple(found)


class ChangingFile(Generic[T]):
    """Parsed content of a file, read again after a change.

    If a changed file cannot be read or is invalid, the error is logged once and the previous
    content stays in use.
    """

    def __init__(self, path: str, parse: Callable[[str], T]) -> None:
        """
        :param parse: function that converts the text of the file, and raises ConfigurationError if
            the text is invalid
        :raises ConfigurationError: the file cannot be read or is invalid
        """
        self._path = path
        self._parse = parse
        self._lock = threading.Lock()
        # Before the file is read, so that a change in the meantime is noticed.
        self._marks = marks([path])
        self._wrong: str | None = None
        self._said = self._read()

    def said(self) -> T:
        """Return the parsed content of the file, which is read again if the file has changed."""
        found = marks([self._path])
        if found != self._marks:
            # Under the lock, so that no caller gets the old content after another caller got the
            # new content.
            with self._lock:
                if found != self._marks:
                    self._read_anew()
                    self._marks = found
        return self._said

    def wrong(self) -> str | None:
        """Return the reason why the changed file cannot be read, or None if it was read."""
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
        # Logged without the exception, because its text is the reason.
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


def check_private(path: str) -> None:
    """Check that a file or folder is accessible to its owner only.

    :raises ConfigurationError: other users have access; the text of the error contains the command
        that removes their access
    """
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if mode & _OTHERS:
        private = 0o700 if os.path.isdir(path) else 0o600
        raise errors.ConfigurationError(
            reason=f'{path} is accessible to other users (mode {mode:04o}). Run: '
                   f'chmod {private:o} {shlex.quote(path)}')
