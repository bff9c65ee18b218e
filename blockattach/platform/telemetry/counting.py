"""Metrics registry of one process, and the HTTP server for Prometheus.

This module is imported only if metrics are enabled.
"""
import contextlib
import errno
import threading
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any
from wsgiref import simple_server

import prometheus_client
from oslo_log import log as oslo_log
from prometheus_client import core
from prometheus_client import registry

from blockattach.platform import errors
from blockattach.platform import log
from blockattach.platform import metrics
from blockattach.platform.conf import telemetry as telemetry_conf
from blockattach.platform.telemetry import readings

LOG = oslo_log.getLogger(__name__)

_FAMILIES = {metrics.Kind.COUNTER: core.CounterMetricFamily,
             metrics.Kind.GAUGE: core.GaugeMetricFamily}


class _Collector(registry.Collector):
    """Collector of the metrics that are measured at each scrape."""

    def __init__(self, looked_at: readings.Readings) -> None:
        self._readings = looked_at

    def collect(self) -> Iterable[core.Metric]:
        """Yield the current values as metric families."""
        for row, reading in self._readings.now().items():
            family = _FAMILIES[row.kind](row.full_name, row.text, labels=row.labels)
            for labels, value in reading.items():
                family.add_metric(labels, value)
            yield family


class Counts:
    """Registry of the metrics of a process.

    :param looked_at: metrics that are measured at each scrape
    """

    def __init__(self, looked_at: readings.Readings) -> None:
        # Alerts do not use creation times, which would double the number of series.
        prometheus_client.disable_created_metrics()
        self.registry = registry.CollectorRegistry()
        self._counted: dict[str, Any] = {}
        for row in metrics.METRICS:
            if row.kind is metrics.Kind.HISTOGRAM:
                self._counted[row.name] = prometheus_client.Histogram(
                    row.full_name, row.text, row.labels, registry=self.registry,
                    buckets=row.buckets)
            elif row.kind is metrics.Kind.COUNTER and row not in metrics.READ:
                self._counted[row.name] = prometheus_client.Counter(
                    row.full_name, row.text, row.labels, registry=self.registry)
        self.registry.register(_Collector(looked_at))
        prometheus_client.ProcessCollector(registry=self.registry)
        prometheus_client.GCCollector(registry=self.registry)

    def add(self, row: metrics.Metric, labels: readings.Labels, amount: float) -> None:
        self._counted[row.name].labels(*labels).inc(amount)

    def observe(self, row: metrics.Metric, labels: readings.Labels, seconds: float) -> None:
        self._counted[row.name].labels(*labels).observe(seconds)


@contextlib.contextmanager
def served(counts: Counts, settings: telemetry_conf.MetricsSettings) -> Iterator[None]:
    """Serve the metrics with the HTTP server of prometheus_client.

    Each request has its own thread, so that no request waits for another request.

    :raises ConfigurationError: no port is free, or the address does not belong to this host
    """
    server, thread = _listen(counts, settings)
    LOG.info('Metrics server started%s', log.fields(host=settings.host, port=server.server_port))
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _listen(counts: Counts, settings: telemetry_conf.MetricsSettings,
            ) -> tuple[simple_server.WSGIServer, threading.Thread]:
    """Start the server on the first free port.

    :raises ConfigurationError: no port is free, or the address does not belong to this host
    """
    for port in settings.ports:
        try:
            return prometheus_client.start_http_server(port, settings.host, counts.registry)
        except OSError as exc:
            if exc.errno != errno.EADDRINUSE:
                raise errors.ConfigurationError(
                    reason=f'cannot serve metrics on {settings.host}:{port}: '
                           f'{exc.strerror}') from exc
    raise errors.ConfigurationError(
        reason=f'cannot serve metrics on {settings.host}: no port from {min(settings.ports)} to '
               f'{max(settings.ports)} is free')
