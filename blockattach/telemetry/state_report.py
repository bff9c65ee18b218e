"""What a process is doing, for whoever must find out why it does not go on: oslo.reports.

Asked for by SIGUSR2 or by touching a file, and made in a thread of its own that waits from the
start: whatever hangs, it does not hold this up, and no signal interrupts somebody who holds a lock
that the report needs. Options that hold secrets are masked; rows, credentials and what threads
have in their hands are never shown.
"""
import os
import queue
import re
import sys
import threading
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from oslo_config import cfg
from oslo_log import log as oslo_log
from oslo_reports import opts
from oslo_reports import report
from oslo_reports.generators import conf as conf_generator
from oslo_reports.generators import process as process_generator
from oslo_reports.generators import threading as thread_generator
from oslo_reports.generators import version as version_generator
from oslo_reports.models import with_default_views
from oslo_reports.views.text import generic
from oslo_utils import strutils

from blockattach import clock as clocks
from blockattach import errors
from blockattach import log
from blockattach import periodic
from blockattach import version
from blockattach.telemetry import acts

LOG = oslo_log.getLogger(__name__)

GROUP = 'oslo_reports'
_PASSWORD_IN_URL = re.compile(r'(://[^/@:\s]*):[^/@\s]+@')

Section = Callable[[], Mapping[str, Any]]
"""Names and values, which may be mappings and lists again."""


class _Version:
    """As oslo.reports wants to be told."""

    def vendor_string(self) -> str:
        return 'blockattach'

    def product_string(self) -> str:
        return 'blockattach'

    def version_string_with_package(self) -> str:
        return version.version_string()


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
        made = report.TextReport(f'State of {self._process}')
        made.add_section('Package', version_generator.PackageReportGenerator(_Version()))
        made.add_section('Threads', thread_generator.ThreadReportGenerator())
        made.add_section('Names of threads', _model(lambda: {
            str(thread.ident): thread.name for thread in threading.enumerate()}))
        made.add_section('Processes', process_generator.ProcessReportGenerator())
        made.add_section('Calls in progress', _model(self._calls))
        made.add_section('Measures', _model(self._measures))
        for title, section in self._sections.items():
            made.add_section(title, _model(section))
        made.add_section('Configuration', conf_generator.ConfigReportGenerator(self._conf))
        return _masked(str(made.run()))

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


def _masked(text: str) -> str:
    """Without what looks like a password: some libraries do not mark all of their options."""
    return _PASSWORD_IN_URL.sub(r'\1:***@', strutils.mask_password(text))


def _model(section: Section) -> Callable[[], with_default_views.ModelWithDefaultViews]:
    """As oslo.reports wants to be told: without a section that cannot be made, but with the
    others."""
    def generate() -> with_default_views.ModelWithDefaultViews:
        try:
            told = section()
        except Exception as error:
            told = {'cannot be told': str(error)}
        return with_default_views.ModelWithDefaultViews(
            told, text_view=generic.KeyValueView(dict_sep=': ', before_dict=''))
    return generate
