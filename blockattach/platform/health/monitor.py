"""Periodic health checks of one process.

Each check has its own thread. The last results are therefore available immediately while a check
hangs, and the check that hangs does not delay the other checks.
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
"""Health check that returns the failure in one line without secrets, or None if it passed."""


class _Watch:
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
        try:
            wrong = self._check()
        except Exception as error:
            # Without the text of the exception, which may contain a secret.
            wrong = f'the check failed: {type(error).__name__}'
        before = self._wrong
        self._wrong, self._looked_at = wrong, self._clock.monotonic()
        if wrong == before:
            return
        self._changed()
        if wrong is not None:
            LOG.warning('Health check failed%s', log.fields(check=self.name, reason=wrong))

    def wrong(self, interval: float) -> str | None:
        """Return the last failure of the check, or None if it passed. A hanging check has failed.

        :param interval: seconds between two runs of the check
        """
        # The check itself cannot report that it hangs.
        silent = self._clock.monotonic() - self._looked_at
        if silent > report.MISSED_INTERVALS * interval:
            return f'has not answered for {silent:.0f} seconds'
        return self._wrong


class Monitor:
    """Health checks of a process and their report. Safe to use from several threads."""

    def __init__(self, process: str, settings: health_conf.HealthSettings,
                 clock: clocks.Clock, begin: periodic.Begin | None = None) -> None:
        """
        :param begin: function that creates the threads; None to use `threading`
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
        """Add a check. Must be called before `start`.

        :param hinders: True if the process is not ready while the check fails; False if the
            failure is only shown
        """
        self._watches.append(_Watch(name, check, self._interval, self._clock,
                                    self._writing.poke, self._begin, hinders))

    def start(self) -> None:
        """Write the first report and start the checks.

        :raises ConfigurationError: the report file cannot be written
        """
        # In this thread, so that a wrong path ends the start. The periodic task would only log
        # the error.
        try:
            self._write()
        except OSError as exc:
            raise errors.ConfigurationError(
                reason=f'cannot write {self._path}: {exc.strerror}') from exc
        for watch in self._watches:
            watch.task.start()
        self._writing.start()

    def look(self) -> None:
        """Run all checks once, one after the other."""
        for watch in self._watches:
            watch.look()

    def stopping(self) -> None:
        """Change the state in the report to ``stopping``."""
        self._stopping = True
        self._writing.poke()

    def stop(self) -> None:
        """Stop the checks without waiting for a check that hangs. May be called repeatedly."""
        for watch in self._watches:
            # A check that hangs must not keep the process from stopping.
            watch.task.leave()
        self._writing.stop()
        # Once more, because the task may have ended before it wrote the new state.
        if self._stopping:
            with contextlib.suppress(OSError):
                self._write()

    def every(self, interval: float) -> None:
        """Set the interval of the checks and of the report, in seconds."""
        self._interval = interval
        for watch in self._watches:
            watch.task.every(interval)
        self._writing.every(interval)

    def findings(self) -> dict[str, str | None]:
        """Return the last failure of each check by check name. A check that passed has None."""
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
