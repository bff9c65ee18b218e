"""SCSI-3 persistent reservations: what hosts that share a volume have agreed on."""
import dataclasses
import enum

from blockattach.storage.domain import connection


class HostReservation(enum.StrEnum):
    """What one host holds of a volume."""

    NONE = 'none'
    REGISTERED = 'registered'
    HOLDER = 'holder'


@dataclasses.dataclass(frozen=True, slots=True)
class Reservations:
    """Initiators with a registration, and those that hold the reservation, by the target's report.

    Not ``complete``: there are more registrations than the target can report.
    """

    registered: frozenset[str] = frozenset()
    holders: frozenset[str] = frozenset()
    complete: bool = True

    def of(self, initiator: str) -> HostReservation | None:
        """What one initiator holds; None: it is not known."""
        if any(connection.is_same_node(name, initiator) for name in self.holders):
            return HostReservation.HOLDER
        if any(connection.is_same_node(name, initiator) for name in self.registered):
            return HostReservation.REGISTERED
        return HostReservation.NONE if self.complete else None
