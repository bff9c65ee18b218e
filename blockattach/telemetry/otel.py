"""Spans to a collector, by OpenTelemetry. Imported only where traces are wanted."""
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
from blockattach.conf import telemetry as telemetry_conf
from blockattach.telemetry import tracing

_SEND_SECONDS = 5
_CLOSE_SECONDS = 2.0
_ATTRIBUTES = 'blockattach.'
_SIDES = {tracing.Side.SERVER: trace.SpanKind.SERVER,
          tracing.Side.CLIENT: trace.SpanKind.CLIENT,
          tracing.Side.INTERNAL: trace.SpanKind.INTERNAL}


class _Begun(NamedTuple):
    span: trace.Span
    token: Any


class Tracer:
    """A `blockattach.telemetry.tracing.Tracer` by OpenTelemetry."""

    def __init__(self, provider: sdk.TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer('blockattach', version.version_string())
        self._propagator = tracecontext.TraceContextTextMapPropagator()

    def begin(self, span: tracing.Span, name: str, parent: str | None) -> _Begun | None:
        """Begin a span; None: it would begin a trace, and may not."""
        where = (self._propagator.extract({tracing.TRACEPARENT: parent}) if parent
                 else otel_context.get_current())
        if not span.begins and not trace.get_current_span(where).get_span_context().is_valid:
            return None
        made = self._tracer.start_span(name, where, _SIDES[span.side])
        return _Begun(made, otel_context.attach(trace.set_span_in_context(made, where)))

    def end(self, begun: _Begun, name: str, values: Mapping[str, str], failed: bool) -> None:
        """End it, under the name that it has by now."""
        begun.span.update_name(name)
        begun.span.set_attributes({_ATTRIBUTES + key: value for key, value in values.items()})
        if failed:
            begun.span.set_status(trace.StatusCode.ERROR)
        begun.span.end()
        otel_context.detach(begun.token)

    def inject(self, values: dict[str, Any]) -> None:
        """Inject the trace of this thread, if any, into a message."""
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier)
        if tracing.TRACEPARENT in carrier:
            values[tracing.TRACEPARENT] = carrier[tracing.TRACEPARENT]

    def close(self) -> None:
        """Send what has not been sent; a collector that is away is not waited for."""
        closing = threading.Thread(target=self._provider.shutdown, name='traces-close',
                                   daemon=True)
        closing.start()
        closing.join(_CLOSE_SECONDS)


def open_tracer(settings: telemetry_conf.TracingSettings, process: str) -> Tracer:
    """What sends to the collector, in the background: nobody waits for it."""
    assert settings.endpoint is not None
    provider = build_provider(settings, process)
    provider.add_span_processor(export.BatchSpanProcessor(trace_exporter.OTLPSpanExporter(
        endpoint=settings.endpoint, timeout=_SEND_SECONDS)))
    return Tracer(provider)


def build_provider(settings: telemetry_conf.TracingSettings, process: str) -> sdk.TracerProvider:
    """What makes spans; they go nowhere yet."""
    return sdk.TracerProvider(
        sampler=sampling.ParentBased(sampling.TraceIdRatioBased(settings.sample_ratio)),
        resource=resources.Resource.create({
            resources.SERVICE_NAME: process, resources.SERVICE_INSTANCE_ID: settings.instance,
            resources.SERVICE_VERSION: version.version_string()}),
        shutdown_on_exit=False)
