"""Readings: measured on demand only, for a scrape or a state report."""
from collections.abc import Callable
from collections.abc import Mapping
from typing import NamedTuple

from oslo_log import log as oslo_log

from blockattach.platform import log
from blockattach.platform import metrics

LOG = oslo_log.getLogger(__name__)

Labels = tuple[str, ...]
"""Values of a metric's labels, in the order in which its row names them."""
Reading = Mapping[Labels, float]
Read = Callable[[], Mapping[metrics.Metric, Reading]]


class ThreadUse(NamedTuple):
    """How some threads are used: so many may work, so many do, and so much waits for one."""

    threads: int
    busy: int
    waiting: int


class Readings:
    """Named readings; each part of a process that can be measured adds one."""

    def __init__(self) -> None:
        self._reads: dict[str, Read] = {}

    def add(self, name: str, read: Read) -> None:
        """Add a reading; it replaces a former one of its name."""
        self._reads[name] = read

    def add_threads(self, name: str, use: Callable[[], ThreadUse]) -> None:
        """Add the reading of some threads."""
        def read() -> dict[metrics.Metric, Reading]:
            found = use()
            return {metrics.THREADS: {(name,): found.threads},
                    metrics.THREADS_BUSY: {(name,): found.busy},
                    metrics.WAITING: {(name,): found.waiting}}
        self.add(f'threads {name}', read)

    def now(self) -> dict[metrics.Metric, dict[Labels, float]]:
        """All there is; what cannot be read is missing."""
        found: dict[metrics.Metric, dict[Labels, float]] = {}
        for name, read in list(self._reads.items()):
            try:
                for row, reading in read().items():
                    found.setdefault(row, {}).update(reading)
            except Exception as error:
                LOG.warning('Failed to read metrics: %s%s', error, log.fields(reading=name))
        return found
