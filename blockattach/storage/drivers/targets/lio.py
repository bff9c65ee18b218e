"""Target driver for LIO, which is iSCSI in the kernel, with one target per volume.

All hosts of a volume share its target and logical unit, so that they can use SCSI reservations
among themselves. Each initiator has a node ACL of its own, with its credential and mode. The
actual state is read from the kernel, and the desired state comes from the database. The saved
configuration of LIO is neither written nor read.
"""
import contextlib
import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from oslo_privsep import comm
from oslo_privsep import daemon

from blockattach.platform import errors
from blockattach.storage.conf import backend
from blockattach.storage.domain import connection
from blockattach.storage.drivers import base
from blockattach.storage.drivers import devices
from blockattach.storage.privileged import lio

_UNIT = 0
_PORT = 3260
# Permitted lengths of a CHAP secret. RFC 3720, 8.2.1, sets the minimum, because shorter secrets
# can be guessed. The kernel sets the maximum.
_SECRET = range(12, 256)
# LIO parses a user name that begins like this as a number, and no login with it succeeds.
_NUMBER = re.compile('0[xb]', re.IGNORECASE)
_PREFIX = re.compile(r'iqn\.\d{4}-[01]\d\.[a-z0-9:-]*\.[a-z0-9.:-]*')


class LioTarget(base.ExportTarget):
    """Target driver for LIO.

    Also implements `base.HostReservations`, `Unmap`, `NativeBlocks` and `LiveResize`.
    """

    def __init__(self, settings: backend.BackendSettings) -> None:
        self._settings = settings
        addresses = (settings.target_ip_address, *settings.target_secondary_ip_addresses)
        port = settings.target_port or _PORT
        self._portals = tuple(f'[{address}]:{port}' if ':' in address else f'{address}:{port}'
                              for address in dict.fromkeys(addresses))

    def check(self) -> None:
        settings = self._settings
        if not _PREFIX.fullmatch(settings.target_prefix):
            raise errors.ConfigurationError(
                reason=f'target_prefix = {settings.target_prefix} is not the beginning of a '
                       f'lower-case iSCSI name, such as iqn.2010-10.org.openstack:')
        if settings.mutual_chap_username and len(settings.mutual_chap_password) not in _SECRET:
            raise errors.ConfigurationError(
                reason='mutual_chap_password must have 12 to 255 characters')
        try:
            lio.prepare(list(self._portals))
        except (daemon.FailedToDropPrivileges, comm.PrivsepTimeout) as exc:
            raise errors.ConfigurationError(reason=_no_rights(exc)) from exc

    def export(self, export: connection.Export) -> None:
        with _errors_translated():
            lio.export(self._wanted(export))

    def unexport(self, volume_id: str) -> None:
        with _errors_translated():
            lio.unexport(self._name(volume_id))

    def grant(self, export: connection.Export, grant: connection.Grant) -> connection.Connection:
        credential = grant.credential
        if len(credential.password) not in _SECRET or _NUMBER.match(credential.username):
            raise errors.BackendRefused(
                reason=f'the CHAP secret of {grant.initiator} must have 12 to 255 characters, and '
                       f'its user name must not begin with 0x or 0b; detach and attach the '
                       f'volume again to get another secret')
        with _errors_translated():
            lio.grant(self._wanted(export), dataclasses.asdict(lio.Grant(
                connection.canonical_name(grant.initiator),
                grant.mode is connection.AccessMode.RO,
                credential.username, credential.password,
                self._settings.mutual_chap_username, self._settings.mutual_chap_password)))
        return connection.Connection('iscsi', self._portals, self._name(grant.volume_id), _UNIT)

    def revoke(self, volume_id: str, initiator: str) -> None:
        with _errors_translated():
            lio.revoke(self._name(volume_id), connection.canonical_name(initiator))

    def exports(self) -> tuple[base.ActualExport, ...]:
        with _errors_translated():
            found = lio.exports(self._settings.target_prefix, list(self._portals),
                                self._settings.mutual_chap_username)
        # A target name ends with the volume id.
        return tuple(self._export(item['name'][-36:], item['grants']) for item in found)

    def reservations(self, volume_id: str) -> connection.Reservations | None:
        with _errors_translated():
            found = lio.reservations(self._name(volume_id))
        if found is None:
            return None
        return connection.Reservations(frozenset(found['registered']),
                                       frozenset(found['holders']), found['complete'])

    def unmaps(self, device: str) -> bool:
        return devices.discards(device)

    def block_sizes(self, device: str) -> connection.BlockSizes:
        return devices.block_sizes(device)

    def resize(self, export: connection.Export) -> None:
        """Do nothing, because LIO queries the size of the device whenever a host asks for it.

        See `base.LiveResize`.
        """

    def _export(self, volume_id: str, grants: list[dict[str, Any]]) -> base.ActualExport:
        return base.ActualExport(volume_id, tuple(
            connection.ActualGrant(
                volume_id, grant['initiator'],
                connection.AccessMode.RO if grant['read_only'] else connection.AccessMode.RW,
                grant['sessions'], grant['intact'], grant['account']) for grant in grants))

    def _wanted(self, export: connection.Export) -> dict[str, Any]:
        return dataclasses.asdict(lio.Export(
            self._name(export.volume_id), export.device, list(self._portals)))

    def _name(self, volume_id: str) -> str:
        return f'{self._settings.target_prefix}volume-{volume_id}'


@contextlib.contextmanager
def _errors_translated() -> Iterator[None]:
    """Translate errors of the connection to the privileged daemon into backend errors."""
    try:
        yield
    except comm.PrivsepTimeout as exc:
        raise errors.BackendUncertain(
            reason=f'LIO did not answer within {lio.SECONDS:g} seconds; see the kernel log for '
                   f'the cause') from exc
    except daemon.FailedToDropPrivileges as exc:
        raise errors.BackendRefused(reason=_no_rights(exc)) from exc


def _no_rights(failure: Exception) -> str:
    return (f'no privileges to change LIO: {failure or "no answer"}; check helper_command in '
            f'[privsep_lio] and the sudo rule')
