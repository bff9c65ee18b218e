"""Clients of the interfaces of the service, against recording endpoints."""
import contextlib
import threading
import unittest
import uuid
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import oslo_messaging

from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform.conf import rpc as rpc_conf
from blockattach.platform.rpc import transport
from blockattach.storage import objects
from blockattach.storage.domain import pools
from blockattach.storage.rpc import history
from blockattach.storage.rpc import scheduler
from blockattach.storage.rpc import volume
from blockattach.tests.fixtures import polling
from blockattach.tests.unit.rpc import bus_contract
from blockattach.tests.unit.rpc import probe

SECONDS = polling.LIMIT


class VolumeEndpoint(volume.VolumeInterface):
    """Volume endpoint that records its calls."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.answer = True

    def accept_work(self, ctxt: context.RequestContext, noun: str, verb: str, resource_id: str,
                    generation: int) -> bool:
        self.asked.append(('accept_work', noun, verb, resource_id, generation))
        return self.answer

    def start_work(self, ctxt: context.RequestContext, noun: str, verb: str, resource_id: str,
                   generation: int) -> None:
        self.asked.append(('start_work', noun, verb, resource_id, generation))

    def connect(self, ctxt: context.RequestContext, volume_id: str, initiator: str,
                attachment_id: str, generation: int) -> Mapping[str, Any]:
        self.asked.append(('connect', volume_id, initiator, attachment_id, generation))
        return {'connection': {}, 'at': '2026-01-01T00:00:00'}

    def disconnect(self, ctxt: context.RequestContext, volume_id: str, initiators: Sequence[str],
                   attachment_id: str, generation: int) -> bool:
        self.asked.append(('disconnect', volume_id, initiators, attachment_id, generation))
        return True

    def host_reservation(self, ctxt: context.RequestContext, volume_id: str,
                         initiator: str) -> str | None:
        self.asked.append(('host_reservation', volume_id, initiator))
        return 'holder' if self.answer else None

    def reconcile(self, ctxt: context.RequestContext,
                  dry_run: bool) -> Sequence[Mapping[str, Any]]:
        self.asked.append(('reconcile', dry_run))
        return [{'drift': 'grant', 'attachment_id': None}]

    def actual_grants(self, ctxt: context.RequestContext, volume_id: str) -> Mapping[str, Any]:
        self.asked.append(('actual_grants', volume_id))
        return {'exported': True, 'grants': [{'initiator': 'iqn.a', 'sessions': 1}]}

    def list_manageable(self, ctxt: context.RequestContext,
                        noun: str) -> Sequence[Mapping[str, Any]]:
        self.asked.append(('list_manageable', noun))
        return []

    def ping(self, ctxt: context.RequestContext) -> bool:
        return True


class SchedulerEndpoint(scheduler.SchedulerInterface, probe.ProbeEndpoint):
    """Scheduler endpoint that records its messages."""

    TOPIC = 'scheduler'

    def place_volume(self, ctxt: context.RequestContext,
                     request: objects.VolumeRequest) -> None:
        self.heard.put(request)

    def report_pools(self, ctxt: context.RequestContext, report: objects.PoolsReport) -> None:
        self.heard.put(report)

    def judge_pools(self, ctxt: context.RequestContext, request: objects.VolumeRequest,
                    volume_type_id: str) -> Sequence[Mapping[str, Any]]:
        return [{'name': 'h@b#p', 'left_gb': None, 'score': 0.5, 'refused_by': None,
                 'reason': volume_type_id}]


class UnknownError(Exception):
    """An error of a server that is not made by `transport.Bus`."""


class ForeignEndpoint:
    """Endpoint of a foreign server on a topic of the service."""

    def ping(self, ctxt: dict[str, Any]) -> bool:
        raise UnknownError('hunter2')


class BlockedEndpoint(VolumeEndpoint):
    """Volume endpoint whose connect blocks until the test releases it."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.go_on = threading.Event(), threading.Event()

    def connect(self, ctxt: context.RequestContext, volume_id: str, initiator: str,
                attachment_id: str, generation: int) -> Mapping[str, Any]:
        self.entered.set()
        self.go_on.wait(SECONDS)
        return super().connect(ctxt, volume_id, initiator, attachment_id, generation)


class InterfacesTest(unittest.TestCase):
    """Methods of the clients and their arguments."""

    def setUp(self) -> None:
        super().setUp()
        self.ctxt = context.admin_context()
        self.channel = transport.build_transport(bus_contract.private_conf(),
                                                 f'inproc://{uuid.uuid4().hex}/')
        self.bus = transport.Bus(self.channel, rpc_conf.RpcSettings(), history.RELEASES)
        self.addCleanup(self.bus.close)

    def serve(self, endpoint: Any, host: str) -> None:
        server = self.bus.server(endpoint, host)
        server.start()
        self.addCleanup(server.stop)

    def test_quick_methods_not_delayed_by_slow_backend(self) -> None:
        endpoint = BlockedEndpoint()
        server = self.bus.server(endpoint, 'host@one', threads=1)
        server.start()
        self.addCleanup(server.stop)
        self.addCleanup(endpoint.go_on.set)
        client = volume.VolumeClients(self.bus).on('host@one')
        asking = threading.Thread(target=client.connect, args=(self.ctxt, 'v', 'iqn', 'a', 1))
        asking.start()
        self.addCleanup(asking.join)
        self.addCleanup(endpoint.go_on.set)
        self.assertTrue(endpoint.entered.wait(SECONDS))
        self.assertTrue(client.ping(self.ctxt))
        self.assertTrue(client.accept_work(self.ctxt, 'volume', 'create', 'v', 1))

    def test_call_refused_by_admission_raises(self) -> None:
        result: list[float | None] = []

        @contextlib.contextmanager
        def admit(caller: context.RequestContext) -> Iterator[None]:
            result.append(caller.deadline)
            raise errors.QueueTimeout
            yield

        server = self.bus.server(VolumeEndpoint(), 'host@one', admit=admit)
        server.start()
        self.addCleanup(server.stop)
        with self.assertRaises(errors.QueueTimeout):
            volume.VolumeClients(self.bus).on('host@one').ping(self.ctxt)
        self.assertIsNotNone(result[0])

    def test_volume_client_calls_named_host(self) -> None:
        one, other = VolumeEndpoint(), VolumeEndpoint()
        self.serve(one, 'host@one')
        self.serve(other, 'host@other')
        client = volume.VolumeClients(self.bus).on('host@one')
        self.assertTrue(client.ping(self.ctxt))
        self.assertTrue(client.accept_work(self.ctxt, 'volume', 'create', 'v', 1))
        one.answer = False
        self.assertFalse(client.accept_work(self.ctxt, 'volume', 'create', 'v', 2))
        result = client.connect(self.ctxt, 'v', 'iqn', 'a', 3)
        self.assertEqual({'connection': {}, 'at': '2026-01-01T00:00:00'}, result)
        self.assertIs(True, client.disconnect(self.ctxt, 'v', ('iqn',), 'a', 4))
        client.start_work(
            self.ctxt, 'volume', 'delete', 'v', 5)
        client.ping(self.ctxt)
        self.bus.close()
        self.assertEqual([('accept_work', 'volume', 'create', 'v', 1),
                          ('accept_work', 'volume', 'create', 'v', 2),
                          ('connect', 'v', 'iqn', 'a', 3),
                          ('disconnect', 'v', ['iqn'], 'a', 4)], one.asked[:4])
        self.assertEqual([], other.asked)

    def test_host_reservation_answered_repeatedly(self) -> None:
        endpoint = VolumeEndpoint()
        self.serve(endpoint, 'host@one')
        client = volume.VolumeClients(self.bus).on('host@one')
        for _ in range(2):
            self.assertEqual('holder', client.host_reservation(self.ctxt, 'v', 'iqn.a'))
        endpoint.answer = False
        self.assertIsNone(client.host_reservation(self.ctxt, 'v', 'iqn.b'))
        self.assertEqual(('host_reservation', 'v', 'iqn.b'), endpoint.asked[-1])

    def test_actual_grants_answered(self) -> None:
        endpoint = VolumeEndpoint()
        self.serve(endpoint, 'host@one')
        said = volume.VolumeClients(self.bus).on('host@one').actual_grants(self.ctxt, 'v')
        self.assertEqual({'exported': True, 'grants': [{'initiator': 'iqn.a', 'sessions': 1}]},
                         said)
        self.assertEqual([('actual_grants', 'v')], endpoint.asked)

    def test_reconcile_answers_findings(self) -> None:
        endpoint = VolumeEndpoint()
        self.serve(endpoint, 'host@one')
        said = volume.VolumeClients(self.bus).on('host@one').reconcile(self.ctxt, True)
        self.assertEqual([{'drift': 'grant', 'attachment_id': None}], said)
        self.assertEqual([('reconcile', True)], endpoint.asked)

    def test_judge_pools_answers_verdicts(self) -> None:
        self.serve(SchedulerEndpoint(), 'host')
        request = pools.VolumeRequest(
            volume_id='', generation=0, size_gb=10, multiattach=False, availability_zone='z',
            extra_specs={})
        self.assertEqual(
            [{'name': 'h@b#p', 'left_gb': None, 'score': 0.5, 'refused_by': None,
              'reason': 'type'}],
            scheduler.client(self.bus).judge_pools(
                self.ctxt, objects.VolumeRequest.from_domain(request), 'type'))

    def test_start_work_cast_delivered(self) -> None:
        endpoint = VolumeEndpoint()
        server = self.bus.server(endpoint, 'host@one')
        server.start()
        volume.VolumeClients(self.bus).on('host@one').start_work(
            self.ctxt, 'volume', 'delete', 'v', 5)
        server.stop()
        self.assertEqual([('start_work', 'volume', 'delete', 'v', 5)], endpoint.asked)

    def test_place_volume_delivers_request(self) -> None:
        endpoint = SchedulerEndpoint()
        self.serve(endpoint, 'host')
        request = pools.VolumeRequest(
            volume_id='v', generation=3, size_gb=10, multiattach=True, availability_zone=None,
            extra_specs={'multiattach': '<is> True'}, tried=('h@b#p',))
        scheduler.client(self.bus).place_volume(
            self.ctxt, objects.VolumeRequest.from_domain(request))
        heard = endpoint.heard.get(timeout=probe.LIMIT)
        self.assertEqual(request, heard.to_domain())

    def test_report_pools_reaches_each_scheduler(self) -> None:
        endpoints = [SchedulerEndpoint() for _ in range(2)]
        for number, endpoint in enumerate(endpoints):
            self.serve(endpoint, f'host{number}')
        scheduler.client(self.bus).report_pools(
            self.ctxt, objects.PoolsReport.from_capabilities(
                'h@b', {'p': {'free_capacity_gb': 1.5}}))
        for endpoint in endpoints:
            report = endpoint.heard.get(timeout=probe.LIMIT)
            self.assertEqual('h@b', report.host)
            self.assertEqual({'p': {'free_capacity_gb': 1.5}}, report.capabilities())

    def test_error_of_unknown_class_uncertain(self) -> None:
        server = oslo_messaging.get_rpc_server(
            self.channel, oslo_messaging.Target(topic='blockattach-volume', server='h@b'),
            [ForeignEndpoint()])
        server.start()
        self.addCleanup(server.stop)
        with (self.assertLogs('oslo_messaging.rpc.server', 'ERROR'),
              self.assertRaises(errors.BackendUncertain) as caught):
            volume.VolumeClients(self.bus).on('h@b').ping(self.ctxt)
        self.assertIn('UnknownError', str(caught.exception))
        self.assertNotIn('hunter2', str(caught.exception))


class AbsentBrokerTest(unittest.TestCase):
    """RabbitMQ that cannot be reached from the start."""

    def test_call_and_cast_without_broker_raise(self) -> None:
        # Nobody listens at port 1.
        bus = transport.Bus(
            transport.build_transport(bus_contract.private_conf(),
                                      'rabbit://guest:guest@127.0.0.1:1/'),
            rpc_conf.RpcSettings(send_retries=0), history.RELEASES)
        client = volume.VolumeClients(bus).on('h@b')
        ctxt = context.admin_context()
        for act in (lambda: client.start_work(ctxt, 'volume', 'delete', 'v', 1),
                    lambda: client.ping(ctxt)):
            with self.assertRaises(errors.ServiceUnreachable):
                act()


class SettingsTest(unittest.TestCase):
    """Settings of the group ``[rpc]``."""

    def test_settings_read_from_options(self) -> None:
        conf = bus_contract.private_conf()
        conf.register_opts(rpc_conf.OPTS, group=rpc_conf.GROUP)
        self.assertEqual(rpc_conf.RpcSettings(), rpc_conf.settings(conf))
        conf.set_override('topic_prefix', 'other', group='rpc')
        self.assertEqual('other', rpc_conf.settings(conf).topic_prefix)
        self.assertEqual({option.name for option in rpc_conf.OPTS},
                         set(rpc_conf.RpcSettings.__slots__))
