"""The metrics of one process, in a registry of their own."""
from collections.abc import Iterable

import prometheus_client
from prometheus_client import core
from prometheus_client import registry

from blockattach import metrics
from blockattach.telemetry import readings

_FAMILIES = {metrics.Kind.COUNTER: core.CounterMetricFamily,
             metrics.Kind.GAUGE: core.GaugeMetricFamily}


class _Collector(registry.Collector):
    def __init__(self, looked_at: readings.Readings) -> None:
        self._readings = looked_at

    def collect(self) -> Iterable[core.Metric]:
        """As prometheus_client asks for it."""
        for row, reading in self._readings.now().items():
            family = _FAMILIES[row.kind](row.full_name, row.text, labels=row.labels)
            for labels, value in reading.items():
                family.add_metric(labels, value)
            yield family


class Counts:
    """Counters and histograms, with the readings."""

    def __init__(self, looked_at: readings.Readings) -> None:
        # When each series began is of no use to alerts, and would make them twice as many.
        prometheus_client.disable_created_metrics()
        self.registry = registry.CollectorRegistry()
        self._counters: dict[str, prometheus_client.Counter] = {}
        self._histograms: dict[str, prometheus_client.Histogram] = {}
        self._series: dict[tuple[str, readings.Labels], prometheus_client.Histogram] = {}
        for row in metrics.METRICS:
            if row.kind is metrics.Kind.HISTOGRAM:
                self._histograms[row.name] = prometheus_client.Histogram(
                    row.full_name, row.text, row.labels, registry=self.registry,
                    buckets=row.buckets)
            elif row.kind is metrics.Kind.COUNTER and row not in metrics.READ:
                self._counters[row.name] = prometheus_client.Counter(
                    row.full_name, row.text, row.labels, registry=self.registry)
        self.registry.register(_Collector(looked_at))
        prometheus_client.ProcessCollector(registry=self.registry)
        prometheus_client.GCCollector(registry=self.registry)

    def add(self, row: metrics.Metric, labels: readings.Labels, amount: float) -> None:
        """Count further."""
        self._counters[row.name].labels(*labels).inc(amount)

    def observe(self, row: metrics.Metric, labels: readings.Labels, seconds: float) -> None:
        """Something took so long."""
        series = self._series.get((row.name, labels))
        if series is None:
            # A look-up in prometheus_client costs as much as the rest.
            series = self._histograms[row.name].labels(*labels)
            self._series[row.name, labels] = series
        series.observe(seconds)
