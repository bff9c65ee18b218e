"""State report of a process, for an operator who must find out why the process hangs.

oslo.reports creates the report, and this module adds sections. An operator requests a report by
SIGUSR2 or by touching a file. A separate thread writes the report. A hanging thread therefore does
not delay the report, and no signal handler waits for a lock that the interrupted thread holds.
Secret options are masked. Rows, credentials and the data of operations are never included.
"""
import os
import re
import threading
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from oslo_config import cfg
from oslo_log import log as oslo_log
from oslo_utils import strutils

from blockattach import version
from blockattach.platform import errors
from blockattach.platform.telemetry import acts

LOG = oslo_log.getLogger(__name__)

GROUP = 'oslo_reports'

Section = Callable[[], Mapping[str, Any]]
"""Function that returns the named values of a section. Values may be mappings or lists.
"""

_PASSWORD_IN_URL = re.compile(r'(://[^/@:\s]*):[^/@\s]+@')


class StateReport:
    """State report of one process."""

    def __init__(self, process: str, conf: cfg.ConfigOpts, telemetry: acts.Telemetry) -> None:
        self._process = process
        self._conf = conf
        self._telemetry = telemetry
        self._sections: dict[str, Section] = {
            'Names of threads': _threads, 'Calls in progress': self._calls,
            'Measures': self._measures}

    def add(self, title: str, section: Section) -> None:
        self._sections[title] = section

    def start(self) -> None:
        """Watch the file that requests reports, if one is configured.

        :raises ConfigurationError: the file does not exist
        """
        path = self._conf[GROUP].file_event_handler
        if path:
            try:
                self._kind().setup_autorun(_Version, self._service, conf=self._conf)
            except OSError as exc:
                raise errors.ConfigurationError(
                    reason=f'cannot watch {path}: {exc.strerror}') from exc

    def ask(self) -> None:
        """Write a report in a new thread. Safe to call from a signal handler."""
        threading.Thread(target=self._write, name='state-report', daemon=True).start()

    def text(self) -> str:
        return str(self._kind()(_Version).run())

    def _write(self) -> None:
        self._kind().handle_signal(_Version, self._service, self._conf[GROUP].log_dir, None)
        LOG.info('State report written')

    @property
    def _service(self) -> str:
        """Prefix of report file names, which differs between processes that share the folder."""
        return f'{self._process}_{os.getpid()}'

    def _kind(self) -> Any:
        """Return a report class for oslo.reports with the sections of this process."""
        # Imported late, because most processes never write a report.
        from oslo_reports import guru_meditation_report
        from oslo_reports import report
        from oslo_reports.generators import conf as conf_generator
        from oslo_reports.generators import threading as thread_generators

        process, conf, sections = self._process, self._conf, self._sections

        class Report(guru_meditation_report.GuruMeditation, report.TextReport):
            def __init__(self, version_object: Any, frame: Any = None) -> None:
                super().__init__(version_object, frame, f'State of {process}')

            def add_section(self, heading: Any, generator: Any, index: int | None = None) -> None:
                """Add a section of oslo.reports, except for the section on green threads.

                The section on the configuration shows the configuration of this process.
                """
                # The process has no green threads, and the search for them fails if an object is
                # deleted meanwhile.
                if isinstance(generator, thread_generators.GreenThreadReportGenerator):
                    return
                if isinstance(generator, conf_generator.ConfigReportGenerator):
                    generator = conf_generator.ConfigReportGenerator(conf)
                super().add_section(heading, generator, index)

            def run(self) -> str:
                """Return the report, with the passwords in all options masked.
                """
                # Rebuilt for each report, because sections may be added after the start.
                type(self).persistent_sections = [
                    (title, _model(section)) for title, section in sections.items()]
                return _PASSWORD_IN_URL.sub(r'\1:***@', strutils.mask_password(super().run()))

        return Report

    def _calls(self) -> dict[str, Any]:
        return {f'{number} {act.row.name.removesuffix("_seconds")}': {
                    **act.labels, 'seconds': f'{act.seconds():.3f}',
                    'request_id': act.context.request_id if act.context else None}
                for number, act in enumerate(self._telemetry.acts(), 1)}

    def _measures(self) -> dict[str, Any]:
        return {row.name: {' '.join(labels) or '-': value for labels, value in found.items()}
                for row, found in self._telemetry.readings.now().items()}


class _Version:
    """Package name and version, in the form that oslo.reports requires."""

    @staticmethod
    def vendor_string() -> str:
        return 'blockattach'

    @staticmethod
    def product_string() -> str:
        return 'blockattach'

    @staticmethod
    def version_string_with_package() -> str:
        return version.version_string()


def _threads() -> dict[str, str]:
    return {str(thread.ident): thread.name for thread in threading.enumerate()}


def _model(section: Section) -> Callable[[], Any]:
    """Return an oslo.reports generator for a section. A section that fails shows its error.
    """
    def generate() -> Any:
        from oslo_reports.models import with_default_views
        from oslo_reports.views.text import generic

        try:
            content = section()
        except Exception as error:
            content = {'failed to report': str(error)}
        return with_default_views.ModelWithDefaultViews(
            content, text_view=generic.KeyValueView(dict_sep=': ', before_dict=''))
    return generate
