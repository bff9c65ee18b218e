"""The checks of one process.

Each has a thread of its own, so a reader is answered at once, even while a check hangs; and a
check that hangs does not delay another.
"""
import contextlib
import os
from collections.abc import Callable

from oslo_log import log as oslo_log

from blockattach.platform import clock as clocks
from blockattach.platform import errors
from blockattach.platform import log
from blockattach.platform import periodic
from blockattach.platform.conf import health as health_conf
from blockattach.platform.health import report

LOG = oslo_log.getLogger(__name__)

Check = Callable[[], str | None]
"""Returns what is wrong, in a line without secrets; None: nothing."""


class _Watch:
    """One check, and what it found last."""

    def __init__(self, name: str, check: Check, interval: float, clock: clocks.Clock,
                 changed: Callable[[], None], begin: periodic.Begin | None,
                 hinders: bool) -> None:
        self.name = name
        self.hinders = hinders
        self._check = check
        self._changed = changed
        self._clock = clock
        self._wrong: str | None = 'has not been checked yet'
        self._looked_at = clock.monotonic()
        self.task = periodic.Periodic(f'check-{name}', self.look, interval, clock, begin)

    def look(self) -> None:
        """Check now."""
        try:
            wrong = self._check()
        except Exception as error:
            wrong = f'the check failed: {type(error).__name__}'
        before = self._wrong
        self._wrong, self._looked_at = wrong, self._clock.monotonic()
        if wrong == before:
            return
        self._changed()
        if wrong is not None:
            LOG.warning('Health check failed%s', log.fields(check=self.name, reason=wrong))

    def wrong(self, interval: float) -> str | None:
        """What was found last; a check that hangs has found something wrong.

        :param interval: in which it is made
        """
        silent = self._clock.monotonic() - self._looked_at
        if silent > report.MISSED_INTERVALS * interval:
            return f'has not answered for {silent:.0f} seconds'
        return self._wrong


class Monitor:
    """May be asked from any thread."""

    def __init__(self, process: str, settings: health_conf.HealthSettings,
                 clock: clocks.Clock, begin: periodic.Begin | None = None) -> None:
        """
        :param begin: makes the threads; None: those of the standard library
        """
        self._process = process
        self._clock = clock
        self._begin = begin
        self._path = settings.file
        self._interval: float = settings.interval
        self._stopping = False
        self._watches: list[_Watch] = []
        self._writing = periodic.Periodic('health', self._write, settings.interval, clock, begin)

    def add(self, name: str, check: Check, hinders: bool = True) -> None:
        """Add a check before the monitor is started.

        :param hinders: True if the process is not ready while the check fails; False if the
            failure is only shown
        """
        self._watches.append(_Watch(name, check, self._interval, self._clock,
                                    self._writing.poke, self._begin, hinders))

    def start(self) -> None:
        """Check from now on.

        :raises ConfigurationError: the file cannot be written
        """
        try:
            self._write()
        except OSError as exc:
            raise errors.ConfigurationError(
                reason=f'cannot write {self._path}: {exc.strerror}') from exc
        for watch in self._watches:
            watch.task.start()
        self._writing.start()

    def look(self) -> None:
        """Make every check once, one after the other."""
        for watch in self._watches:
            watch.look()

    def stopping(self) -> None:
        """Say from now on that the process ends."""
        self._stopping = True
        self._writing.poke()

    def stop(self) -> None:
        """Stop checking; a check that hangs is not waited for. A repeat does nothing."""
        for watch in self._watches:
            watch.task.leave()
        self._writing.stop()
        if self._stopping:
            with contextlib.suppress(OSError):
                self._write()

    def every(self, interval: float) -> None:
        """Check in these intervals, in seconds, from now on."""
        self._interval = interval
        for watch in self._watches:
            watch.task.every(interval)
        self._writing.every(interval)

    def findings(self) -> dict[str, str | None]:
        """What is wrong by every check, as it was found last; None: nothing."""
        return {watch.name: watch.wrong(self._interval) for watch in self._watches}

    def _write(self) -> None:
        if not self._path:
            return
        wrong = {name: found for name, found in self.findings().items() if found}
        hindered = any(watch.hinders and watch.name in wrong for watch in self._watches)
        state = (report.State.STOPPING if self._stopping
                 else report.State.NOT_READY if hindered else report.State.READY)
        report.write(self._path, report.Report(
            self._process, os.getpid(), state, self._clock.utcnow(), self._interval, wrong))
