"""What is observed of a process that stands on the database of block storage."""
from concurrent import futures

from blockattach.platform import errors
from blockattach.platform import metrics
from blockattach.platform.telemetry import readings
from blockattach.storage.db import storage_db
from blockattach.storage.db import work
from blockattach.wiring import observation

_OVERVIEW_SECONDS = 2.0
"""A scrape gets the other metrics if the database takes longer."""


def watch(database: storage_db.Database, observed: observation.Observation) -> None:
    """Add the readings of the database."""
    overview = _Overview(database)
    found = observed.telemetry.readings
    found.add('database', lambda: _connections(database))
    found.add('overview', overview.read)
    observed.endings.append(overview.close)


class _Overview:
    """What the rows say, if the database says it soon; one question at a time."""

    def __init__(self, database: storage_db.Database) -> None:
        self._database = database
        self._thread = futures.ThreadPoolExecutor(1, thread_name_prefix='overview')
        self._asked: futures.Future[work.Overview] | None = None

    def read(self) -> dict[metrics.Metric, readings.Reading]:
        """The overview as readings; raises where there is none in time."""
        asked = self._asked
        if asked is None or asked.done():
            self._asked = asked = self._thread.submit(work.overview, self._database)
        try:
            found = asked.result(_OVERVIEW_SECONDS)
        except TimeoutError:
            raise errors.DatabaseUnavailable() from None
        return {metrics.ATTACHMENTS: {(state,): number
                                      for state, number in found.attachments.items()},
                metrics.OLDEST: {(state,): age for state, age in found.oldest.items()},
                metrics.UNDER_WAY: {(noun, verb, state): number
                                    for (noun, verb, state), number in found.work.items()},
                metrics.OVERDUE: {(noun,): number for noun, number in found.overdue.items()}}

    def close(self) -> None:
        """Ask no more; what was asked is not waited for."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _connections(database: storage_db.Database) -> dict[metrics.Metric, readings.Reading]:
    busy, idle = database.connections()
    return {metrics.CONNECTIONS: {('busy',): busy, ('idle',): idle}}
