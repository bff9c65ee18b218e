"""Read operation for the SCSI-3 persistent reservations that hosts have on volumes."""
import logging

from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform import log
from blockattach.storage.db import storage_db
from blockattach.storage.db.services import pools
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.domain import connection
from blockattach.storage.domain import records
from blockattach.storage.rpc import volume as volume_rpc

LOG = logging.getLogger(__name__)

_CAPABILITY = 'host_reservations'


class ReservationControl:
    """Operation that reads host reservations from the volume service of a backend."""

    def __init__(self, database: storage_db.Database, volume_services: volume_rpc.VolumeClients,
                 down_after: float) -> None:
        """
        :param down_after: seconds without a heartbeat after which a service counts as down
        """
        self._database = database
        self._volume_services = volume_services
        self._down_after = down_after

    def held(self, caller: context.RequestContext,
             attachment: records.Attachment) -> connection.HostReservation | None:
        """Return the SCSI reservation that the host of an attachment has on the volume.

        :returns: None if the attachment has no initiator, or if the backend is down, does not
            report reservations, or gives no answer
        """
        if attachment.initiator is None:
            return None
        try:
            volume = volume_queries.get(self._database, attachment.volume_id)
            # A call to a backend that is down or does not report reservations would only delay the
            # response to the client.
            if (volume.pool is None or volume.host is None
                    or not self._supports_reservations(volume.pool)):
                return None
            held = self._volume_services.on(volume.host).host_reservation(
                caller, volume.id, attachment.initiator)
        except errors.BlockattachError as exc:
            log.step(LOG, 'Failed to read host reservation of volume',
                     attachment_id=attachment.id, volume_id=attachment.volume_id, reason=exc)
            return None
        return None if held is None else connection.HostReservation(held)

    def _supports_reservations(self, name: str) -> bool:
        pool = pools.get(self._database, name, self._down_after)
        return pool.up and _CAPABILITY in pool.capabilities.get('driver_capabilities', ())
