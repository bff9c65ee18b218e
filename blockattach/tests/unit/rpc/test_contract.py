"""Declaration of RPC interfaces, and their released versions."""
import importlib
import inspect
import itertools
import pkgutil
import unittest
from typing import Any

from blockattach.compute import interface as compute
from blockattach.platform import context
from blockattach.platform.rpc import calling
from blockattach.platform.rpc import contract
from blockattach.platform.rpc import processes
from blockattach.platform.rpc import serializing
from blockattach.storage import rpc
from blockattach.storage.rpc import attachments
from blockattach.storage.rpc import history
from blockattach.storage.rpc import scheduler
from blockattach.storage.rpc import volume
from blockattach.tests.unit.rpc import probe

INTERFACES = (attachments.AttachmentsInterface, compute.AgentInterface,
              compute.ConductorInterface, processes.ProcessInterface,
              scheduler.SchedulerInterface, volume.VolumeInterface)

# One line per version that was ever made; a line is added, never changed. A red test here means
# that a released method has changed: leave it as it was, add another with a new ``since``, and add
# a row to blockattach/storage/rpc/history.py.
FINGERPRINTS = {
    ('attachments', '1.0'): 'd87434b193a9c294',
    ('attachments', '1.1'): '2596c854f7fa0217',
    ('compute', '1.0'): '340e0a459fbdf68e',
    ('compute', '1.2'): '7f3439cdb8104032',
    ('compute-conductor', '1.0'): 'ed0ac74db8cf7415',
    ('process', '1.0'): 'b722d7d62aeb324f',
    ('scheduler', '1.0'): '03440774b8d67c69',
    ('volume', '1.0'): '480a858f59266c5d',
}


def imported(package: Any) -> list[Any]:
    """Import and return each module of a package."""
    return [importlib.import_module(f'{package.__name__}.{module.name}')
            for module in pkgutil.iter_modules(package.__path__)]


class ReleasedInterfacesTest(unittest.TestCase):
    """Interfaces of the service compared with their history."""

    def test_each_interface_listed(self) -> None:
        found = {member for module in (*imported(rpc), compute, processes)
                 for member in vars(module).values()
                 if isinstance(member, type) and issubclass(member, contract.Interface)
                 and 'TOPIC' in vars(member)}
        self.assertEqual(set(INTERFACES), found)

    def test_released_methods_unchanged(self) -> None:
        self.assertEqual(FINGERPRINTS, {
            (interface.TOPIC, version): contract.fingerprint(interface, version)
            for interface in INTERFACES for version in contract.versions(interface)})

    def test_newest_release_matches_code(self) -> None:
        newest = history.RELEASES[-1]
        self.assertEqual(newest.interfaces, {
            interface.TOPIC: contract.version(interface) for interface in INTERFACES})
        for name in ('blockattach.storage.objects', 'blockattach.compute.notices'):
            importlib.import_module(name)
        self.assertEqual(newest.objects, {
            name: cls.VERSION for name, cls in serializing.registered().items()})

    def test_versions_never_decrease(self) -> None:
        for older, newer in itertools.pairwise(history.RELEASES):
            for before, after in ((older.interfaces, newer.interfaces),
                                  (older.objects, newer.objects)):
                for name in before.keys() & after.keys():
                    with self.subTest(release=newer.name, name=name):
                        self.assertLessEqual(contract.parsed(before[name]),
                                             contract.parsed(after[name]))

    def test_client_sends_arguments_by_name(self) -> None:
        sent: list[tuple[Any, ...]] = []

        def invoke(ctxt: Any, name: str, /, **arguments: Any) -> None:
            sent.append((ctxt, name, *arguments))

        for interface in INTERFACES:
            client = calling.stub(interface, invoke)
            for name in contract.methods(interface):
                names = list(inspect.signature(getattr(interface, name)).parameters)[2:]
                with self.subTest(interface=interface.TOPIC, name=name):
                    getattr(client, name)('caller', *names)
                    self.assertEqual(('caller', name, *names), sent.pop())
                    with self.assertRaises(TypeError):
                        getattr(client, name)('caller', *names, 'one more')

    def test_consumer_client_has_methods_of_interface(self) -> None:
        for name in contract.methods(attachments.AttachmentsInterface):
            self.assertIn(name, vars(attachments.AttachmentsClient))


class ContractTest(unittest.TestCase):
    """Declarations, versions and fingerprints of methods."""

    def test_methods_have_declared_kind_and_timeout(self) -> None:
        methods = contract.methods(probe.ProbeInterface)
        self.assertEqual({'echo', 'fail', 'meet', 'persist', 'hurry', 'note', 'offer', 'announce'},
                         set(methods))
        self.assertIs(contract.Kind.CALL, methods['echo'].kind)
        self.assertIs(contract.Kind.CAST, methods['note'].kind)
        self.assertIs(contract.Kind.FANOUT, methods['announce'].kind)
        self.assertIs(contract.Timeout.SHORT, methods['hurry'].timeout)
        self.assertEqual(methods, contract.methods(probe.ProbeEndpoint))

    def test_version_is_of_newest_method(self) -> None:
        self.assertEqual('1.0', contract.version(probe.ProbeInterface))
        self.assertEqual(('1.0', '1.1'), contract.versions(probe.YoungInterface))
        self.assertEqual('1.1', contract.version(probe.YoungInterface))

    def test_versions_compared_as_numbers(self) -> None:
        class Interface(contract.Interface):
            TOPIC = 'old'

            @contract.call(since='1.9')
            def ninth(self) -> None:
                """Before the tenth."""

            @contract.call(since='1.10')
            def tenth(self) -> None:
                """After the ninth."""

        self.assertEqual('1.10', contract.version(Interface))

    def test_newer_method_keeps_older_fingerprint(self) -> None:
        self.assertEqual(contract.fingerprint(probe.ProbeInterface, '1.0'),
                         contract.fingerprint(probe.YoungInterface, '1.0'))
        self.assertNotEqual(contract.fingerprint(probe.YoungInterface, '1.0'),
                            contract.fingerprint(probe.YoungInterface, '1.1'))

    def test_fingerprint_changes_with_signature(self) -> None:
        def made(mark: Any, function: Any) -> str:
            interface = type('Interface', (contract.Interface,),
                             {'TOPIC': 'x', 'act': mark(function)})
            return contract.fingerprint(interface, '1.1')

        def act(self: Any, ctxt: Any, one: str) -> None: ...
        first = made(contract.call(since='1.0'), act)

        def act(self: Any, ctxt: Any, one: int) -> None: ...  # type: ignore[no-redef]  # noqa
        other_type = made(contract.call(since='1.0'), act)

        def act(self: Any, ctxt: Any, other: str) -> None: ...  # type: ignore[no-redef]  # noqa
        other_name = made(contract.call(since='1.0'), act)

        def act(self: Any, ctxt: Any, one: str) -> None: ...  # type: ignore[no-redef]  # noqa
        as_cast = made(contract.cast(since='1.0'), act)
        later = made(contract.call(since='1.1'), act)
        self.assertEqual(first, made(contract.call(since='1.0'), act))
        self.assertEqual(5, len({first, other_type, other_name, as_cast, later}))

    def test_endpoint_without_method_rejected(self) -> None:
        class Half(probe.ProbeInterface):
            def echo(self, ctxt: context.RequestContext, value: Any) -> Any:
                """The only one."""

        with self.assertRaises(TypeError):
            Half()  # type: ignore[abstract]
