"""Telemetry of a process as configured: metrics, traces and state reports."""
import contextlib
from concurrent import futures

from oslo_config import cfg

from blockattach import clock
from blockattach import errors
from blockattach import metrics
from blockattach import version
from blockattach.conf import locations
from blockattach.conf import telemetry as telemetry_conf
from blockattach.db import work
from blockattach.db.engine import engine
from blockattach.health import monitor
from blockattach.rpc import transport
from blockattach.telemetry import acts
from blockattach.telemetry import readings
from blockattach.telemetry import state_report

_OVERVIEW_SECONDS = 2.0
"""A scrape gets the other metrics if the database takes longer."""


class Observation:
    """The telemetry of one process, from its start on.
    """

    def __init__(self, process: str, conf: cfg.ConfigOpts, time: clock.Clock) -> None:
        self._process = process
        self._conf = conf
        self._running = contextlib.ExitStack()
        self.telemetry = acts.Telemetry(time)
        self.report = state_report.StateReport(process, conf, self.telemetry)
        self._overview: _Overview | None = None

    def watch_database(self, database: engine.Database) -> None:
        """Add the readings of what stands on the database of block storage."""
        readings = self.telemetry.readings
        readings.add('database', lambda: _connections(database))
        self._overview = _Overview(database)
        readings.add('overview', self._overview.read)

    def watch(self, broker: transport.BrokerProbe, watching: monitor.Monitor) -> None:
        """Add the readings that every process has."""
        readings = self.telemetry.readings
        readings.add('build', lambda: {
            metrics.BUILD: {(self._process, version.version_string()): 1}})
        readings.add('bus', lambda: {metrics.BUS_RECONNECTS: {(): broker.reconnects}})
        readings.add('checks', lambda: {metrics.CHECK: {
            (name,): int(wrong is not None) for name, wrong in watching.findings().items()}})
        self.report.add('Health', lambda: {
            name: wrong or 'nothing is wrong' for name, wrong in watching.findings().items()})
        self.report.add('Bus', lambda: {
            'broker': broker.broker, 'reconnects': broker.reconnects})

    def start(self) -> None:
        """Begin to count and trace as configured, and serve the results.

        :raises ConfigurationError: no port is free, an optional extra is missing, or the file
            that asks for reports is not there
        """
        with contextlib.ExitStack() as starting:
            if self._overview is not None:
                starting.callback(self._overview.close)
            with locations.named(self._conf, state_report.GROUP, 'file_event_handler'):
                self.report.start()
            self._start_counting(starting)
            self._start_tracing(starting)
            self._running = starting.pop_all()

    def stop(self) -> None:
        """End it. A repeat does nothing."""
        self._running.close()

    def _start_counting(self, starting: contextlib.ExitStack) -> None:
        settings = telemetry_conf.metrics_settings(self._conf, self._process)
        if not settings.ports:
            return
        # Imported only where metrics are on.
        from blockattach.telemetry import counting

        counts = counting.Counts(self.telemetry.readings)
        with locations.named(self._conf, telemetry_conf.METRICS_GROUP, 'port'):
            starting.enter_context(counting.served(counts, settings))
        self.telemetry.counts = counts

    def _start_tracing(self, starting: contextlib.ExitStack) -> None:
        settings = telemetry_conf.tracing_settings(self._conf)
        if settings.endpoint is None:
            return
        with locations.named(self._conf, telemetry_conf.TRACING_GROUP, 'endpoint'):
            try:
                from blockattach.telemetry import otel
            except ImportError as exc:
                raise errors.ConfigurationError(
                    reason=f'cannot send traces: {exc.name} is not installed; it comes with '
                           'blockattach[otel]') from exc
            tracer = otel.open_tracer(settings, self._process)
        starting.callback(tracer.close)
        self.telemetry.trusts_clients = settings.trust_clients
        self.telemetry.tracer = tracer


class _Overview:
    """What the rows say, if the database says it soon; one question at a time."""

    def __init__(self, database: engine.Database) -> None:
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


def _connections(database: engine.Database) -> dict[metrics.Metric, readings.Reading]:
    busy, idle = database.connections()
    return {metrics.CONNECTIONS: {('busy',): busy, ('idle',): idle}}
