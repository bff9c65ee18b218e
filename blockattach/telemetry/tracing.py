"""The acts that are part of a trace, and their names. OpenTelemetry is an optional extra.

A trace begins where somebody asks for something: with a request, or with a message that carries
none. What the service does by itself, as sending heartbeats, makes no trace.
"""
import enum
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple
from typing import Protocol

from blockattach import metrics

TRACEPARENT = 'traceparent'
"""W3C Trace Context: under this name a trace travels in a header, and with a message."""


class Side(enum.StrEnum):
    """On which side of an exchange an act is, as OpenTelemetry calls it."""

    SERVER = 'server'
    CLIENT = 'client'
    INTERNAL = 'internal'


class Span(NamedTuple):
    """One kind of act. ``name`` is filled from the labels of its metric."""

    metric: metrics.Metric
    name: str
    side: Side
    begins: bool = False
    """Whether a trace may begin with it."""


SPANS = (
    Span(metrics.HTTP, '{operation}', Side.SERVER, begins=True),
    Span(metrics.VERB, 'verb {verb}', Side.INTERNAL),
    Span(metrics.STEP, '{way}: {step}', Side.INTERNAL),
    Span(metrics.RPC_CLIENT, 'send {topic}.{method}', Side.CLIENT),
    Span(metrics.RPC_SERVER, '{topic}.{method}', Side.SERVER, begins=True),
    Span(metrics.WORK, '{work} volume', Side.INTERNAL, begins=True),
    Span(metrics.PLACING, 'place volume', Side.INTERNAL),
    Span(metrics.TRANSACTION, 'database {kind}', Side.CLIENT),
    Span(metrics.QUEUE_WAIT, 'wait for {queue}', Side.INTERNAL),
    Span(metrics.BACKEND, '{part}.{verb}', Side.CLIENT),
)

BY_METRIC = {span.metric.name: span for span in SPANS}


class Tracer(Protocol):
    """Gets the acts; the implementation is in `blockattach.telemetry.otel`."""

    def begin(self, span: Span, name: str, parent: str | None) -> Any:
        """Begin a span in this thread. None: it would begin a trace, and may not.

        :param parent: a ``traceparent`` that came from elsewhere
        """

    def end(self, begun: Any, name: str, values: Mapping[str, str], failed: bool) -> None:
        """End what `begin` returned, in the same thread."""

    def inject(self, values: dict[str, Any]) -> None:
        """Inject the trace of this thread, if any, into a message."""

    def close(self) -> None:
        """Send what has not been sent, within a moment."""
