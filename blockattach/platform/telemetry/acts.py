"""Timed operations, which are measured, counted by outcome, and part of a trace.

A ``with`` statement encloses the operation::

    with self._telemetry.rpc_server('volume', 'connect', ctxt.traceparent):
        ...

Running operations can be listed at any time, even if metrics are disabled. The log line of a
request includes the durations of the operations within the request, in the fields that
`metrics.Metric.part` names.
"""
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING
from typing import Any
from typing import Self

from oslo_context import context as oslo_context

from blockattach.platform import clock as clocks
from blockattach.platform import errors
from blockattach.platform import log
from blockattach.platform import metrics
from blockattach.platform.telemetry import readings

if TYPE_CHECKING:
    from blockattach.platform.telemetry import counting
    from blockattach.platform.telemetry import otel

NO_OPERATION = 'none'
"""Value of the ``operation`` label for a request that matches no API operation."""
_OUTCOME = 'outcome'


class Act:
    """Timed operation: a context manager for the code of the operation, used by one thread."""

    __slots__ = ('_begun', '_parent', '_span', '_telemetry', 'context', 'labels', 'row')

    def __init__(self, telemetry: 'Telemetry', row: metrics.Metric, labels: dict[str, str],
                 parent: str | None = None) -> None:
        self._telemetry = telemetry
        self._parent = parent
        self._span: otel.Begun | None = None
        self.row = row
        self.labels = labels
        self.context: oslo_context.RequestContext | None = None

    def __enter__(self) -> Self:
        self.context = oslo_context.get_current()
        self._begun = self._telemetry.clock.monotonic()
        self._telemetry.running[id(self)] = self
        tracer = self._telemetry.tracer
        if tracer is not None and self.row.span is not None:
            self._span = tracer.begin(self.row.span, self.labels, self._parent)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        del self._telemetry.running[id(self)]
        if self.row.part is not None:
            log.took(self.row.part, self.seconds())
        counts = self._telemetry.counts
        if counts is None and self._span is None:
            return
        if _OUTCOME in self.row.labels:
            self.labels[_OUTCOME] = outcome_of(error)
        if counts is not None:
            counts.observe(self.row, tuple([self.labels[name] for name in self.row.labels]),
                           self.seconds())
        if self._span is not None and self._telemetry.tracer is not None:
            self._telemetry.tracer.end(self._span, self._values(), error is not None)

    def seconds(self) -> float:
        """Return the time since the start of the operation, in seconds."""
        return self._telemetry.clock.monotonic() - self._begun

    def note(self, **labels: str) -> None:
        """Set the values of labels that were not known at the start of the operation."""
        self.labels.update(labels)

    def _values(self) -> dict[str, str]:
        """Return the attributes of the span: the labels and the request ID."""
        # The caller may have been authenticated meanwhile.
        context = oslo_context.get_current() or self.context
        request = {} if context is None or context.request_id is None else {
            'request_id': context.request_id}
        return {**self.labels, **request}


class Request(Act):
    """Timed operation that has its own log line: an API request or an RPC message.

    :ivar noted: identifiers and durations for the log line
    :ivar outcome: outcome of the operation, set at its end
    """

    __slots__ = ('noted', 'outcome')

    def __enter__(self) -> Self:
        self.noted = log.Noted()
        self.noted.begin()
        return super().__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.noted.end()
        self.outcome = outcome_of(error)
        super().__exit__(kind, error, trace)


class Telemetry:
    """Telemetry of one process.

    Without ``counts``, operations are not counted. Without ``tracer``, operations are not traced.
    """

    def __init__(self, clock: clocks.Clock | None = None) -> None:
        self.clock = clock or clocks.Clock()
        self.readings = readings.Readings()
        self.counts: counting.Counts | None = None
        self.tracer: otel.Tracer | None = None
        self.trusts_clients = False
        # Needs no lock, because setting and deleting an item are atomic.
        self.running: dict[int, Act] = {}
        self.readings.add('in progress', self._in_progress)

    def acts(self) -> list[Act]:
        """Return the running operations, oldest first."""
        return list(self.running.values())

    def http(self, traceparent: str | None) -> Request:
        """Return a timed operation for an API request.

        The caller sets the labels ``operation`` and ``status`` with `Act.note` when they are
        known.
        """
        # This status is kept if the request ends with an exception.
        return Request(self, metrics.HTTP, {'operation': NO_OPERATION, 'status': '5xx'},
                       traceparent)

    def verb(self, verb: str) -> Act:
        """Return a timed operation for an operation on resources, such as ``volumes.create``."""
        return Act(self, metrics.VERB, {'verb': verb})

    def attaching(self, step: metrics.Step) -> Act:
        return Act(self, metrics.STEP, {'way': 'attach', 'step': step})

    def detaching(self, step: metrics.Step) -> Act:
        return Act(self, metrics.STEP, {'way': 'detach', 'step': step})

    def rpc_client(self, topic: str, method: str) -> Act:
        """Return a timed operation for sending an RPC message.

        For a call, the operation includes the wait for the reply.
        """
        return Act(self, metrics.RPC_CLIENT, {'topic': topic, 'method': method})

    def rpc_server(self, topic: str, method: str, traceparent: str | None) -> Request:
        """Return a timed operation for handling an RPC message."""
        return Request(self, metrics.RPC_SERVER, {'topic': topic, 'method': method},
                       traceparent)

    def work(self, work: str, traceparent: str | None) -> Act:
        """Return a timed operation for asynchronous work, such as ``volume.create``."""
        return Act(self, metrics.WORK, {'work': work}, traceparent)

    def placing(self) -> Act:
        return Act(self, metrics.PLACING, {})

    def transaction(self, kind: str) -> Act:
        """Return a timed operation for a database transaction of kind ``read`` or ``write``."""
        return Act(self, metrics.TRANSACTION, {'kind': kind})

    def backend(self, backend: str, part: str, verb: str) -> Act:
        """Return a timed operation for a call of a backend driver.

        :param part: ``store`` or ``target``
        """
        return Act(self, metrics.BACKEND, {'backend': backend, 'part': part, 'verb': verb})

    def queueing(self, queue: str) -> Act:
        """Return a timed operation for the wait for a slot."""
        return Act(self, metrics.QUEUE_WAIT, {'queue': queue})

    def queue_refused(self, queue: str, code: str) -> None:
        """Count a request that a queue rejected with an error code."""
        self._count(metrics.QUEUE_REFUSED, queue, code)

    def database_retry(self, verb: str) -> None:
        """Count a database transaction that was rolled back or lost before the commit."""
        self._count(metrics.DATABASE_RETRIES, verb)

    def scheduler_retry(self, reason: str) -> None:
        """Count a retry of the scheduler, which replaces a selected pool with another pool."""
        self._count(metrics.SCHEDULER_RETRIES, reason)

    def pool_refused(self, by: str) -> None:
        """Count a pool that the scheduler filter ``by`` rejected."""
        self._count(metrics.SCHEDULER_REFUSALS, by)

    def drift(self, drift: metrics.Drift, detected: int = 0, repaired: int = 0) -> None:
        """Count the found and the repaired differences between database and backend, by kind."""
        self._count(metrics.DRIFT_FOUND, drift, amount=detected)
        self._count(metrics.DRIFT_REPAIRED, drift, amount=repaired)

    def image_cache(self, backend: str, result: metrics.CacheResult) -> None:
        self._count(metrics.IMAGE_CACHE, backend, result)

    def inject(self, values: dict[str, Any]) -> None:
        """Add the trace context of this thread, if any, to the context of a message."""
        if self.tracer is not None:
            self.tracer.inject(values)

    def extract(self, values: Mapping[str, Any]) -> str | None:
        """Return the trace context from the context of a message, or None if it has none."""
        return values.get(metrics.TRACEPARENT)

    def _count(self, row: metrics.Metric, *labels: str, amount: float = 1) -> None:
        if self.counts is not None:
            self.counts.add(row, labels, amount)

    def _in_progress(self) -> dict[metrics.Metric, readings.Reading]:
        # With a zero for each histogram, so that no series disappears between two operations.
        running: dict[readings.Labels, float] = {(row.name.removesuffix('_seconds'),): 0
                                                for row in metrics.METRICS
                                                if row.kind is metrics.Kind.HISTOGRAM}
        for act in self.acts():
            running[act.row.name.removesuffix('_seconds'),] += 1
        return {metrics.IN_PROGRESS: running}


def outcome_of(error: BaseException | None) -> str:
    """Return the value of the ``outcome`` label for an operation.

    :param error: exception with which the operation ended; None for success
    """
    if error is None:
        return metrics.Outcome.OK.value
    if isinstance(error, errors.BlockattachError):
        return (metrics.Outcome.REFUSED if error.final else metrics.Outcome.UNCERTAIN).value
    return metrics.Outcome.FAILED.value
