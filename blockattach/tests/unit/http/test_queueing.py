"""Middleware layer that admits requests."""
import io
import unittest

import webob

from blockattach.platform import admission
from blockattach.platform import errors
from blockattach.platform.conf import api as api_conf
from blockattach.platform.http import queueing
from blockattach.platform.telemetry import acts
from blockattach.tests.fixtures import clock


class InTurnTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.clock = clock.ManualClock()
        self.clock.advance(1000)
        self.admission = admission.AdmissionController(
            api_conf.QueueSettings(), acts.Telemetry(self.clock))
        self.seen = []
        self.handle = queueing.admitting(self.admission, 60)(self.inner)

    def inner(self, request):
        self.seen.append((request.environ[queueing.DEADLINE],
                          self.admission.use()[admission.WORK].busy))
        return webob.Response('done')

    def test_admitted_request_has_slot_and_deadline(self):
        self.assertEqual(200, self.handle(webob.Request.blank('/')).status_int)
        self.assertEqual([(1060.0, 1)], self.seen)
        self.assertEqual(0, self.admission.use()[admission.WORK].busy)

    def test_refused_request_read_to_end_and_not_handled(self):
        body = io.BytesIO(b'with a body')
        request = webob.Request.blank('/', method='POST', environ={
            queueing.REFUSED: errors.QueueFull(), 'wsgi.input': body, 'CONTENT_LENGTH': '11'})
        with self.assertRaises(errors.QueueFull):
            self.handle(request)
        self.assertEqual(b'', body.read())
        self.assertEqual([], self.seen)

    def test_refused_request_with_unreadable_body_still_refused(self):
        class Broken:
            def read(self, size):
                raise OSError
        for length in ('11', 'x', ''):
            with self.subTest(length=length), self.assertRaises(errors.QueueFull):
                self.handle(webob.Request.blank('/', method='POST', environ={
                    queueing.REFUSED: errors.QueueFull(), 'wsgi.input': Broken(),
                    'CONTENT_LENGTH': length}))
