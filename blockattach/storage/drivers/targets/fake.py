"""Target in memory for tests and trials, which can be made to fail, to wait or to lose its state.

While the file ``<state_path>/hold-<backend>`` exists, grant and revoke wait. The file contains the
longest wait in seconds. A test can thus slow down a backend in another process.

`FakeTarget.log_in` simulates an initiator, so that a test can check which initiators have access,
in which mode, and which sessions end.
"""
import collections
import dataclasses
import os
import threading
from collections.abc import Iterable

from blockattach.platform import errors
from blockattach.storage.conf import backend
from blockattach.storage.domain import connection
from blockattach.storage.drivers import base
from blockattach.storage.drivers import faults


@dataclasses.dataclass(slots=True)
class _Grant:
    grant: connection.Grant
    sessions: int = 0


def _pair(volume_id: str, initiator: str) -> connection.Pair:
    return volume_id, connection.canonical_name(initiator)


class FakeTarget(base.ExportTarget):
    """Target that keeps exports, grants and sessions in dictionaries.

    Also implements `base.HostReservations` and `LiveResize`.

    :ivar faults: planned faults of the target
    """

    def __init__(self, settings: backend.BackendSettings) -> None:
        self.faults = faults.Faults(os.path.join(settings.state_dir, f'hold-{settings.name}'))
        self._settings = settings
        self.lock = threading.RLock()
        self._exports: dict[str, connection.Export] = {}
        self._grants: dict[tuple[str, str], _Grant] = {}
        # Initiator by target name. A search through all grants would be slow with many grants.
        self._holders: dict[str, str] = {}
        self._reservations: dict[str, connection.Reservations] = {}
        # Volumes that another service has exported to every initiator, by id: the credential, and
        # the number of sessions by initiator.
        self._open: dict[str, tuple[connection.Credential, collections.Counter[str]]] = {}

    def offer_to_all(self, export: connection.Export,
                     credential: connection.Credential) -> None:
        """Export a volume to every initiator that logs in with ``credential``.

        Other services export volumes in this way before their attachments are imported.
        """
        with self.lock:
            self._exports[export.volume_id] = export
            self._open[export.volume_id] = credential, collections.Counter()

    def lose_everything(self) -> None:
        """Forget all exports, grants and sessions, as after a crash of the target process."""
        with self.lock:
            self._exports.clear()
            self._grants.clear()
            self._holders.clear()
            self._reservations.clear()
            self._open.clear()

    def log_in(self, volume_id: str, initiator: str,
               credential: connection.Credential) -> connection.AccessMode | None:
        """Open a session of an initiator with a volume.

        :returns: access mode of the session, or None if the login is rejected
        """
        with self.lock:
            held = self._grants.get(_pair(volume_id, initiator))
            if volume_id in self._open and self._open[volume_id][0] == credential:
                self._open[volume_id][1][connection.canonical_name(initiator)] += 1
                return connection.AccessMode.RW
            if held is None or held.grant.credential != credential:
                return None
            held.sessions += 1
            return held.grant.mode

    def log_out(self, volume_id: str, initiator: str) -> None:
        """End one session of an initiator with a volume, if it has any."""
        with self.lock:
            held = self._grants.get(_pair(volume_id, initiator))
            if held is not None and held.sessions:
                held.sessions -= 1

    def seen_gb(self, volume_id: str) -> int | None:
        """Return the size in GiB that initiators see, or None if the volume is not exported."""
        with self.lock:
            export = self._exports.get(volume_id)
            return None if export is None else export.size_gb

    def hold_reservations(self, volume_id: str, registered: Iterable[str],
                          holder: str | None = None) -> None:
        """Set the persistent reservations of a volume, as hosts of a cluster do.

        :param registered: initiators that are registered
        :param holder: initiator that holds the reservation; None if no initiator does
        """
        with self.lock:
            self._reservations[volume_id] = connection.Reservations(
                frozenset(registered), frozenset([holder] if holder else []))

    @faults.faulty
    def check(self) -> None:
        pass

    @faults.faulty
    def export(self, export: connection.Export) -> None:
        self._exports[export.volume_id] = export

    @faults.faulty
    def unexport(self, volume_id: str) -> None:
        self._exports.pop(volume_id, None)
        self._open.pop(volume_id, None)
        for pair in [pair for pair in self._grants if pair[0] == volume_id]:
            self._remove(*pair)
        self._reservations.pop(volume_id, None)

    @faults.faulty
    def grant(self, export: connection.Export, grant: connection.Grant) -> connection.Connection:
        name = self._target_name(grant)
        _, initiator = pair = _pair(grant.volume_id, grant.initiator)
        if not grant.adopted and self._holders.get(name, initiator) != initiator:
            raise errors.BackendRefused(reason=f'{name} is held by another initiator')
        self._exports[export.volume_id] = export
        held = self._grants.setdefault(pair, _Grant(grant))
        if grant.volume_id in self._open and grant.adopted:
            # The sessions of the adopted initiator continue. The export is closed to initiators
            # without a grant once each initiator with sessions has been adopted.
            held.sessions += self._open[grant.volume_id][1].pop(initiator, 0)
            if not self._open[grant.volume_id][1]:
                del self._open[grant.volume_id]
        self._holders.pop(self._target_name(held.grant), None)
        self._holders[name] = initiator
        held.grant = grant
        return connection.Connection('iscsi', self._portals(), name, 1)

    @faults.faulty
    def revoke(self, volume_id: str, initiator: str) -> None:
        initiator = connection.canonical_name(initiator)
        self._remove(volume_id, initiator)
        if volume_id in self._open:
            self._open[volume_id][1].pop(initiator, None)
        held = self._reservations.pop(volume_id, None)
        if held is not None:
            self.hold_reservations(volume_id, held.registered - {initiator},
                                   next(iter(held.holders - {initiator}), None))

    @faults.faulty
    def reservations(self, volume_id: str) -> connection.Reservations | None:
        if volume_id not in self._exports:
            return None
        return self._reservations.get(volume_id, connection.Reservations())

    @faults.faulty
    def resize(self, export: connection.Export) -> None:
        if export.volume_id in self._exports:
            self._exports[export.volume_id] = export

    @faults.faulty
    def exports(self) -> tuple[base.ActualExport, ...]:
        return tuple(
            base.ActualExport(volume_id, (
                *(connection.ActualGrant(volume_id, initiator, held.grant.mode, held.sessions,
                                         account=held.grant.credential.username)
                  for (volume, initiator), held in sorted(self._grants.items())
                  if volume == volume_id),
                *(connection.ActualGrant(volume_id, initiator, connection.AccessMode.RW, count,
                                         intact=False)
                  for initiator, count in sorted(self._open[volume_id][1].items()
                                                 if volume_id in self._open else ()))))
            for volume_id in sorted(self._exports))

    def other_holders(self, volume_id: str, initiator: str) -> list[str]:
        """Return the initiators other than ``initiator`` that have a grant on the volume."""
        with self.lock:
            return sorted(name for volume, name in self._grants
                          if volume == volume_id and not connection.is_same_node(name, initiator))

    def _remove(self, volume_id: str, initiator: str) -> None:
        held = self._grants.pop((volume_id, initiator), None)
        if held is not None and self._holders.get(self._target_name(held.grant)) == initiator:
            del self._holders[self._target_name(held.grant)]

    def _target_name(self, grant: connection.Grant) -> str:
        alias = '' if grant.adopted else grant.alias
        return f'{self._settings.target_prefix}volume-{grant.volume_id}{alias}'

    def _portals(self) -> tuple[str, ...]:
        settings = self._settings
        return tuple(f'[{address}]:{settings.target_port or 3260}' if ':' in address
                     else f'{address}:{settings.target_port or 3260}' for address in dict.fromkeys(
                         (settings.target_ip_address, *settings.target_secondary_ip_addresses)))


class SingleHostTarget(FakeTarget):
    """Target in memory that admits one initiator of a volume at a time (no multiattach)."""

    multiattach = False

    def grant(self, export: connection.Export, grant: connection.Grant) -> connection.Connection:
        with self.lock:
            others = self.other_holders(export.volume_id, grant.initiator)
            if others:
                raise errors.BackendRefused(
                    reason=f'{export.name} is in use by {others[0]}, and the target supports one '
                           f'initiator at a time')
            return super().grant(export, grant)
