"""Export of spans to an OpenTelemetry collector. Imported only if tracing is enabled."""
import threading
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http import trace_exporter
from opentelemetry.sdk import resources
from opentelemetry.sdk import trace as sdk
from opentelemetry.sdk.trace import export
from opentelemetry.sdk.trace import sampling
from opentelemetry.trace.propagation import tracecontext

from blockattach import version
from blockattach.platform import metrics
from blockattach.platform.conf import telemetry as telemetry_conf

_SEND_SECONDS = 5
_CLOSE_SECONDS = 2.0
_ATTRIBUTES = 'blockattach.'


class Begun(NamedTuple):
    """Span in progress.

    :ivar token: token of OpenTelemetry that restores the previous context of the thread
    """

    kind: metrics.Span
    span: trace.Span
    token: Any


class Tracer:
    """Factory of the spans of a process."""

    def __init__(self, provider: sdk.TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer('blockattach', version.version_string())
        self._propagator = tracecontext.TraceContextTextMapPropagator()

    def begin(self, kind: metrics.Span, values: Mapping[str, str],
              parent: str | None) -> Begun | None:
        """Begin a span in this thread, which becomes the current span.

        :param values: labels that fill the span name
        :param parent: ``traceparent`` received from another process; None to use the current span
        :returns: None if there is no parent span, and ``kind`` must not begin a trace
        """
        where = (self._propagator.extract({metrics.TRACEPARENT: parent}) if parent
                 else otel_context.get_current())
        # Heartbeats and other periodic tasks would start a trace with each query.
        if not kind.begins and not trace.get_current_span(where).get_span_context().is_valid:
            return None
        made = self._tracer.start_span(kind.name.format_map(values), where,
                                       trace.SpanKind[kind.side.upper()])
        return Begun(kind, made, otel_context.attach(trace.set_span_in_context(made, where)))

    def end(self, begun: Begun, values: Mapping[str, str], failed: bool) -> None:
        """End a span in the thread that began it, and update its name from the final labels."""
        begun.span.update_name(begun.kind.name.format_map(values))
        begun.span.set_attributes({_ATTRIBUTES + key: value for key, value in values.items()})
        if failed:
            begun.span.set_status(trace.StatusCode.ERROR)
        begun.span.end()
        otel_context.detach(begun.token)

    def inject(self, values: dict[str, Any]) -> None:
        self._propagator.inject(values)

    def close(self) -> None:
        """Send the remaining spans, waiting at most two seconds for the collector."""
        # The provider itself may wait longer, for the timeout of a request to the collector.
        closing = threading.Thread(target=self._provider.shutdown, name='traces-close',
                                   daemon=True)
        closing.start()
        closing.join(_CLOSE_SECONDS)


def open_tracer(settings: telemetry_conf.TracingSettings, process: str) -> Tracer:
    """Return a tracer that sends spans to the configured collector in the background."""
    assert settings.endpoint is not None
    provider = build_provider(settings, process)
    provider.add_span_processor(export.BatchSpanProcessor(trace_exporter.OTLPSpanExporter(
        endpoint=settings.endpoint, timeout=_SEND_SECONDS)))
    return Tracer(provider)


def build_provider(settings: telemetry_conf.TracingSettings, process: str) -> sdk.TracerProvider:
    """Return an OpenTelemetry tracer provider without an exporter."""
    return sdk.TracerProvider(
        sampler=sampling.ParentBased(sampling.TraceIdRatioBased(settings.sample_ratio)),
        resource=resources.Resource.create({
            resources.SERVICE_NAME: process, resources.SERVICE_INSTANCE_ID: settings.instance,
            resources.SERVICE_VERSION: version.version_string()}),
        shutdown_on_exit=False)
