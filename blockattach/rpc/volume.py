"""What a volume manager can be asked: `VolumeInterface`, and its clients.

Every method may be repeated. A method that gets a generation changes nothing if the row has moved
on since.
"""
import abc
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from blockattach import context
from blockattach.rpc import calling
from blockattach.rpc import contract
from blockattach.rpc import transport


class VolumeInterface(contract.Interface):
    """The manager of one backend; its server name is ``host@backend``."""

    TOPIC = 'volume'

    @contract.call(since='1.0', timeout=contract.Timeout.SHORT, fast_lane=True)
    @abc.abstractmethod
    def accept_work(self, ctxt: context.RequestContext, noun: str, verb: str, resource_id: str,
                    generation: int) -> bool:
        """Take work on that its row describes: True once the manager is its owner; the work
        continues afterwards.

        False if the generation is stale: it was given to another manager meanwhile.
        """

    @contract.cast(since='1.0', fast_lane=True)
    @abc.abstractmethod
    def start_work(self, ctxt: context.RequestContext, noun: str, verb: str, resource_id: str,
                   generation: int) -> None:
        """The same, of work whose row names this backend already; nobody waits for an answer. If
        this is lost, the work's deadline brings it back.
        """

    @contract.call(since='1.0', repeated=True)
    @abc.abstractmethod
    def connect(self, ctxt: context.RequestContext, volume_id: str, initiator: str,
                attachment_id: str, generation: int) -> Mapping[str, Any]:
        """Grant an attachment's initiator; its row, just written, has this initiator.

        :returns: what is in the row now: ``connection``, and ``at``, when it was written (ISO
            8601, UTC)
        :raises StaleGeneration: the attachment has moved on
        :raises BackendRefused: proved that nothing happened
        :raises BackendUncertain: it may have happened; the row keeps its deadline
        """

    @contract.call(since='1.0', repeated=True)
    @abc.abstractmethod
    def disconnect(self, ctxt: context.RequestContext, volume_id: str, initiators: Sequence[str],
                   attachment_id: str, generation: int) -> bool:
        """Revoke the initiators of an attachment, or narrow what they share, and end its row,
        which was just written and has these initiators. A StaleGeneration means that it has moved
        since.

        :returns: whether it was the last attachment of its volume
        """

    @contract.call(since='1.0', timeout=contract.Timeout.SHORT, fast_lane=True)
    @abc.abstractmethod
    def ping(self, ctxt: context.RequestContext) -> bool:
        """True, if anyone is there."""

    @contract.call(since='1.0', timeout=contract.Timeout.SHORT)
    @abc.abstractmethod
    def host_reservation(self, ctxt: context.RequestContext, volume_id: str,
                         initiator: str) -> str | None:
        """What an initiator holds of a volume, a `domain.reservation.HostReservation`.

        None where the backend cannot report it.

        :raises BackendError: it could, but does not
        """

    @contract.call(since='1.0', timeout=contract.Timeout.SHORT)
    @abc.abstractmethod
    def actual_grants(self, ctxt: context.RequestContext, volume_id: str) -> Mapping[str, Any]:
        """What the target says of a volume now, read from the target itself.

        :returns: ``exported``, and ``grants``: a list of ``initiator``, ``mode``, ``sessions`` and
            ``intact``
        :raises BackendError: it cannot say
        """

    @contract.call(since='1.0', repeated=True)
    @abc.abstractmethod
    def reconcile(self, ctxt: context.RequestContext,
                  dry_run: bool) -> Sequence[Mapping[str, Any]]:
        """Finish what was interrupted, and make the target as the rows say, now.

        :param dry_run: only look
        :returns: each difference: the fields of `volume.repair.Finding`
        :raises BackendError: the target does not answer
        """

    @contract.call(since='1.0')
    @abc.abstractmethod
    def list_manageable(self, ctxt: context.RequestContext,
                        noun: str) -> Sequence[Mapping[str, Any]]:
        """What lies on the backend that could be a ``volume``, or a ``snapshot``: the fields of
        `domain.managing.Stored`; made by this service or by others.

        :raises BackendError: the backend cannot say, or could not
        """


class VolumeClients:
    """The volume managers by name."""

    def __init__(self, bus: transport.Bus) -> None:
        self._bus = bus
        self._clients: dict[str, VolumeInterface] = {}

    def on(self, host: str) -> VolumeInterface:
        """The manager of ``host@backend``; whether it is there shows when it is asked."""
        client = self._clients.get(host)
        if client is None:
            client = calling.stub(VolumeInterface, self._bus.client(VolumeInterface, host))
            self._clients[host] = client
        return client
