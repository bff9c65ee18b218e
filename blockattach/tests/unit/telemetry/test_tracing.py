"""Trace spans of operations, exported to memory."""
import unittest

from opentelemetry.sdk.trace import export
from opentelemetry.sdk.trace.export import in_memory_span_exporter

from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform import metrics
from blockattach.platform.conf import telemetry as telemetry_conf
from blockattach.platform.telemetry import acts
from blockattach.platform.telemetry import otel


def settings(ratio=1.0):
    return telemetry_conf.TracingSettings('http://127.0.0.1:1/v1/traces', ratio, False, 'here')


class TracingTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.spans = in_memory_span_exporter.InMemorySpanExporter()
        self.telemetry = acts.Telemetry()
        self.telemetry.tracer = self.tracer()

    def tracer(self, **more):
        provider = otel.build_provider(settings(**more), 'blockattach-api')
        provider.add_span_processor(export.SimpleSpanProcessor(self.spans))
        self.addCleanup(provider.shutdown)
        return otel.Tracer(provider)

    def finished(self):
        return {span.name: span for span in self.spans.get_finished_spans()}

    def test_trace_continues_over_message(self):
        message = {}
        with self.telemetry.http(None) as act:
            context.RequestContext(request_id='req-1')
            act.note(operation='POST /attachments', status='2xx')
            with self.telemetry.verb('attachments.create'), self.telemetry.transaction('write'):
                self.telemetry.inject(message)
        self.telemetry.inject({})
        # As in another process.
        carried = self.telemetry.extract(message)
        with (self.telemetry.rpc_server('volume', 'connect', carried),
              self.telemetry.backend('disks', 'target', 'grant')):
            pass
        spans = self.finished()
        parents = {name: next((other for other, span in spans.items()
                               if one.parent and span.context.span_id == one.parent.span_id), None)
                   for name, one in spans.items()}
        self.assertEqual({
            'POST /attachments': None, 'verb attachments.create': 'POST /attachments',
            'database write': 'verb attachments.create', 'volume.connect': 'database write',
            'target.grant': 'volume.connect'}, parents)
        self.assertEqual(1, len({span.context.trace_id for span in spans.values()}))
        root = spans['POST /attachments']
        self.assertEqual(
            {'blockattach.operation': 'POST /attachments', 'blockattach.status': '2xx',
             'blockattach.request_id': 'req-1'}, dict(root.attributes))
        self.assertEqual('blockattach-api', root.resource.attributes['service.name'])

    def test_operation_without_request_has_no_trace(self):
        for act in (self.telemetry.transaction('read'), self.telemetry.rpc_client('t', 'm'),
                    self.telemetry.backend('b', 'store', 'pools'), self.telemetry.placing()):
            message = {}
            with act:
                self.telemetry.inject(message)
            self.assertEqual({}, message)
        self.assertEqual({}, self.finished())

    def test_message_without_trace_starts_one(self):
        with self.telemetry.rpc_server('volume', 'connect', None):
            pass
        self.assertIsNone(self.finished()['volume.connect'].parent)

    def test_malformed_traceparent_ignored(self):
        for text in ('x', '00-0-0-00', '\r\n'):
            with self.telemetry.http(text):
                pass
            self.assertIsNone(self.finished()['none'].parent)
            self.spans.clear()

    def test_failure_recorded_without_message(self):
        with self.assertRaises(errors.BackendRefused), self.telemetry.work('create', None):
            raise errors.BackendRefused(reason='the password is hunter2')
        span = self.finished()['create volume']
        self.assertEqual(('ERROR', 'refused'), (span.status.status_code.name,
                                                span.attributes['blockattach.outcome']))
        self.assertNotIn('hunter2', span.to_json())

    def test_sampling_decision_sent_with_message(self):
        message = {}
        self.telemetry.tracer = self.tracer(ratio=0.0)
        with self.telemetry.http(None):
            self.telemetry.inject(message)
        self.telemetry.tracer = self.tracer(ratio=1.0)
        with self.telemetry.rpc_server('volume', 'connect', self.telemetry.extract(message)):
            pass
        self.assertEqual({}, self.finished())

    def test_each_histogram_has_span_name(self):
        timed = [row for row in metrics.METRICS if row.kind is metrics.Kind.HISTOGRAM]
        self.assertEqual(timed, [row for row in metrics.METRICS if row.span is not None])
        for row in timed:
            with self.subTest(row.name):
                row.span.name.format_map(dict.fromkeys(row.labels, 'x'))
