"""RPC interfaces between the compute API and its agents, and their clients."""
import abc
import typing
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from blockattach.compute import errors
from blockattach.compute.hosts import base
from blockattach.platform import context
from blockattach.platform.rpc import calling
from blockattach.platform.rpc import contract
from blockattach.platform.rpc import transport
from blockattach.storage.domain import connection

MODES_SINCE = '1.1'
"""First version of `AgentInterface` in which agents enforce the access mode of a disk.

With an older agent, a server can write to a read-only disk.
"""
FENCED_SINCE = '1.2'
"""First version of `AgentInterface` with leases, `spawn_all`, `connectors` and `define`.

An older agent executes even the calls of a process whose server action was taken over.
"""


class AgentInterface(contract.Interface):
    """Interface of the agent of one host. The host name addresses the agent on the bus.

    Most methods call the same method of `blockattach.compute.hosts.base.Host`, and raise its
    errors. Disks and guests are mappings, as returned by `disk_values` and `guest_values`. A
    disk contains a password.
    """

    # Calls that wait for a guest, a copy or a migration have the long timeout.
    TOPIC = 'compute'

    @contract.call(since='1.0', timeout=contract.Timeout.SHORT)
    @abc.abstractmethod
    def connector(self, ctxt: context.RequestContext, server_id: str) -> Mapping[str, Any]:
        """Return the connector properties of the host for the attachments of a server."""

    @contract.call(since='1.0', timeout=contract.Timeout.LONG)
    @abc.abstractmethod
    def spawn(self, ctxt: context.RequestContext, guest: Mapping[str, Any]) -> None:
        """Create and start a server."""

    @contract.call(since='1.0', timeout=contract.Timeout.LONG)
    @abc.abstractmethod
    def start(self, ctxt: context.RequestContext, guest: Mapping[str, Any]) -> None:
        """Start a stopped server."""

    @contract.call(since='1.0', timeout=contract.Timeout.LONG)
    @abc.abstractmethod
    def stop(self, ctxt: context.RequestContext, server_id: str) -> None:
        """Stop a server. The volumes remain attached to the server."""

    @contract.call(since='1.0', timeout=contract.Timeout.LONG)
    @abc.abstractmethod
    def reboot(self, ctxt: context.RequestContext, guest: Mapping[str, Any]) -> None:
        """Stop a server and start the server again."""

    @contract.call(since='1.0', timeout=contract.Timeout.LONG)
    @abc.abstractmethod
    def destroy(self, ctxt: context.RequestContext, server_id: str) -> None:
        """Stop a server, disconnect the volumes, and delete the server from the host."""

    @contract.call(since='1.0', timeout=contract.Timeout.LONG)
    @abc.abstractmethod
    def plug(self, ctxt: context.RequestContext, server_id: str, disk: Mapping[str, Any]) -> None:
        """Connect a volume and attach the volume to a server."""

    @contract.call(since='1.0', timeout=contract.Timeout.LONG)
    @abc.abstractmethod
    def unplug(self, ctxt: context.RequestContext, server_id: str, volume_id: str) -> None:
        """Detach a volume from a server and disconnect the volume."""

    @contract.call(since='1.0')
    @abc.abstractmethod
    def resize(self, ctxt: context.RequestContext, server_id: str, volume_id: str,
               size_gb: int) -> None:
        """Make the new size of a volume visible to a server.

        :param size_gb: new size in GiB
        """

    @contract.call(since='1.0', timeout=contract.Timeout.LONG)
    @abc.abstractmethod
    def swap(self, ctxt: context.RequestContext, server_id: str, volume_id: str,
             disk: Mapping[str, Any]) -> None:
        """Copy a volume to another volume, and replace the volume with the copy."""

    @contract.call(since='1.0', timeout=contract.Timeout.LONG)
    @abc.abstractmethod
    def receive(self, ctxt: context.RequestContext, guest: Mapping[str, Any]) -> str:
        """Prepare to receive a server by live migration, and return the address for `send`."""

    @contract.call(since='1.0', timeout=contract.Timeout.LONG)
    @abc.abstractmethod
    def send(self, ctxt: context.RequestContext, server_id: str, address: str) -> None:
        """Live-migrate a server to the address that `receive` returned on another host."""

    @contract.call(since='1.2', timeout=contract.Timeout.LONG)
    @abc.abstractmethod
    def define(self, ctxt: context.RequestContext, guest: Mapping[str, Any]) -> None:
        """Create a server in the stopped state."""

    @contract.call(since='1.2', timeout=contract.Timeout.SHORT)
    @abc.abstractmethod
    def connectors(self, ctxt: context.RequestContext,
                   server_ids: Sequence[str]) -> Mapping[str, Any]:
        """Return the connector properties of the host for several servers, by server ID."""

    @contract.call(since='1.2', timeout=contract.Timeout.LONG)
    @abc.abstractmethod
    def spawn_all(self, ctxt: context.RequestContext,
                  guests: Sequence[Mapping[str, Any]],
                  generations: Mapping[str, int]) -> Mapping[str, str]:
        """Create and start several servers under leases. Return the errors by server ID."""

    @contract.call(since='1.2', timeout=contract.Timeout.LONG)
    @abc.abstractmethod
    def fenced(self, ctxt: context.RequestContext, server_id: str, generation: int, name: str,
               arguments: Sequence[Any]) -> Any:
        """Run another method under a lease on a server (`blockattach.compute.agent.Fence`).

        The agent waits until calls under older leases on the server have ended.

        :param generation: generation of the lease
        :param name: name of the other method, which gets ``arguments``
        :raises ActTakenOver: a newer lease on the server was used before
        """

    @contract.call(since='1.0', timeout=contract.Timeout.SHORT)
    @abc.abstractmethod
    def servers(self, ctxt: context.RequestContext) -> Mapping[str, str]:
        """Return the power states of the servers on the host, by server ID."""

    @contract.call(since='1.0', timeout=contract.Timeout.SHORT)
    @abc.abstractmethod
    def disks(self, ctxt: context.RequestContext, server_id: str) -> Mapping[str, str]:
        """Return the access modes of the volumes of a server, by volume ID."""


class ConductorInterface(contract.Interface):
    """Interface of the compute API. All compute API processes are equivalent."""

    TOPIC = 'compute-conductor'

    @contract.cast(since='1.0')
    @abc.abstractmethod
    def report(self, ctxt: context.RequestContext, host: str, kind: str, version: str,
               servers: Mapping[str, str]) -> None:
        """Report that an agent is up, with the power states of the servers on its host.

        If a report is lost, the next report replaces it.

        :param kind: kind of the host driver
        :param version: version of `AgentInterface` that the agent supports
        :param servers: power states by server ID
        """


class Agents:
    """Cache of the RPC clients of agents, by host."""

    def __init__(self, bus: transport.Bus) -> None:
        self._bus = bus
        self._clients: dict[str, AgentInterface] = {}

    def on(self, host: str) -> AgentInterface:
        """Return the RPC client of the agent on a host, which may be down."""
        client = self._clients.get(host)
        if client is None:
            client = calling.stub(AgentInterface, self._bus.client(AgentInterface, host))
            self._clients[host] = client
        return client


class _ByLease:
    """Proxy of an agent that sends each call as `AgentInterface.fenced`, with a lease."""

    def __init__(self, agent: AgentInterface, server_id: str, generation: int,
                 renewed: Callable[[], int] | None) -> None:
        self._agent = agent
        self._server_id = server_id
        self._generation = generation
        self._renewed = renewed

    def __getattr__(self, name: str) -> Any:
        def ask(ctxt: context.RequestContext, *arguments: Any) -> Any:
            def by(generation: int) -> Any:
                return self._agent.fenced(ctxt, self._server_id, generation, name, arguments)
            try:
                return by(self._generation)
            except errors.ActTakenOver:
                if self._renewed is None:
                    raise
                # The call had no effect. An action that shares the server may have been taken
                # over.
                return by(self._renewed())
        return ask


def by_lease(agent: AgentInterface, server_id: str, generation: int,
             renewed: Callable[[], int] | None = None) -> AgentInterface:
    """Return a client that calls an agent under a lease on a server.

    :param generation: generation of the lease
    :param renewed: function that returns the newest generation of the server, under which a
        rejected call is repeated once. The function raises `errors.ActTakenOver` if another
        process holds the server action. None to not repeat calls
    """
    return typing.cast(AgentInterface, _ByLease(agent, server_id, generation, renewed))


def conductor(bus: transport.Bus) -> ConductorInterface:
    """Return the RPC client of the compute API. One compute API process receives each message."""
    return calling.stub(ConductorInterface, bus.client(ConductorInterface))


def disk_values(disk: base.Disk) -> dict[str, Any]:
    """Return the mapping that represents a disk in RPC messages."""
    return {'volume_id': disk.volume_id, 'device': disk.device, 'mode': disk.mode.value,
            'shared': disk.shared, 'info': dict(disk.info)}


def disk_of(values: Mapping[str, Any]) -> base.Disk:
    """Return the disk that `disk_values` has converted to a mapping."""
    return base.Disk(values['volume_id'], values['device'],
                     connection.AccessMode(values['mode']), values['shared'], values['info'])


def guest_values(guest: base.Guest) -> dict[str, Any]:
    """Return the mapping that represents a guest in RPC messages."""
    return {'server_id': guest.server_id, 'name': guest.name, 'vcpus': guest.vcpus,
            'memory_mb': guest.memory_mb, 'disks': [disk_values(one) for one in guest.disks]}


def guest_of(values: Mapping[str, Any]) -> base.Guest:
    """Return the guest that `guest_values` has converted to a mapping."""
    return base.Guest(values['server_id'], values['name'], values['vcpus'], values['memory_mb'],
                      tuple(disk_of(one) for one in values['disks']))
