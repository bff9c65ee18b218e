"""RPC interface of the volume manager, and its clients.

Every method may be repeated. A method with a generation changes nothing if the row has a newer
generation.
"""
import abc
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from blockattach.platform import context
from blockattach.platform.rpc import calling
from blockattach.platform.rpc import contract
from blockattach.platform.rpc import transport


class VolumeInterface(contract.Interface):
    """The manager of one backend; its server name is ``host@backend``."""

    TOPIC = 'volume'

    # Methods in the fast lane only use the database. They have threads of their own, which no call
    # to a backend can occupy.
    @contract.call(since='1.0', timeout=contract.Timeout.SHORT, fast_lane=True)
    @abc.abstractmethod
    def accept_work(self, ctxt: context.RequestContext, noun: str, verb: str, resource_id: str,
                    generation: int) -> bool:
        """Accept work that is described in its row, and return True if the manager owns the work.

        The work continues after the reply. Return False if the generation is stale, because the
        work was assigned to another manager.
        """

    @contract.cast(since='1.0', fast_lane=True)
    @abc.abstractmethod
    def start_work(self, ctxt: context.RequestContext, noun: str, verb: str, resource_id: str,
                   generation: int) -> None:
        """Start work whose row already names this backend, without a reply.

        If the message is lost, the work is resumed after its deadline.
        """

    # A repeat finds the completed part, so the client may send the call again without an answer.
    @contract.call(since='1.0', repeated=True)
    @abc.abstractmethod
    def connect(self, ctxt: context.RequestContext, volume_id: str, initiator: str,
                attachment_id: str, generation: int) -> Mapping[str, Any]:
        """Grant access to the initiator that is stored in the row of an attachment.

        :returns: the stored ``connection``, and ``at``, the time of storing (ISO 8601, UTC)
        :raises StaleGeneration: the attachment changed concurrently
        :raises BackendRefused: access was not granted
        :raises BackendUncertain: access may have been granted; the row keeps its deadline
        """

    @contract.call(since='1.0', repeated=True)
    @abc.abstractmethod
    def disconnect(self, ctxt: context.RequestContext, volume_id: str, initiators: Sequence[str],
                   attachment_id: str, generation: int) -> bool:
        """Revoke or reduce the access of the initiators of an attachment, and delete its row.

        :returns: True if the attachment was the last attachment of its volume
        :raises StaleGeneration: the attachment changed concurrently
        """

    @contract.call(since='1.0', timeout=contract.Timeout.SHORT, fast_lane=True)
    @abc.abstractmethod
    def ping(self, ctxt: context.RequestContext) -> bool:
        """Return True if the manager is running."""

    @contract.call(since='1.0', timeout=contract.Timeout.SHORT)
    @abc.abstractmethod
    def host_reservation(self, ctxt: context.RequestContext, volume_id: str,
                         initiator: str) -> str | None:
        """Return the reservation that an initiator holds on a volume.

        :returns: a `domain.connection.HostReservation`; None if the backend does not support
            the query
        :raises BackendError: the query failed
        """

    @contract.call(since='1.0', timeout=contract.Timeout.SHORT)
    @abc.abstractmethod
    def actual_grants(self, ctxt: context.RequestContext, volume_id: str) -> Mapping[str, Any]:
        """Return the state of a volume at the target, read from the target.

        :returns: ``exported``, and ``grants``: a list of ``initiator``, ``mode``, ``sessions`` and
            ``intact``
        :raises BackendError: the query failed
        """

    @contract.call(since='1.0', repeated=True)
    @abc.abstractmethod
    def reconcile(self, ctxt: context.RequestContext,
                  dry_run: bool) -> Sequence[Mapping[str, Any]]:
        """Resume interrupted work, and repair differences between the target and the database.

        :param dry_run: only report the differences
        :returns: the fields of a `volume.repair.Finding` for each difference
        :raises BackendError: the target does not answer
        """

    @contract.call(since='1.0')
    @abc.abstractmethod
    def list_manageable(self, ctxt: context.RequestContext,
                        noun: str) -> Sequence[Mapping[str, Any]]:
        """List the volumes or snapshots of the backend that are available to manage.

        :param noun: ``volume`` or ``snapshot``
        :returns: the fields of a `domain.managing.Stored` for each, whether created by this
            service or not
        :raises BackendError: the backend does not support the query, or the query failed
        """


class VolumeClients:
    """Clients of the volume managers by backend."""

    def __init__(self, bus: transport.Bus) -> None:
        self._bus = bus
        self._clients: dict[str, VolumeInterface] = {}

    def on(self, host: str) -> VolumeInterface:
        """Return the client of the manager of ``host@backend``.

        The client does not check that the manager exists; a call to a missing manager fails.
        """
        client = self._clients.get(host)
        if client is None:
            client = calling.stub(VolumeInterface, self._bus.client(VolumeInterface, host))
            self._clients[host] = client
        return client
