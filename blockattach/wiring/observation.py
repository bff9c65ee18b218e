"""Configured telemetry of a process: metrics, traces and state reports."""
import contextlib
from collections.abc import Callable

from oslo_config import cfg

from blockattach import version
from blockattach.platform import clock
from blockattach.platform import errors
from blockattach.platform import metrics
from blockattach.platform.conf import locations
from blockattach.platform.conf import telemetry as telemetry_conf
from blockattach.platform.health import monitor
from blockattach.platform.rpc import transport
from blockattach.platform.telemetry import acts
from blockattach.platform.telemetry import state_report


class Observation:
    """Telemetry of a process, with metrics, traces and state reports.

    :ivar endings: functions to call after the telemetry has been stopped
    """

    def __init__(self, process: str, conf: cfg.ConfigOpts, time: clock.Clock) -> None:
        self._process = process
        self._conf = conf
        self._running = contextlib.ExitStack()
        self.telemetry = acts.Telemetry(time)
        self.report = state_report.StateReport(process, conf, self.telemetry)
        self.endings: list[Callable[[], None]] = []

    def watch(self, broker: transport.BrokerProbe, watching: monitor.Monitor) -> None:
        """Add the metrics and the sections of state reports that every process has."""
        readings = self.telemetry.readings
        readings.add('build', lambda: {
            metrics.BUILD: {(self._process, version.version_string()): 1}})
        readings.add('bus', lambda: {metrics.BUS_RECONNECTS: {(): broker.reconnects}})
        readings.add('checks', lambda: {metrics.CHECK: {
            (name,): int(wrong is not None) for name, wrong in watching.findings().items()}})
        self.report.add('Health', lambda: {
            name: wrong or 'healthy' for name, wrong in watching.findings().items()})
        self.report.add('Bus', lambda: {
            'broker': broker.broker, 'reconnects': broker.reconnects})

    def start(self) -> None:
        """Start state reports, and metrics and traces if they are configured.

        :raises ConfigurationError: no port is free, an optional package is missing, or the file
            ``[oslo_reports] file_event_handler`` does not exist
        """
        with contextlib.ExitStack() as starting:
            for end in self.endings:
                starting.callback(end)
            with locations.named(self._conf, state_report.GROUP, 'file_event_handler'):
                self.report.start()
            self._start_counting(starting)
            self._start_tracing(starting)
            self._running = starting.pop_all()

    def stop(self) -> None:
        """Stop the telemetry. A repeated call does nothing."""
        self._running.close()

    def _start_counting(self, starting: contextlib.ExitStack) -> None:
        settings = telemetry_conf.metrics_settings(self._conf, self._process)
        if not settings.ports:
            return
        # Imported only if metrics are enabled, because prometheus_client takes memory.
        from blockattach.platform.telemetry import counting

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
                from blockattach.platform.telemetry import otel
            except ImportError as exc:
                raise errors.ConfigurationError(
                    reason=f'cannot send traces: {exc.name} is not installed. Install '
                           'blockattach[otel]') from exc
            tracer = otel.open_tracer(settings, self._process)
        starting.callback(tracer.close)
        self.telemetry.trusts_clients = settings.trust_clients
        self.telemetry.tracer = tracer
