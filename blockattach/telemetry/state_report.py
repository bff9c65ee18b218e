"""What a process is doing, for whoever must find out why it does not go on: oslo.reports.

Asked for by SIGUSR2 or by touching a file, and made in a thread of its own that waits from the
start: whatever hangs, it does not hold this up, and no signal interrupts somebody who holds a lock
that the report needs. Options that hold secrets are masked; rows, credentials and what threads
have in their hands are never shown.
"""
import os
import queue
import sys
import threading
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from oslo_config import cfg
from oslo_log import log as oslo_log
from oslo_reports import opts

from blockattach import clock as clocks
from blockattach import errors
from blockattach import log
from blockattach import periodic
from blockattach.telemetry import acts

LOG = oslo_log.getLogger(__name__)

GROUP = 'oslo_reports'

Section = Callable[[], Mapping[str, Any]]
"""Names and values, which may be mappings and lists again."""


class StateReport:
    """The report of one process."""

    def __init__(self, process: str, conf: cfg.ConfigOpts, telemetry: acts.Telemetry,
                 clock: clocks.Clock) -> None:
        self._process = process
        self._conf = conf
        self._clock = clock
        self._telemetry = telemetry
        self._sections: dict[str, Section] = {}
        self._asked: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._writing = threading.Thread(target=self._write_each, name='state-report',
                                         daemon=True)
        self._watching: periodic.Periodic | None = None

    def add(self, title: str, section: Section) -> None:
        """Tell this too."""
        self._sections[title] = section

    def start(self) -> None:
        """Be ready to be asked.

        :raises ConfigurationError: the file to watch is not there
        """
        group = self._conf[GROUP]
        if group.file_event_handler:
            trigger = _Trigger(group.file_event_handler, self.ask)
            self._watching = periodic.Periodic('state-report-file', trigger.look,
                                               group.file_event_handler_interval, self._clock)
            self._watching.start()
        self._writing.start()

    def ask(self) -> None:
        """Make a report soon. May be called by who handles a signal."""
        self._asked.put(True)

    def stop(self) -> None:
        """Make none any more."""
        if self._watching is not None:
            self._watching.stop()
        if self._writing.is_alive():
            self._asked.put(False)
            self._writing.join()

    def text(self) -> str:
        """The report as it is now."""
        # Loaded by the first who asks: few processes are ever asked.
        from blockattach.telemetry import state_text

        return state_text.render(self._process, self._conf, {
            'Calls in progress': self._calls, 'Measures': self._measures, **self._sections})

    def _calls(self) -> dict[str, Any]:
        return {f'{number} {act.row.name.removesuffix("_seconds")}': {
                    **act.labels, 'seconds': f'{act.seconds():.3f}',
                    'request_id': act.context.request_id if act.context else None}
                for number, act in enumerate(self._telemetry.acts(), 1)}

    def _measures(self) -> dict[str, Any]:
        return {row.name: {' '.join(labels) or '-': value for labels, value in found.items()}
                for row, found in self._telemetry.readings.now().items()}

    def _write_each(self) -> None:
        while self._asked.get():
            try:
                self._write(self.text())
            except Exception:
                LOG.exception('Cannot report the state')

    def _write(self, text: str) -> None:
        folder = self._conf[GROUP].log_dir
        if not folder:
            sys.stderr.write(f'{text}\n')
            sys.stderr.flush()
            return
        path = os.path.join(folder, f'{self._process}_gurumeditation_'
                                    f'{self._clock.utcnow():%Y%m%d%H%M%S}_{os.getpid()}')
        with open(path, 'w', encoding='utf-8') as file:
            file.write(f'{text}\n')
        LOG.info('State is reported%s', log.fields(path=path))


class _Trigger:
    """A file that asks for a report each time it is touched."""

    def __init__(self, path: str, ask: Callable[[], None]) -> None:
        self._path = path
        self._ask = ask
        try:
            self._touched_at = os.stat(path).st_mtime_ns
        except OSError as exc:
            raise errors.ConfigurationError(
                reason=f'cannot watch {path}: {exc.strerror}') from exc

    def look(self) -> None:
        """Whoever removes the file may make it again."""
        try:
            touched_at = os.stat(self._path).st_mtime_ns
        except OSError:
            return
        if touched_at != self._touched_at:
            self._touched_at = touched_at
            self._ask()


def register(conf: cfg.ConfigOpts) -> None:
    """Make oslo.reports's group known."""
    opts.set_defaults(conf)
