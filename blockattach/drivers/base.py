"""What a backend must promise: twelve methods in two contracts.

A backend is a store and a target joined by configuration (`blockattach.drivers.loading`). Values
go in and come out; a driver never sees a row, a request context or the bus, and keeps nothing in
memory that it cannot read back from the backend, because it may be started anew at any moment.

Every method may be repeated: a second call with the same arguments finds the work done and returns
the same result. Errors are of two kinds, and the core acts on the kind alone:

==========================  ==============================  =====================================
condition                   raise                           what the caller does
==========================  ==============================  =====================================
proved: nothing happened    `errors.BackendRefused`         undoes its intent, answers a failure
no room                     `errors.BackendFull`            tries another pool
anything else, a time-out   `errors.BackendUncertain`       keeps the intent; repeats or undoes it
too                                                         when its deadline has passed
==========================  ==============================  =====================================

Any other exception counts as uncertain. `blockattach.conformance` proves an implementation.
"""
import abc
import dataclasses
from collections.abc import Mapping
from typing import Any

from blockattach import errors
from blockattach.conf import backend
from blockattach.domain import connection


@dataclasses.dataclass(frozen=True, slots=True)
class StoredVolume:
    """A volume as a store knows it. ``name`` is its name on the backend (``volume-<uuid>``)."""

    id: str
    name: str
    size_gb: int
    pool: str


@dataclasses.dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """What a volume was at a moment. ``name`` is ``snapshot-<uuid>``; ``volume`` is as of now."""

    id: str
    name: str
    volume: StoredVolume


@dataclasses.dataclass(frozen=True, slots=True)
class PoolReport:
    """What a pool says of itself; keys as in Cinder's pool statistics (GiB, booleans, texts)."""

    name: str
    capabilities: Mapping[str, Any]


def only_pool(settings: backend.BackendSettings, total_gb: float, free_gb: float,
              provisioned_gb: float, volumes: int, location: str,
              thin: bool = True) -> tuple[PoolReport, ...]:
    """The report of a store with one pool, with Cinder's keys."""
    return (PoolReport(settings.pool_name, {
        'pool_name': settings.pool_name,
        'total_capacity_gb': total_gb,
        'free_capacity_gb': free_gb,
        'provisioned_capacity_gb': provisioned_gb,
        'reserved_percentage': settings.reserved_percentage,
        'max_over_subscription_ratio': str(settings.max_over_subscription_ratio),
        'thin_provisioning_support': thin,
        'thick_provisioning_support': not thin,
        'total_volumes': volumes,
        'QoS_support': False,
        'location_info': location,
    }),)


def check_room(settings: backend.BackendSettings, pool: str, total_gb: float, given_gb: float,
               size_gb: float) -> None:
    """A thin pool may be given away ``max_over_subscription_ratio`` times, and no more.

    :raises BackendFull: ``size_gb`` more would be too much
    """
    limit = total_gb * (1 - settings.reserved_percentage / 100)
    limit *= settings.max_over_subscription_ratio
    if given_gb + size_gb > limit:
        raise errors.BackendFull(
            size_gb=f'{size_gb:g}',
            reason=f'{pool} may give away {limit:.0f} GiB and has given {given_gb:.0f}')


@dataclasses.dataclass(frozen=True, slots=True)
class ActualExport:
    """One volume as the target offers it at this moment."""

    volume_id: str
    grants: tuple[connection.ActualGrant, ...]


class VolumeStore(abc.ABC):
    """Keeps the bytes of volumes in one or more pools."""

    @abc.abstractmethod
    def check(self) -> None:
        """Make sure that the store can be used now.

        :raises ConfigurationError: it cannot; the text says what the operator must change
        """

    @abc.abstractmethod
    def create(self, volume: StoredVolume) -> None:
        """Make a volume of ``size_gb`` that reads as zeros. A repeat keeps what is there.

        :raises BackendFull: no room; nothing is left behind
        """

    @abc.abstractmethod
    def delete(self, volume: StoredVolume) -> None:
        """Remove a volume and its bytes. One that is not there is a success.

        :raises BackendRefused: it is in use, or snapshots hang on it; they are never removed too
        """

    @abc.abstractmethod
    def extend(self, volume: StoredVolume, size_gb: int) -> None:
        """Make it larger, keeping its bytes; the new part reads as zeros. Never shrinks.

        :raises BackendFull: no room; it keeps its size
        :raises BackendRefused: it is not there, is larger already, or snapshots hang on it
        """

    @abc.abstractmethod
    def device(self, volume: StoredVolume) -> str:
        """The path under which the target finds the bytes.

        :raises BackendRefused: there is no such volume
        """

    @abc.abstractmethod
    def pools(self) -> tuple[PoolReport, ...]:
        """Each pool with what it offers, measured now."""


class ExportTarget(abc.ABC):
    """Exports volumes to initiators, each with its own mode and credential."""

    def check(self) -> None:  # noqa: B027, a driver may have nothing to look at
        """Make sure that the target can be used now.

        :raises ConfigurationError: it cannot; the text says what the operator must change
        """

    @abc.abstractmethod
    def export(self, export: connection.Export) -> None:
        """Export a volume, without granting access; leaves grants and sessions as they are."""

    @abc.abstractmethod
    def unexport(self, volume_id: str) -> None:
        """Remove the export: every grant and session of this volume ends, no others."""

    @abc.abstractmethod
    def grant(self, export: connection.Export, grant: connection.Grant) -> connection.Connection:
        """Grant one initiator access, by name, with its credential and mode; exports the volume
        too.

        A repeat with another mode changes the mode live: sessions continue, and once this returns
        a read-only grant cannot write. It touches no other grant of the volume.
        """

    @abc.abstractmethod
    def revoke(self, volume_id: str, initiator: str) -> None:
        """Revoke one initiator's access: its sessions of this volume end, and it cannot log in
        again.

        Touches no other grant. One that is not in is a success.
        """

    @abc.abstractmethod
    def exports(self) -> tuple[ActualExport, ...]:
        """The actual state: each exported volume with its grants and their sessions.

        Read from the target itself, never from memory; never a credential. Volumes with another
        name prefix on that target are left out.
        """
