"""SCSI-3 persistent reservations of the hosts that share a volume."""
import dataclasses
import enum

from blockattach.storage.domain import connection


class HostReservation(enum.StrEnum):
    """State of the persistent reservation of one host on a volume."""

    NONE = 'none'
    REGISTERED = 'registered'
    HOLDER = 'holder'


@dataclasses.dataclass(frozen=True, slots=True)
class Reservations:
    """Registered initiators and holders of the reservation, as reported by the target.

    :ivar complete: False if there are more registrations than the target can report
    """

    registered: frozenset[str] = frozenset()
    holders: frozenset[str] = frozenset()
    complete: bool = True

    def of(self, initiator: str) -> HostReservation | None:
        """Return the state of one initiator, or None if unknown because the report is incomplete.
        """
        if any(connection.is_same_node(name, initiator) for name in self.holders):
            return HostReservation.HOLDER
        if any(connection.is_same_node(name, initiator) for name in self.registered):
            return HostReservation.REGISTERED
        return HostReservation.NONE if self.complete else None
