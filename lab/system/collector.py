"""Collector of traces in this process: OTLP over HTTP, with the spans in memory."""
import http.server
import threading
from typing import NamedTuple

from opentelemetry.proto.collector.trace.v1 import trace_service_pb2


class Span(NamedTuple):
    """Received span."""

    name: str
    trace: bytes
    id: bytes
    parent: bytes
    service: str
    attributes: dict[str, str]


class Collector:
    """HTTP server that collects spans. ``endpoint`` is the URL for the configuration of a process.
    """

    def __init__(self):
        self.spans = []
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers['Content-Length']))
                collector.take(trace_service_pb2.ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header('Content-Length', '0')
                self.end_headers()

            def log_message(self, *arguments):
                pass

        self._server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.endpoint = f'http://127.0.0.1:{self._server.server_port}/v1/traces'

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(self, request):
        for resource in request.resource_spans:
            values = _texts(resource.resource.attributes)
            for scope in resource.scope_spans:
                self.spans += [Span(span.name, span.trace_id, span.span_id, span.parent_span_id,
                                    values['service.name'], _texts(span.attributes))
                               for span in scope.spans]

    def trace_of(self, request_id):
        """Return the spans of the trace of a request, or an empty list before they arrive."""
        traces = {span.trace for span in self.spans
                  if span.attributes.get('blockattach.request_id') == request_id}
        return [span for span in self.spans if span.trace in traces]


def _texts(attributes):
    return {one.key: one.value.string_value for one in attributes}
