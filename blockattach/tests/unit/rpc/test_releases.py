"""Processes of two releases on one bus, where ``[rpc] release`` pins the newer one.

The older release consists of endpoints, clients and objects of the older versions.
"""
import unittest
import uuid
from typing import Any

from oslo_versionedobjects import base as ovo_base
from oslo_versionedobjects import fields
from oslo_versionedobjects import fixture

from blockattach.compute import interface as compute
from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform.conf import rpc as rpc_conf
from blockattach.platform.rpc import contract
from blockattach.platform.rpc import processes
from blockattach.platform.rpc import serializing
from blockattach.platform.rpc import transport
from blockattach.storage.rpc import attachments
from blockattach.storage.rpc import history
from blockattach.storage.rpc import scheduler
from blockattach.storage.rpc import volume
from blockattach.tests.unit.rpc import bus_contract
from blockattach.tests.unit.rpc import probe

INTERFACES = (attachments.AttachmentsInterface, compute.AgentInterface,
              compute.ConductorInterface, processes.ProcessInterface,
              scheduler.SchedulerInterface, volume.VolumeInterface)

# The probes' own history: release 2 added a method, a field, and an interface.
OLD = contract.Release('1', {'probe': '1.0'}, {'Thing': '1.0', 'Box': '1.0'})
NEW = contract.Release('2', {'probe': '1.1', 'later': '1.0'}, {'Thing': '1.1', 'Box': '1.0'})


class OldThing(serializing.BlockattachObject):
    """Object of release 1."""

    VERSION = '1.0'
    fields = {'name': fields.StringField()}

    @classmethod
    def obj_name(cls) -> str:
        return 'Thing'


class NewThing(OldThing):
    """Object of release 2."""

    VERSION = '1.1'
    fields = {'name': fields.StringField(), 'colour': fields.StringField()}

    def obj_make_compatible(self, primitive: dict[str, Any], target_version: str) -> None:
        super().obj_make_compatible(primitive, target_version)
        if target_version == '1.0':
            primitive.pop('colour', None)


class Box(serializing.BlockattachObject):
    """Unchanged object with contents that have changed."""

    VERSION = '1.0'
    fields = {'things': fields.ListOfObjectsField('Thing')}


class LaterInterface(contract.Interface):
    """Interface that release 1 lacks."""

    TOPIC = 'later'

    @contract.call(since='1.0')
    def act(self, ctxt: context.RequestContext) -> None:
        """Anything."""


def boxed(kind: type[OldThing], **values: str) -> list[Any]:
    """Return a thing, and a box with a thing."""
    return [kind(**values), Box(things=[kind(**values)])]


class BusTestCase(unittest.TestCase):
    """Test case with buses of several processes."""

    def setUp(self) -> None:
        super().setUp()
        self.ctxt = context.admin_context()
        self.url = f'inproc://{uuid.uuid4().hex}/'

    def bus(self, releases: tuple[contract.Release, ...] = history.RELEASES,
            pin: str = '', **settings: Any) -> transport.Bus:
        """Build the bus of a process.

        :param releases: the releases that the process knows
        :param pin: the release that it is pinned to
        """
        channel = transport.build_transport(bus_contract.private_conf(), self.url)
        made = transport.Bus(channel, rpc_conf.RpcSettings(release=pin, **settings), releases)
        self.addCleanup(made.close)
        return made

    def serve(self, bus: transport.Bus, endpoint: contract.Interface) -> None:
        server = bus.server(endpoint, 'one')
        server.start()
        self.addCleanup(server.stop)


class MethodsTest(BusTestCase):
    """Interfaces of two releases."""

    def test_pinned_client_calls_older_server(self) -> None:
        self.serve(self.bus((OLD,)), probe.ProbeEndpoint())
        bus = self.bus((OLD, NEW), '1')
        client = probe.YoungClient(bus.client(probe.YoungInterface, 'one'))
        self.assertEqual(['probe', 1], client.echo(self.ctxt, 1))
        with self.assertRaises(errors.ConfigurationError) as caught:
            client.grown(self.ctxt)
        self.assertIn('[rpc] release', str(caught.exception))

    def test_older_client_calls_newer_server(self) -> None:
        for pin in ('1', ''):
            with self.subTest(pin):
                bus = self.bus((OLD, NEW), pin)
                self.serve(bus, probe.YoungEndpoint())
                client = probe.ProbeClient(self.bus((OLD,)).client(probe.ProbeInterface, 'one'))
                self.assertEqual(['probe', 1], client.echo(self.ctxt, 1))

    def test_pinned_server_serves_newer_client(self) -> None:
        """Other processes are restarted without the pin earlier."""
        self.serve(self.bus((OLD, NEW), '1'), probe.YoungEndpoint())
        client = probe.YoungClient(self.bus((OLD, NEW)).client(probe.YoungInterface, 'one'))
        self.assertEqual('probe', client.grown(self.ctxt))

    def test_pinned_client_refuses_newer_interface(self) -> None:
        with self.assertRaises(errors.ConfigurationError) as caught:
            self.bus((OLD, NEW), '1').client(LaterInterface)(self.ctxt, 'act')
        self.assertTrue(caught.exception.final)


class ObjectsTest(BusTestCase):
    """Objects of two releases, of which ``old`` and ``new`` select one for the process."""

    def setUp(self) -> None:
        super().setUp()
        registry = fixture.VersionedObjectRegistryFixture()
        registry.setUp()
        self.addCleanup(registry.cleanUp)
        self.endpoint = probe.ProbeEndpoint()

    def know(self, *kinds: type[serializing.BlockattachObject]) -> None:
        """Register exactly these objects."""
        registry = ovo_base.VersionedObjectRegistry()
        registry._registry._obj_classes.clear()
        for kind in kinds:
            ovo_base.VersionedObjectRegistry.register(kind)

    def old(self) -> None:
        self.know(OldThing, Box)

    def new(self) -> None:
        self.know(NewThing, Box)

    def test_older_server_reads_object_of_pinned_client(self) -> None:
        self.new()
        client = probe.ProbeClient(self.bus((OLD, NEW), '1').client(probe.ProbeInterface, 'one'))
        client.note(self.ctxt, boxed(NewThing, name='n', colour='c'))
        self.old()
        self.serve(self.bus((OLD,)), self.endpoint)
        thing, box = self.endpoint.heard.get(timeout=probe.LIMIT)
        self.assertEqual(('1.0', 'n'), (thing.VERSION, thing.name))
        self.assertEqual(('1.0', 'n'), (box.things[0].VERSION, box.things[0].name))

    def test_older_server_refuses_newer_object(self) -> None:
        self.new()
        invoke = self.bus((OLD, NEW)).client(probe.ProbeInterface, 'one')
        self.serve(self.bus((OLD,)), self.endpoint)
        for value in boxed(NewThing, name='n', colour='c'):
            self.old()
            with (self.subTest(value), self.assertLogs('blockattach.platform.rpc', 'WARNING'),
                  self.assertRaises(errors.ConfigurationError)):
                invoke(self.ctxt, 'echo', value=value)
        self.assertEqual([], self.endpoint.contexts)

    def test_older_client_reads_object_of_pinned_server(self) -> None:
        self.new()
        self.serve(self.bus((OLD, NEW), '1'), Answering(
            boxed(NewThing, name='n', colour='c'), self.old))
        client = probe.ProbeClient(self.bus((OLD,)).client(probe.ProbeInterface, 'one'))
        thing, box = client.echo(self.ctxt, None)
        self.assertEqual(('1.0', 'n'), (thing.VERSION, thing.name))
        self.assertEqual(('1.0', 'n'), (box.things[0].VERSION, box.things[0].name))

    def test_newer_server_reads_object_of_older_client(self) -> None:
        self.old()
        client = probe.ProbeClient(self.bus((OLD,)).client(probe.ProbeInterface, 'one'))
        client.note(self.ctxt, boxed(OldThing, name='n'))
        self.new()
        self.serve(self.bus((OLD, NEW)), self.endpoint)
        thing, box = self.endpoint.heard.get(timeout=probe.LIMIT)
        self.assertEqual((NewThing, 'n'), (type(thing), thing.name))
        self.assertFalse(thing.obj_attr_is_set('colour'))
        self.assertEqual('n', box.things[0].name)


class Answering(probe.ProbeEndpoint):
    """Endpoint that answers an object and then changes the release of the reader."""

    def __init__(self, answer: Any, then: Any) -> None:
        super().__init__()
        self.answer = answer
        self.then = then

    def echo(self, ctxt: context.RequestContext, value: Any) -> Any:
        self.then()
        return self.answer


class HistoryTest(BusTestCase):
    """Releases of the service that can be pinned."""

    def test_pin_refuses_methods_that_release_lacks(self) -> None:
        for release in history.RELEASES:
            # Nobody listens: what is sent at all is not answered.
            bus = self.bus(pin=release.name, call_timeout=0.01, short_call_timeout=0.01,
                           long_call_timeout=0.01)
            for interface in INTERFACES:
                known = release.interfaces.get(interface.TOPIC, '0.0')
                invoke = bus.client(interface)
                for name, method in contract.methods(interface).items():
                    with self.subTest(release=release.name, topic=interface.TOPIC, name=name):
                        self.assertEqual(
                            contract.parsed(method.since) <= contract.parsed(known),
                            self.sent(invoke, name))

    def sent(self, invoke: contract.Invoke, name: str) -> bool:
        """Return True if the pin allows a method to be sent."""
        try:
            invoke(self.ctxt, name)
        except errors.ServiceUnreachable:
            return True
        except errors.ConfigurationError:
            return False
        return True

    def test_unpinned_process_uses_newest_release(self) -> None:
        for name in contract.NEWEST:
            self.assertIs(history.RELEASES[-1], contract.find_release(name, history.RELEASES))

    def test_unknown_pin_error_names_releases(self) -> None:
        with self.assertRaises(errors.ConfigurationError) as caught:
            self.bus((OLD, NEW), 'never')
        self.assertIn('1, 2', str(caught.exception))
