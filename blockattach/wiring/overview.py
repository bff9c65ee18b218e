"""Metrics of the content of the block storage database and of its connections."""
from concurrent import futures

from blockattach.platform import errors
from blockattach.platform import metrics
from blockattach.platform.telemetry import readings
from blockattach.storage.db import storage_db
from blockattach.storage.db import work
from blockattach.wiring import observation

_OVERVIEW_SECONDS = 2.0
"""Timeout of the query in seconds. After the timeout, a scrape returns only other metrics."""


def watch(database: storage_db.Database, observed: observation.Observation) -> None:
    """Add the metrics of the database to the telemetry of a process."""
    overview = _Overview(database)
    found = observed.telemetry.readings
    found.add('database', lambda: _connections(database))
    found.add('overview', overview.read)
    observed.endings.append(overview.close)


class _Overview:
    """Reader of metrics about rows, with a timeout. Only one query runs at a time."""

    def __init__(self, database: storage_db.Database) -> None:
        self._database = database
        self._thread = futures.ThreadPoolExecutor(1, thread_name_prefix='overview')
        self._query: futures.Future[work.Overview] | None = None

    def read(self) -> dict[metrics.Metric, readings.Reading]:
        """Return the metrics of attachments and of work items.

        :raises DatabaseUnavailable: the query has not finished in time
        """
        query = self._query
        # While the query of the previous scrape is running, a scrape waits for that query, so that
        # slow queries do not pile up.
        if query is None or query.done():
            self._query = query = self._thread.submit(work.overview, self._database)
        try:
            found = query.result(_OVERVIEW_SECONDS)
        except TimeoutError:
            raise errors.DatabaseUnavailable() from None
        return {metrics.ATTACHMENTS: {(state,): number
                                      for state, number in found.attachments.items()},
                metrics.OLDEST: {(state,): age for state, age in found.oldest.items()},
                metrics.UNDER_WAY: {(noun, verb, state): number
                                    for (noun, verb, state), number in found.work.items()},
                metrics.OVERDUE: {(noun,): number for noun, number in found.overdue.items()}}

    def close(self) -> None:
        """Stop the thread of the queries. A running query is not awaited."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _connections(database: storage_db.Database) -> dict[metrics.Metric, readings.Reading]:
    busy, idle = database.connections()
    return {metrics.CONNECTIONS: {('busy',): busy, ('idle',): idle}}
