"""Metrics that are measured only when a scrape or a state report needs their values."""
from collections.abc import Callable
from collections.abc import Mapping
from typing import NamedTuple

from oslo_log import log as oslo_log

from blockattach.platform import log
from blockattach.platform import metrics

LOG = oslo_log.getLogger(__name__)

Labels = tuple[str, ...]
"""Values of the labels of a metric, in the order of its definition."""
Reading = Mapping[Labels, float]
Read = Callable[[], Mapping[metrics.Metric, Reading]]


class ThreadUse(NamedTuple):
    """Use of a thread pool: its size, busy threads, and waiting tasks."""

    threads: int
    busy: int
    waiting: int


class Readings:
    """Registry of the functions that measure metrics on demand, by name."""

    def __init__(self) -> None:
        self._reads: dict[str, Read] = {}

    def add(self, name: str, read: Read) -> None:
        """Register a function that measures metrics, replacing any function of the same name."""
        self._reads[name] = read

    def add_threads(self, name: str, use: Callable[[], ThreadUse]) -> None:
        def read() -> dict[metrics.Metric, Reading]:
            found = use()
            return {metrics.THREADS: {(name,): found.threads},
                    metrics.THREADS_BUSY: {(name,): found.busy},
                    metrics.WAITING: {(name,): found.waiting}}
        self.add(f'threads {name}', read)

    def now(self) -> dict[metrics.Metric, dict[Labels, float]]:
        """Measure all metrics. The metrics of a function that fails are left out.
        """
        found: dict[metrics.Metric, dict[Labels, float]] = {}
        # A copy, because another thread may register a function meanwhile.
        for name, read in list(self._reads.items()):
            try:
                for row, reading in read().items():
                    found.setdefault(row, {}).update(reading)
            except Exception as error:
                LOG.warning('Failed to read metrics%s', log.fields(reading=name, reason=error))
        return found
