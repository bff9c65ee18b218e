"""Metrics and traces of the bus on both sides."""
import unittest
import uuid

from opentelemetry.sdk.trace import export
from opentelemetry.sdk.trace.export import in_memory_span_exporter

from blockattach.platform import errors
from blockattach.platform.conf import telemetry as telemetry_conf
from blockattach.platform.telemetry import acts
from blockattach.platform.telemetry import counting
from blockattach.platform.telemetry import otel
from blockattach.tests.unit.rpc import bus_contract
from blockattach.tests.unit.rpc import probe


class TelemetryTest(bus_contract.BusTestCase, unittest.TestCase):

    def setUp(self):
        self.url = f'inproc://{uuid.uuid4().hex}/'
        super().setUp()
        self.sender, self.receiver = acts.Telemetry(), acts.Telemetry()
        for telemetry in (self.sender, self.receiver):
            telemetry.counts = counting.Counts(telemetry.readings)
        self.client_bus = self.make_bus(telemetry=self.sender)
        self.endpoint = probe.ProbeEndpoint()
        self.server = self.serve(self.endpoint, bus=self.make_bus(telemetry=self.receiver))
        self.probe = self.client('one', self.client_bus)

    def counted(self, telemetry, side, method, outcome):
        return telemetry.counts.registry.get_sample_value(
            f'blockattach_rpc_{side}_seconds_count',
            {'topic': 'probe', 'method': method, 'outcome': outcome}) or 0

    def both(self, method, outcome):
        # What the server counts, it counts before it answers.
        return (self.counted(self.sender, 'client', method, outcome),
                self.counted(self.receiver, 'server', method, outcome))

    def test_calls_counted_by_outcome_on_both_sides(self):
        self.probe.echo(self.ctxt, 1)
        self.assertEqual((1, 1), self.both('echo', 'ok'))
        for how in ('stale', 'refused'):
            self.assertRaises(errors.BlockattachError, self.probe.fail, self.ctxt, how)
        self.assertEqual((2, 2), self.both('fail', 'refused'))
        self.assertRaises(errors.BackendUncertain, self.probe.fail, self.ctxt, 'unforeseen')
        self.assertEqual((1, 0), self.both('fail', 'uncertain'))
        self.assertEqual((0, 1), self.both('fail', 'failed'))

    def test_unanswered_call_counted_as_uncertain(self):
        self.server.stop()
        self.assertRaises(errors.ServiceUnreachable, self.probe.hurry, self.ctxt)
        self.assertEqual((1, 0), self.both('hurry', 'uncertain'))

    def test_server_reports_busy_threads(self):
        def use():
            return [value for (name,), value in self.receiver.readings.now().get(
                        acts.metrics.THREADS_BUSY, {}).items() if name.endswith('-probe.one')]

        self.assertEqual([0], use())
        self.probe.note(self.ctxt, 1)
        self.heard(self.endpoint)

    def test_trace_continues_over_bus(self):
        spans = in_memory_span_exporter.InMemorySpanExporter()
        for name, telemetry in (('sender', self.sender), ('receiver', self.receiver)):
            provider = otel.build_provider(telemetry_conf.TracingSettings('', 1.0, False, ''),
                                           name)
            provider.add_span_processor(export.SimpleSpanProcessor(spans))
            self.addCleanup(provider.shutdown)
            telemetry.tracer = otel.Tracer(provider)
        with self.sender.http(None):
            self.probe.echo(self.ctxt, 1)
        found = {span.name: span for span in spans.get_finished_spans()}
        self.assertEqual(1, len({span.context.trace_id for span in found.values()}))
        self.assertEqual(found['send probe.echo'].context.span_id,
                         found['probe.echo'].parent.span_id)
        self.assertEqual(['sender', 'receiver'], [
            found[name].resource.attributes['service.name']
            for name in ('send probe.echo', 'probe.echo')])
        # The next message of this thread belongs to no trace.
        self.probe.echo(self.ctxt, 2)
        self.assertIsNone(spans.get_finished_spans()[-1].parent)
