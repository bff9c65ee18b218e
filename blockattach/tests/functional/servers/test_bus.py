"""Compute API with attachments over the bus, as set by `[block_storage] transport`."""
import unittest

from blockattach.compute import conf as compute_conf
from blockattach.compute import storage
from blockattach.platform.conf import rpc as rpc_conf
from blockattach.platform.http import responses
from blockattach.platform.rpc import contract
from blockattach.platform.telemetry import acts
from blockattach.storage import errors
from blockattach.storage.rpc import attachments
from blockattach.tests.fixtures import bus
from blockattach.tests.fixtures import clock
from blockattach.tests.fixtures import exhaustive
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import in_process
from blockattach.tests.fixtures import make
from blockattach.tests.functional.servers import cloud
from blockattach.tests.functional.servers import test_interruptions
from blockattach.tests.functional.servers import test_servers


class OverTheBus:
    """Compute API with attachments over the bus and volumes over HTTP."""

    TRANSPORT = 'bus'

    def setUp(self):
        super().setUp()
        self.addCleanup(self.assert_over_the_bus)

    def assert_over_the_bus(self):
        asked = [one for one in self.cloud.cutting.asked if '/attachments' in one]
        self.assertEqual([], asked)


class CreateTest(OverTheBus, test_servers.CreateTest):
    """Creation of servers with attachments over the bus."""


class VolumesTest(OverTheBus, test_servers.VolumesTest):
    """Attach and detach over the bus."""

    def test_attach_without_control_service_undone_later(self):
        """The attach is undone once Block Storage can be reached again."""
        one = self.volume()
        place = 'attachments', 'control-1'
        gone = self.cloud.bus.endpoints.pop(place)
        answer = self.attach(self.made, one, 503)
        self.assertIn('Cannot reach the block storage service',
                      answer['serviceUnavailable']['message'])
        self.cloud.bus.endpoints[place] = gone
        self.cloud.later()
        self.assertEqual({}, self.volumes(self.made))
        self.assertEqual([], self.attachments(one))
        self.attach(self.made, one)
        self.assertEqual({one: 'rw'}, self.volumes(self.made))


class MovesTest(OverTheBus, test_servers.MovesTest):
    """Migrations with attachments over the bus."""


class InterruptionTest(OverTheBus, test_interruptions.InterruptionTest):
    """Death of the compute API after each request, with attachments over the bus."""

    PART = exhaustive.Part(1, 15)


class FailuresTest(unittest.TestCase):
    """Failures of Block Storage over HTTP and over the bus."""

    FAILURES = (
        errors.InvalidVolume(reason='x'), errors.VolumeNotFound(volume_id='x'),
        errors.NotAuthorized(rule='x'), errors.IdempotencyKeyTaken(),
        errors.BackendRefused(reason='x'), errors.BackendUncertain(reason='x'),
        errors.DatabaseUnavailable(), errors.DeadlinePassed(method='x'))

    def setUp(self):
        super().setUp()
        conf = in_process.configuration({'block_storage': {'endpoint_override': cloud.ENDPOINT}})
        self.raised = None
        settings = compute_conf.storage_settings(conf)
        self.ways = (storage.HttpAttachments(settings, cloud.carrying(self.answer,
                                                                      cloud.Cutting())),
                     storage.BusAttachments(self.client(conf)))
        self.caller = attachments.caller(http.PROJECT, make.USER, ('member',))

    def answer(self, environ, start_response):
        return responses.error(self.raised)(environ, start_response)

    def client(self, conf):
        time = clock.ManualClock()
        made = bus.DirectBus(bus.Work(), rpc_conf.settings(conf), time, acts.Telemetry(time))
        made.server(self.failing(), 'one').start()
        return attachments.AttachmentsClient(made)

    def failing(self):
        """Return an endpoint of Block Storage whose methods all fail."""
        def fail(_endpoint, ctxt, **_arguments):
            raise self.raised
        return type('Failing', (attachments.AttachmentsInterface,), dict.fromkeys(
            contract.methods(attachments.AttachmentsInterface), fail))()

    def outcome(self, act, *arguments):
        """Return the class and the text of the error that a call raises, or None."""
        try:
            act(self.caller, *arguments)
        except errors.BlockattachError as error:
            return type(error), str(error)
        return None

    def test_failure_same_over_http_and_bus(self):
        for failure in self.FAILURES:
            self.raised = failure
            over_http, over_bus = ([
                self.outcome(way.create, 'v', 's', 'rw', None, 'k'),
                self.outcome(way.update, 'a', {}), self.outcome(way.complete, 'a'),
                self.outcome(way.get, 'a'), self.outcome(way.delete, 'a')] for way in self.ways)
            with self.subTest(type(failure).__name__):
                self.assertIsNotNone(over_http[0])
                self.assertEqual(over_http, over_bus)
