"""Trace of a request through several processes, sent to a collector."""
import json
import os
import tempfile
import urllib.request

from blockattach.testing import stack
from blockattach.tests.functional import base
from lab.system import collector
from lab.system import processes

SECONDS = 180
SETTINGS = """
[tracing]
endpoint = {endpoint}
{more}
"""
WAY = ('POST /attachments', 'verb attachments.create', 'attach: call', 'send volume.connect',
       'volume.connect', 'attach: grant', 'target.grant')
"""Nested spans from the request to the backend."""


class TracesTestCase(base.StackTestCase):

    def setUp(self):
        super().setUp()
        self.collector = collector.Collector()
        self.addCleanup(self.collector.close)

    def attach(self, endpoint, volume_id, **headers):
        """Attach a volume, and return the id of the request."""
        request = urllib.request.Request(
            f'{endpoint}/attachments', json.dumps({'attachment': {
                'volume_uuid': volume_id, 'instance_uuid': base.instance('one'),
                'connector': base.connector('one')}}).encode(),
            {'OpenStack-API-Version': 'volume 3.71', 'Content-Type': 'application/json',
             **headers})
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            self.assertEqual(200, answer.status)
            return answer.headers['x-openstack-request-id']

    def trace(self, request_id):
        """Wait until all spans of a request have arrived, and return them."""
        def complete():
            return set(WAY) <= {span.name for span in self.collector.trace_of(request_id)}

        self.assertTrue(base.wait_for(complete, SECONDS),
                        [span.name for span in self.collector.trace_of(request_id)])
        return self.collector.trace_of(request_id)

    def assert_chain(self, spans):
        names = {span.id: span.name for span in spans}
        chain, span = [], next(span for span in spans if span.name == WAY[-1])
        while span is not None:
            chain.insert(0, names[span.id])
            span = next((one for one in spans if one.id == span.parent), None)
        self.assertEqual(list(WAY), chain)


class AllInOneTracesTest(TracesTestCase):

    def begin(self, more=''):
        made = self.a_stack(settings=SETTINGS.format(endpoint=self.collector.endpoint, more=more))
        return made, self.a_volume(base.Api(made.endpoint))

    def test_attach_trace_spans_request_to_backend(self):
        service, volume_id = self.begin()
        request_id = self.attach(service.endpoint, volume_id)
        spans = self.trace(request_id)
        self.assert_chain(spans)
        self.assertIn('database write', {span.name for span in spans})
        self.assertEqual({'blockattach-all'}, {span.service for span in spans})
        # Background work has no traces of its own.
        roots = {span.name for span in self.collector.spans if not span.parent}
        self.assertLessEqual(roots, {'POST /attachments', 'POST /volumes', 'GET /volumes/{id}',
                                     'scheduler.report_pools'})

    def test_a_trace_of_a_client_is_gone_on_with_where_clients_are_trusted(self):
        theirs = bytes(range(1, 17))
        header = f'00-{theirs.hex()}-00f067aa0ba902b7-01'
        for more, trusted in (('trust_clients = true', True), ('', False)):
            with self.subTest(more):
                service, volume_id = self.begin(more)
                request_id = self.attach(service.endpoint, volume_id, traceparent=header)
                self.assertEqual(trusted, self.trace(request_id)[0].trace == theirs)

    def test_a_collector_that_is_away_holds_nothing_up(self):
        self.collector.close()
        self.addCleanup(self.collector.__init__)
        service, volume_id = self.begin()
        self.attach(service.endpoint, volume_id)
        service.stop()
        self.assertNotIn('Traceback', service.log_text())

    def test_without_the_extra_it_says_so_in_a_line(self):
        with tempfile.TemporaryDirectory(prefix='blockattach-') as folder:
            os.mkdir(f'{folder}/opentelemetry')
            with open(f'{folder}/opentelemetry/__init__.py', 'w', encoding='ascii') as file:
                file.write("raise ModuleNotFoundError(name='opentelemetry')\n")
            missing = stack.Stack(settings=SETTINGS.format(endpoint=self.collector.endpoint,
                                                           more=''),
                                  environment={'PYTHONPATH': folder})
            self.addCleanup(missing.remove)
            with self.assertRaises(stack.StackRefused) as caught:
                missing.start()
        words = caught.exception.words
        self.assertEqual(1, caught.exception.status, words)
        line, = [line for line in words.splitlines() if line.startswith('blockattach-all: ')]
        self.assertIn('opentelemetry is not installed. Install blockattach[otel] '
                      '([tracing] endpoint in ', line)


class SeparateProcessesTracesTest(processes.ProcessesTestCase, TracesTestCase):

    def test_traces_span_separate_processes(self):
        with open(f'{self.folder}/blockattach.conf', 'a', encoding='utf-8') as file:
            file.write(SETTINGS.format(endpoint=self.collector.endpoint, more=''))
        self.begin()
        volume_id = self.a_volume(self.api)
        request_id = self.attach(f'http://127.0.0.1:{self.port}/v3', volume_id)
        spans = self.trace(request_id)
        self.assert_chain(spans)
        services = {span.name: span.service for span in spans}
        self.assertEqual(['blockattach-api', 'blockattach-volume'],
                         [services[name] for name in (WAY[0], WAY[-1])])
        # The creation of the volume passed the scheduler, in another trace.
        self.assertTrue(base.wait_for(lambda: self.places_of('place volume') == {
            'blockattach-api', 'blockattach-scheduler', 'blockattach-volume'}, SECONDS))

    def places_of(self, name):
        """Return the programs that took part in the traces with a span of this name."""
        traces = {span.trace for span in self.collector.spans if span.name == name}
        return {span.service for span in self.collector.spans if span.trace in traces}
