"""What a volume manager can be asked: `VolumeInterface`, and the client for each of them.

Every method may be repeated. A method that gets a generation changes nothing if the row has moved
on since.
"""
import abc
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from blockattach import context
from blockattach.rpc import contract
from blockattach.rpc import transport


class VolumeInterface(contract.Interface):
    """The keeper of one backend; its server name is ``host@backend``."""

    TOPIC = 'volume'

    @contract.call(since='1.0', patience=contract.Patience.SHORT, prompt=True)
    @abc.abstractmethod
    def create_volume(self, ctxt: context.RequestContext, volume_id: str,
                      generation: int) -> bool:
        """Take a volume on: True once the manager is its owner; the work goes on afterwards.

        False if the generation is stale: it was given to another manager meanwhile.
        """

    @contract.cast(since='1.0', prompt=True)
    @abc.abstractmethod
    def delete_volume(self, ctxt: context.RequestContext, volume_id: str,
                      generation: int) -> None:
        """Remove a volume that its row says is being deleted."""

    @contract.call(since='1.0', repeated=True)
    @abc.abstractmethod
    def connect(self, ctxt: context.RequestContext, attachment_id: str,
                generation: int) -> None:
        """Let the attachment's initiator in; the connection is in its row before the answer.

        :raises StaleGeneration: the attachment has moved on
        :raises BackendRefused: proved that nothing happened
        :raises BackendUncertain: it may have happened; the row keeps its deadline
        """

    @contract.call(since='1.0', repeated=True)
    @abc.abstractmethod
    def disconnect(self, ctxt: context.RequestContext, attachment_id: str,
                   generation: int) -> None:
        """Shut the attachment's initiator out, or narrow what it shares; raises as connect."""

    @contract.call(since='1.0', patience=contract.Patience.SHORT, prompt=True)
    @abc.abstractmethod
    def ping(self, ctxt: context.RequestContext) -> bool:
        """True, if anyone is there."""

    @contract.call(since='1.1', patience=contract.Patience.SHORT)
    @abc.abstractmethod
    def host_reservation(self, ctxt: context.RequestContext, volume_id: str,
                         initiator: str) -> str | None:
        """What an initiator holds of a volume, as `domain.reservation.HostReservation` says it.

        None where the backend cannot tell.

        :raises BackendError: it could, but does not
        """

    @contract.call(since='1.2', repeated=True)
    @abc.abstractmethod
    def let_in(self, ctxt: context.RequestContext, volume_id: str, initiator: str,
               attachment_id: str, generation: int) -> Mapping[str, Any]:
        """As `connect`, of a row that was just written and has this initiator.

        :returns: what is in the row now: ``connection``, and ``at``, when it was written (ISO
            8601, UTC)
        """

    @contract.call(since='1.2', repeated=True)
    @abc.abstractmethod
    def shut_out(self, ctxt: context.RequestContext, volume_id: str, initiators: Sequence[str],
                 attachment_id: str, generation: int) -> None:
        """As `disconnect`, of a row that was just written and has these initiators."""


class VolumeClient(VolumeInterface):
    """One volume manager, seen from afar. Raises as `blockattach.rpc.contract.Invoke` says."""

    def __init__(self, invoke: contract.Invoke) -> None:
        self._invoke = invoke

    def create_volume(self, ctxt: context.RequestContext, volume_id: str,
                      generation: int) -> bool:
        """Ask whether it takes the volume on."""
        return bool(self._invoke(ctxt, 'create_volume', volume_id=volume_id,
                                 generation=generation))

    def delete_volume(self, ctxt: context.RequestContext, volume_id: str,
                      generation: int) -> None:
        """Tell it to remove a volume; returns at once."""
        self._invoke(ctxt, 'delete_volume', volume_id=volume_id, generation=generation)

    def connect(self, ctxt: context.RequestContext, attachment_id: str, generation: int) -> None:
        """Ask it to let the initiator in; returns when it is done."""
        self._invoke(ctxt, 'connect', attachment_id=attachment_id, generation=generation)

    def disconnect(self, ctxt: context.RequestContext, attachment_id: str,
                   generation: int) -> None:
        """Ask it to shut the initiator out; returns when it is done."""
        self._invoke(ctxt, 'disconnect', attachment_id=attachment_id, generation=generation)

    def let_in(self, ctxt: context.RequestContext, volume_id: str, initiator: str,
               attachment_id: str, generation: int) -> Mapping[str, Any]:
        """Ask it to let the initiator in; returns when it is done."""
        told: Mapping[str, Any] = self._invoke(
            ctxt, 'let_in', volume_id=volume_id, initiator=initiator,
            attachment_id=attachment_id, generation=generation)
        return told

    def shut_out(self, ctxt: context.RequestContext, volume_id: str, initiators: Sequence[str],
                 attachment_id: str, generation: int) -> None:
        """Ask it to shut the initiators out; returns when it is done."""
        self._invoke(ctxt, 'shut_out', volume_id=volume_id, initiators=list(initiators),
                     attachment_id=attachment_id, generation=generation)

    def ping(self, ctxt: context.RequestContext) -> bool:
        """Ask whether it is there."""
        return bool(self._invoke(ctxt, 'ping'))

    def host_reservation(self, ctxt: context.RequestContext, volume_id: str,
                         initiator: str) -> str | None:
        """Ask what an initiator holds of a volume."""
        told = self._invoke(ctxt, 'host_reservation', volume_id=volume_id, initiator=initiator)
        return None if told is None else str(told)


class VolumeClients:
    """The volume managers by name."""

    def __init__(self, bus: transport.Bus) -> None:
        self._bus = bus
        self._clients: dict[str, VolumeClient] = {}

    def on(self, host: str) -> VolumeInterface:
        """The manager of ``host@backend``; whether it is there shows when it is asked."""
        client = self._clients.get(host)
        if client is None:
            client = VolumeClient(self._bus.client(VolumeInterface, server=host))
            self._clients[host] = client
        return client
