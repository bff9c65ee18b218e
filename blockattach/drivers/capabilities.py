"""What a driver may do beyond its contract: one small Protocol each. Declared is implemented.

A capability is never announced by a flag: the list is derived from the class, so that a driver
cannot claim what it has no method for.
"""
from typing import Protocol
from typing import runtime_checkable

from blockattach.drivers import base


@runtime_checkable
class Daemon(Protocol):
    """A target that lives in a process of its own, which the volume manager looks after."""

    def start(self) -> None:
        """Start the process, or find it running; returns when it answers.

        :raises ConfigurationError: it cannot be started; the text says why
        """

    def running(self) -> bool:
        """Whether it answers now."""

    def stop(self) -> None:
        """End it if this driver started it; exports and sessions end with it."""


@runtime_checkable
class HostReservations(Protocol):
    """SCSI-3 persistent reservations hold among hosts: all see one logical unit."""

    def reservations(self, volume_id: str) -> tuple[str, ...]:
        """The initiators that hold a registration on this volume."""


@runtime_checkable
class Clone(Protocol):
    """A store that makes a volume from another one's bytes by itself."""

    def clone(self, source: base.StoredVolume, volume: base.StoredVolume) -> None:
        """Make ``volume`` with the bytes of ``source``; what is beyond them reads as zeros.

        A repeat keeps what is there. The two share no later write.

        :raises BackendFull: no room; nothing is left behind
        :raises BackendRefused: the source is not there, or larger
        """


CAPABILITIES = {'clone': Clone, 'daemon': Daemon, 'host_reservations': HostReservations}


def declared(driver: object) -> frozenset[str]:
    """The names of the capabilities that a driver implements."""
    return frozenset(name for name, protocol in CAPABILITIES.items()
                     if isinstance(driver, protocol))
