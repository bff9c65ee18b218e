"""RPC interface of the volume manager, and its clients.

All methods are idempotent. A method with the parameter ``generation`` changes nothing if the row
has a newer generation.
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
    """Volume manager of one backend. Its RPC server name is ``host@backend``."""

    TOPIC = 'volume'

    # Methods in the fast lane only use the database. They have their own threads, which calls to a
    # backend cannot occupy.
    @contract.call(since='1.0', timeout=contract.Timeout.SHORT, fast_lane=True)
    @abc.abstractmethod
    def accept_work(self, ctxt: context.RequestContext, noun: str, verb: str, resource_id: str,
                    generation: int) -> bool:
        """Claim a row of the table ``work``, and execute the operation after the reply.

        :returns: True if the manager owns the row; False if the row has changed since the call was
            sent, if another process owns the row, or if the manager does not know the operation
        """

    @contract.cast(since='1.0', fast_lane=True)
    @abc.abstractmethod
    def start_work(self, ctxt: context.RequestContext, noun: str, verb: str, resource_id: str,
                   generation: int) -> None:
        """Execute the operation in a row of the table ``work`` that already names this backend.

        If the message is lost, the operation is resumed after its deadline.
        """

    # The client may send the call again if no heartbeat arrives, because the method finds the
    # completed part of the first call.
    @contract.call(since='1.0', repeated=True)
    @abc.abstractmethod
    def connect(self, ctxt: context.RequestContext, volume_id: str, initiator: str,
                attachment_id: str, generation: int) -> Mapping[str, Any]:
        """Grant access to the initiator that is stored in the row of an attachment.

        :returns: the stored ``connection``, and ``at``, the time at which the connection was
            stored (ISO 8601, UTC)
        :raises StaleGeneration: if the attachment has changed concurrently
        :raises BackendRefused: if access was not granted
        :raises BackendUncertain: if access may have been granted. Another attempt follows after
            the deadline of the attachment row.
        """

    @contract.call(since='1.0', repeated=True)
    @abc.abstractmethod
    def disconnect(self, ctxt: context.RequestContext, volume_id: str, initiators: Sequence[str],
                   attachment_id: str, generation: int) -> bool:
        """Revoke or reduce the access of the initiators of an attachment, and delete the row.

        :returns: True if the volume has no other attachment
        :raises StaleGeneration: if the attachment has changed concurrently
        """

    @contract.call(since='1.0', timeout=contract.Timeout.SHORT, fast_lane=True)
    @abc.abstractmethod
    def ping(self, ctxt: context.RequestContext) -> bool:
        """Return True if the manager is running."""

    @contract.call(since='1.0', timeout=contract.Timeout.SHORT)
    @abc.abstractmethod
    def host_reservation(self, ctxt: context.RequestContext, volume_id: str,
                         initiator: str) -> str | None:
        """Return the state of an initiator in the SCSI-3 persistent reservation of a volume.

        :returns: value of `domain.connection.HostReservation`; None if the backend does not
            support the query, does not export the volume, or reports only some registrations
        :raises BackendError: if the query failed
        """

    @contract.call(since='1.0', timeout=contract.Timeout.SHORT)
    @abc.abstractmethod
    def actual_grants(self, ctxt: context.RequestContext, volume_id: str) -> Mapping[str, Any]:
        """Return the export and the grants of a volume, as read from the target.

        :returns: ``exported`` (boolean), and ``grants``, a list of mappings with the keys
            ``initiator``, ``mode``, ``sessions`` and ``intact``
        :raises BackendError: if the query failed
        """

    @contract.call(since='1.0', repeated=True)
    @abc.abstractmethod
    def reconcile(self, ctxt: context.RequestContext,
                  dry_run: bool) -> Sequence[Mapping[str, Any]]:
        """Resume interrupted work, and repair differences between the target and the database.

        :param dry_run: True to report the differences without a repair
        :returns: the fields of a `volume.repair.Finding` for each difference
        :raises BackendError: if the target does not respond
        """

    @contract.call(since='1.0')
    @abc.abstractmethod
    def list_manageable(self, ctxt: context.RequestContext,
                        noun: str) -> Sequence[Mapping[str, Any]]:
        """List all volumes or all snapshots that the backend stores.

        :param noun: ``volume`` or ``snapshot``
        :returns: the fields of a `domain.managing.Stored` for each volume or snapshot, including
            those that this service has created
        :raises BackendError: if the backend does not support the query, or the query failed
        """


class VolumeClients:
    """Clients of the volume managers by backend."""

    def __init__(self, bus: transport.Bus) -> None:
        self._bus = bus
        self._clients: dict[str, VolumeInterface] = {}

    def on(self, host: str) -> VolumeInterface:
        """Return the client of the volume manager of a backend.

        The client does not check that the manager exists. A call to a missing manager fails.

        :param host: ``host@backend``
        """
        client = self._clients.get(host)
        if client is None:
            client = calling.stub(VolumeInterface, self._bus.client(VolumeInterface, host))
            self._clients[host] = client
        return client
