"""Middleware: order of the layers, request log and request metrics."""
import logging
import unittest

import webob
from oslo_context import context as oslo_context

from blockattach.platform import clock
from blockattach.platform import errors
from blockattach.platform import log
from blockattach.platform.http import middleware
from blockattach.platform.telemetry import acts
from blockattach.platform.telemetry import counting
from blockattach.tests.unit.http import tiny


class StoppedClock(clock.Clock):
    """Clock that advances by a quarter of a second at each reading."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        self.now += 0.25
        return self.now


class LayersTest(unittest.TestCase):
    """Order of the layers."""

    def test_first_layer_is_outermost(self):
        seen = []

        def layer(name):
            def around(inner):
                def handle(request):
                    seen.append(name)
                    return inner(request)
                return handle
            return around
        app = middleware.application((layer('a'), layer('b')), lambda request: webob.Response())
        webob.Request.blank('/').get_response(app)
        self.assertEqual(['a', 'b'], seen)


class RequestLogTest(unittest.TestCase):
    """Log line of each request."""

    def line(self, path, inner):
        app = middleware.application(
            (middleware.watch_request(acts.Telemetry(StoppedClock())), middleware.answer_faults),
            inner)
        with self.assertLogs('blockattach.platform.http.middleware', 'INFO') as logged:
            webob.Request.blank(path).get_response(app)
        self.assertEqual(1, len(logged.output))
        return logged.output[0].partition('Request completed')[2]

    def test_request_log_fields(self):
        self.assertEqual(
            ' method=GET path=/v3/volumes operation=none status=200 length=2 seconds=0.25',
            self.line('/v3/volumes?name=mine', lambda request: webob.Response(body=b'OK')))

    def test_request_log_has_fields_of_steps(self):
        def handle(request):
            log.step(logging.getLogger(__name__), 'Volume deleted', volume_id='v', size_gb=1)
            log.took('database_seconds', 0.125)
            log.took('database_seconds', 0.25)
            return webob.Response()
        self.assertEqual(' volume_id=v database_seconds=0.375',
                         self.line('/', handle).partition(' seconds=0.25')[2])

    def test_request_log_has_error_code(self):
        def refuse(request):
            raise errors.NotAuthenticated()
        self.assertIn(f' code={errors.NotAuthenticated.code}', self.line('/', refuse))

    def test_request_log_has_operation_and_id(self):
        api = tiny.Tiny()
        with self.assertLogs('blockattach.platform.http.middleware', 'INFO') as logged:
            api.call('GET', '/v3/attachments/a')
        [line] = logged.output
        self.assertIn(' operation=GET /attachments/{id} ', line)
        self.assertIn(' attachment_id=a', line)

    def test_request_log_has_status_of_failure(self):
        def fail(request):
            raise RuntimeError
        with self.assertLogs('blockattach.platform.http.responses', 'ERROR'):
            self.assertIn(' status=500 ', self.line('/', fail))

    def test_request_log_escapes_line_break_in_path(self):
        line = self.line('/a%0AERROR%20all%20lost', lambda request: webob.Response())
        self.assertNotIn('\n', line)

    def test_request_log_has_no_token(self):
        api = tiny.Tiny()
        with self.assertLogs('blockattach', 'DEBUG') as logged:
            api.call('GET', '/v3/attachments/a', token=f'ann:{tiny.PROJECT}:member,topsecret')
        self.assertNotIn('topsecret', ''.join(logged.output))

    def test_each_request_has_own_request_id(self):
        seen = []

        def handle(request):
            seen.append((oslo_context.get_current().request_id,
                         middleware.request_ids(request)['request_id']))
            return webob.Response()

        app = middleware.application((middleware.watch_request(acts.Telemetry()),), handle)
        for _ in range(2):
            webob.Request.blank('/').get_response(app)
        self.assertEqual(2, len(set(seen)))
        for logged_by, name in seen:
            self.assertEqual(name, logged_by)


class WatchTest(unittest.TestCase):
    """Metrics of requests."""

    def setUp(self):
        super().setUp()
        self.telemetry = acts.Telemetry()
        self.telemetry.counts = counting.Counts(self.telemetry.readings)

    def count(self, operation, status):
        return self.telemetry.counts.registry.get_sample_value(
            'blockattach_http_request_seconds_count',
            {'operation': operation, 'status': status}) or 0

    def test_requests_counted_by_operation_and_status(self):
        api = tiny.Tiny(telemetry=self.telemetry)
        for path, operation, status in (
                ('/v3/attachments/a', 'GET /attachments/{id}', '2xx'),
                ('/v3/attachments/none', 'GET /attachments/{id}', '4xx'),
                ('/v3/nothing/secret', 'none', '4xx'),
                ('/v3/boom/bug', 'GET /boom/{id}', '5xx')):
            with self.subTest(path):
                before = self.count(operation, status)
                api.call('GET', path)
                self.assertEqual(before + 1, self.count(operation, status))
        self.assertNotIn('secret', str(list(self.telemetry.counts.registry.collect())))
