"""A report of a process's state as text, made by oslo.reports.

Apart from `blockattach.telemetry.state_report`, since oslo.reports is much to load.
"""
import re
import threading
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from oslo_config import cfg
from oslo_reports import report
from oslo_reports.generators import conf as conf_generator
from oslo_reports.generators import process as process_generator
from oslo_reports.generators import threading as thread_generator
from oslo_reports.generators import version as version_generator
from oslo_reports.models import with_default_views
from oslo_reports.views.text import generic
from oslo_utils import strutils

from blockattach import version

_PASSWORD_IN_URL = re.compile(r'(://[^/@:\s]*):[^/@\s]+@')


class _Version:
    """As oslo.reports wants to be told."""

    def vendor_string(self) -> str:
        return 'blockattach'

    def product_string(self) -> str:
        return 'blockattach'

    def version_string_with_package(self) -> str:
        return version.version_string()


def render(process: str, conf: cfg.ConfigOpts,
           sections: Mapping[str, Callable[[], Mapping[str, Any]]]) -> str:
    """The report as it is now, in this order: the process, the sections, the configuration.

    :param sections: by title, names and values, which may be mappings and lists again
    """
    made = report.TextReport(f'State of {process}')
    made.add_section('Package', version_generator.PackageReportGenerator(_Version()))
    made.add_section('Threads', thread_generator.ThreadReportGenerator())
    made.add_section('Names of threads', _model(lambda: {
        str(thread.ident): thread.name for thread in threading.enumerate()}))
    made.add_section('Processes', process_generator.ProcessReportGenerator())
    for title, section in sections.items():
        made.add_section(title, _model(section))
    made.add_section('Configuration', conf_generator.ConfigReportGenerator(conf))
    return _masked(str(made.run()))


def _masked(text: str) -> str:
    """Without what looks like a password: some libraries do not mark all of their options."""
    return _PASSWORD_IN_URL.sub(r'\1:***@', strutils.mask_password(text))


def _model(section: Callable[[], Mapping[str, Any]],
           ) -> Callable[[], with_default_views.ModelWithDefaultViews]:
    """As oslo.reports wants to be told: without a section that cannot be made, but with the
    others."""
    def generate() -> with_default_views.ModelWithDefaultViews:
        try:
            content = section()
        except Exception as error:
            content = {'cannot be told': str(error)}
        return with_default_views.ModelWithDefaultViews(
            content, text_view=generic.KeyValueView(dict_sep=': ', before_dict=''))
    return generate
