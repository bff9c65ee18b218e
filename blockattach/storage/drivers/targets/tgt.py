"""Target driver for tgt, which is iSCSI in user space, with one target per volume and initiator.

tgt has no access mode and no account per initiator. Each initiator therefore gets a target of its
own, with its name in the access list, one CHAP account and one logical unit with the data of the
volume. tgt compares names byte by byte, so the access list contains every form of the name that
hosts have sent.

A target that was adopted from another service is an exception. All initiators that were adopted
with it are in its access list and share its account. Such a target is kept as it is.

A target is set up while it is *offline*, and set *ready* last. No login can succeed before the
credential and the mode are set, even if the setup is interrupted. If an account of tgt is deleted
while a target uses it, the target becomes open to any initiator in its access list. An account is
therefore deleted after its target, never before.
"""
import contextlib
import os
import re
import zlib
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator

from oslo_log import log as oslo_log

from blockattach.platform import clock as clocks
from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.platform import log
from blockattach.platform import units
from blockattach.storage.conf import backend
from blockattach.storage.domain import connection
from blockattach.storage.drivers import base
from blockattach.storage.drivers import devices
from blockattach.storage.drivers.targets import tgt_socket
from blockattach.storage.drivers.targets import tgtd

LOG = oslo_log.getLogger(__name__)

_LUN = 1
_NUMBERS_TRIED = 16
_CLOSE_SECONDS = 10.0
_TICK = 0.01
# An iSCSI name (RFC 3720, 3.2.6), restricted to characters at which tgtd does not split.
_NAME = re.compile(r'[A-Za-z0-9][A-Za-z0-9.:_-]{0,222}')
_INITIATOR = re.compile(r'(iqn|eui|naa)\.', re.IGNORECASE)
_UUID = r'[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}'


class TgtTarget(base.ExportTarget):
    """Target driver for tgt.

    Also implements `base.Daemon`, for a tgtd that the driver starts or for the one on
    ``tgt_socket``, and `base.Unmap`, because tgtd punches holes in files.
    """

    def __init__(self, settings: backend.BackendSettings,
                 clock: clocks.Clock | None = None) -> None:
        self._settings = settings
        self._clock = clock or clocks.Clock()
        self._daemon = tgtd.Tgtd(
            settings.state_dir,
            (settings.target_ip_address, *settings.target_secondary_ip_addresses),
            settings.target_port, self._clock)
        self._ours = re.compile(
            rf'{re.escape(settings.target_prefix)}volume-({_UUID})(?:-.+)?')

    def check(self) -> None:
        settings = self._settings
        if settings.shared and settings.tgt_socket is None:
            raise errors.ConfigurationError(
                reason='tgt_socket must be the socket of a tgtd that all members of the cluster '
                       'use and that no member starts')
        if settings.tgt_socket is not None and not settings.target_port:
            raise errors.ConfigurationError(
                reason=f'target_port must be the port that the tgtd on tgt_socket '
                       f'{settings.tgt_socket} listens on')

    def start(self) -> None:
        if self._settings.tgt_socket is None:
            self._daemon.start()
            return
        try:
            portals = self._client().portals()
        except errors.BackendError as exc:
            raise errors.ConfigurationError(
                reason=f'no tgtd answers on tgt_socket {self._settings.tgt_socket}') from exc
        port = self._settings.target_port
        # A wildcard portal listens on all addresses of its family.
        everywhere = {True: f'[::]:{port}', False: f'0.0.0.0:{port}'}
        missing = [portal for portal in self._daemon.portals()
                   if not {portal, everywhere[portal.startswith('[')]} & set(portals)]
        if missing:
            raise errors.ConfigurationError(
                reason=f'the tgtd on tgt_socket {self._settings.tgt_socket} does not listen on '
                       f'{", ".join(missing)} (target_ip_address, target_port), but on '
                       f'{", ".join(portals) or "nothing"}')
        tgtd.warn_of_memory(self._client().pid())

    def running(self) -> bool:
        return self._client().answers()

    def has_process(self) -> bool:
        return self._client().has_process()

    def stop(self) -> None:
        if self._settings.tgt_socket is None:
            self._daemon.stop()

    def export(self, export: connection.Export) -> None:
        """Check that tgtd answers.

        Nothing else is necessary, because a volume is exported with its first grant.
        """
        self._client().portals()

    def unexport(self, volume_id: str) -> None:
        self._end(volume_id, None)

    def grant(self, export: connection.Export, grant: connection.Grant) -> connection.Connection:
        if not all(map(_NAME.fullmatch, grant.admitted)):
            raise errors.BackendRefused(
                reason=f'{grant.initiator!r} is not an initiator name that tgt accepts')
        alias = '' if grant.adopted else grant.alias
        name = f'{self._settings.target_prefix}volume-{grant.volume_id}{alias}'
        client, number = self._client(), next(_numbers(name))
        # In the usual case, neither the name nor the number is in use.
        if _is_added(client, number, name):
            self._furnish(client, number, export, grant)
        else:
            self._converge(client, name, export, grant)
        return connection.Connection('iscsi', self._daemon.portals(), name, _LUN)

    def revoke(self, volume_id: str, initiator: str) -> None:
        self._end(volume_id, initiator)

    def exports(self) -> tuple[base.ActualExport, ...]:
        targets = self._client().targets()
        found: dict[str, list[connection.ActualGrant]] = {}
        for target in targets:
            volume_id = self._volume_of(target.name)
            if volume_id is not None:
                found.setdefault(volume_id, []).extend(_grants(volume_id, target))
        return tuple(base.ActualExport(volume_id, tuple(grants))
                     for volume_id, grants in sorted(found.items()))

    def unmaps(self, device: str) -> bool:
        """Return True for a file whose file system frees discarded space, see `base.Unmap`.

        In lab tests, tgtd 1.0.85 did not free space of thin logical volumes.
        """
        return os.path.isfile(device) and devices.discards(device)

    def _client(self) -> tgt_socket.Client:
        if self._settings.tgt_socket is not None:
            return tgt_socket.Client(self._settings.tgt_socket)
        return self._daemon.client()

    def _volume_of(self, name: str) -> str | None:
        found = self._ours.fullmatch(name)
        return found.group(1) if found else None

    def _converge(self, client: tgt_socket.Client, name: str, export: connection.Export,
                  grant: connection.Grant) -> None:
        """Update, rebuild or create the target of a grant if its name or number is in use.

        If only the target number is in use, the target is created with another number.

        :raises BackendRefused: if the target belongs to another initiator
        :raises BackendUncertain: if no number is free, or if a removed target cannot be rebuilt
        """
        targets = client.targets()
        present = next((target for target in targets if target.name == name), None)
        if present is not None:
            if grant.adopted and _is_shared(present, export, grant):
                self._admit(client, present, grant)
                return
            if any(not connection.is_same_node(name, grant.initiator)
                   for name in present.initiators):
                raise errors.BackendRefused(reason=f'{name} is held by another initiator')
            differences = _differences(present, export, grant)
            if not differences:
                _add_names(client, present.tid, grant)
                self._set_mode(client, present, grant.mode)
                return
            LOG.warning('Rebuilding target%s', log.fields(
                volume_id=grant.volume_id, initiator=grant.initiator, target=present.name,
                reason=f'configuration differs from grant: {", ".join(differences)}'))
            self._remove(client, present, targets)
        try:
            number = next((one for one in _numbers(name) if _is_added(client, one, name)), None)
            if number is None:
                raise errors.BackendUncertain(reason=f'no target ID is free for target {name}')
            self._furnish(client, number, export, grant)
        except tgt_socket.Rejected as exc:
            if present is None:
                raise
            raise errors.BackendUncertain(
                reason=f'target {name} was removed and could not be rebuilt: {exc}') from exc

    def _furnish(self, client: tgt_socket.Client, number: int, export: connection.Export,
                 grant: connection.Grant) -> None:
        """Set up a new target for a grant. The last step sets the target ready.

        :param number: number of the target
        :raises tgt_socket.Rejected: if tgtd rejects a step; the target is removed
        """
        try:
            client.set_ready(number, False)
            failpoints.point('drivers.tgt.after_target')
            _add_names(client, number, grant)
            failpoints.point('drivers.tgt.after_initiator')
            self._add_account(client, grant.credential)
            client.bind_account(number, grant.credential.username)
            failpoints.point('drivers.tgt.after_account')
            client.add_lun(number, _LUN, export.device)
            failpoints.point('drivers.tgt.after_lun')
            serial = export.volume_id.replace('-', '')
            client.update_lun(number, _LUN, readonly=_flag(grant.mode), thin_provisioning='1',
                              scsi_sn=serial, scsi_id=serial)
            failpoints.point('drivers.tgt.after_mode')
            client.set_ready(number, True)
        except tgt_socket.Rejected:
            targets = client.targets()
            for target in targets:
                if target.tid == number:
                    self._remove(client, target, targets)
            raise
        failpoints.point('drivers.tgt.after_grant')

    def _add_account(self, client: tgt_socket.Client, credential: connection.Credential) -> None:
        """Create the CHAP account of a new target.

        An account that a killed process has left is replaced, because its secret is unknown. An
        account of another target is never replaced, because its deletion would open that target.

        :raises tgt_socket.Rejected: if another target uses an account of that name
        """
        try:
            client.add_account(credential.username, credential.password)
        except tgt_socket.Rejected as exc:
            if exc.answer != tgt_socket.Code.USER_EXISTS:
                raise
            if any(credential.username in target.accounts for target in client.targets()):
                raise tgt_socket.rejected(
                    exc.answer, 'add an account whose name another target uses') from None
            client.delete_account(credential.username)
            client.add_account(credential.username, credential.password)

    def _set_mode(self, client: tgt_socket.Client, target: tgt_socket.Target,
                  mode: connection.AccessMode) -> None:
        if target.luns[0].readonly != (mode is connection.AccessMode.RO):
            client.update_lun(target.tid, _LUN, readonly=_flag(mode))

    def _end(self, volume_id: str, initiator: str | None) -> None:
        """Remove all targets of a volume, or the access of one initiator to the volume.

        :param initiator: name of the initiator; None to remove all targets
        """
        client = self._client()
        targets = client.targets()
        initiator = None if initiator is None else connection.canonical_name(initiator)
        for target in targets:
            if self._volume_of(target.name) != volume_id or initiator not in (
                    None, *_known(target)):
                continue
            if initiator is not None and _nodes(_names(target)) - {initiator}:
                self._expel(client, target, initiator)
            else:
                self._remove(client, target, targets)

    def _admit(self, client: tgt_socket.Client, target: tgt_socket.Target,
               grant: connection.Grant) -> None:
        _add_names(client, target.tid, grant)
        # An address in the access list admits initiators of any name. It can be removed now that
        # the list contains a name.
        for address in set(target.initiators) - set(_names(target)):
            with _unless(tgt_socket.Code.NO_ACL):
                client.unbind_address(target.tid, address)

    def _expel(self, client: tgt_socket.Client, target: tgt_socket.Target,
               initiator: str) -> None:
        """End the access of one initiator to a target that several initiators share.

        :raises BackendUncertain: if the sessions of the initiator do not close in time
        """
        # Unbinding ends no session, but a session that is closed first could be opened again.
        for name in _names(target):
            if connection.is_same_node(name, initiator):
                with _unless(tgt_socket.Code.NO_ACL, tgt_socket.Code.NO_TARGET):
                    client.unbind_initiator(target.tid, name)

        def is_out() -> bool:
            present = next((item for item in client.targets() if item.tid == target.tid), None)
            sids = {session.sid for session in present.sessions if connection.is_same_node(
                session.initiator, initiator)} if present else set()
            if sids:
                self._cut(client, target.tid, sids)
            return not sids

        if not self._clock.until(is_out, _CLOSE_SECONDS, _TICK):
            raise errors.BackendUncertain(
                reason=f'sessions of {initiator} with target {target.name} do not close')

    def _remove(self, client: tgt_socket.Client, target: tgt_socket.Target,
                others: Iterable[tgt_socket.Target]) -> None:
        """Remove a target and then its account.

        The target is set offline, its sessions are closed, the target is deleted, and its account
        is deleted last. The access list remains until the target is deleted, so that a repeated
        call finds the target after an interrupted removal.

        :param others: all targets; accounts that another target uses are kept
        :raises BackendUncertain: if the sessions of the target do not close in time
        """
        with _unless(tgt_socket.Code.NO_TARGET):
            client.set_ready(target.tid, False)
        failpoints.point('drivers.tgt.after_shut')
        if not self._clock.until(lambda: self._delete(client, target.tid), _CLOSE_SECONDS, _TICK):
            raise errors.BackendUncertain(reason=f'sessions of target {target.name} do not close')
        failpoints.point('drivers.tgt.after_delete')
        shared = {account for other in others if other.tid != target.tid
                  for account in other.accounts}
        for account in set(target.accounts) - shared:
            with _unless(tgt_socket.Code.NO_USER):
                client.delete_account(account)

    def _delete(self, client: tgt_socket.Client, number: int) -> bool:
        """Delete a target, or close its connections if it has sessions.

        :returns: False if the target had sessions and must be deleted later
        """
        try:
            with _unless(tgt_socket.Code.NO_TARGET):
                client.delete_target(number)
            return True
        except tgt_socket.Rejected as exc:
            if exc.answer not in (tgt_socket.Code.TARGET_ACTIVE, tgt_socket.Code.LUN_ACTIVE):
                raise
        self._cut(client, number)
        return False

    def _cut(self, client: tgt_socket.Client, number: int,
             sids: Collection[int] | None = None) -> None:
        """Close the connections of sessions of a target.

        :param sids: numbers of the sessions; None for all
        """
        with _unless(tgt_socket.Code.NO_TARGET):
            for sid, cid in client.connections(number):
                if sids is None or sid in sids:
                    with _unless(tgt_socket.Code.NO_SESSION, tgt_socket.Code.NO_CONNECTION):
                        client.close_connection(number, sid, cid)


@contextlib.contextmanager
def _unless(*codes: tgt_socket.Code) -> Iterator[None]:
    """Ignore `tgt_socket.Rejected` if its code is one of ``codes``."""
    try:
        yield
    except tgt_socket.Rejected as exc:
        if exc.answer not in codes:
            raise


def _is_added(client: tgt_socket.Client, number: int, name: str) -> bool:
    """Create a target, or return False if its name or its number is already in use."""
    try:
        client.add_target(number, name)
    except tgt_socket.Rejected as exc:
        if exc.answer != tgt_socket.Code.TARGET_EXISTS:
            raise
        return False
    return True


def _numbers(name: str) -> Iterator[int]:
    """Yield the numbers to try for a new target with the given name.

    The numbers are hashes of the name, so that a free number is found without listing all targets.
    """
    for attempt in range(_NUMBERS_TRIED):
        text = f'{name}#{attempt}' if attempt else name
        yield zlib.crc32(text.encode()) % (2 ** 31 - 2) + 1


def _flag(mode: connection.AccessMode) -> str:
    return '1' if mode is connection.AccessMode.RO else '0'


def _differences(target: tgt_socket.Target, export: connection.Export,
                 grant: connection.Grant) -> list[str]:
    """Return descriptions of the parts of a target that differ from its export and grant.

    The access mode and the spelling of the initiator name are not compared. Both can be changed
    without rebuilding the target.
    """
    if len(target.luns) != 1:
        return ['number of logical units']
    lun = target.luns[0]
    size_mb = round(units.gib_to_bytes(export.size_gb) / 10 ** 6)
    same = {
        'ready state': target.ready,
        'initiators': _nodes(target.initiators) == _nodes([grant.initiator]),
        'accounts': target.accounts == (grant.credential.username,),
        'LUN': lun.number == _LUN,
        'device': lun.path == export.device,
        'thin provisioning': lun.thin,
        'serial number': lun.serial == export.volume_id.replace('-', ''),
        # tgtd keeps the initial size of a logical unit, which is not changed under a session.
        'size': bool(target.sessions) or abs(lun.size_mb - size_mb) <= 1}
    return [part for part, is_same in same.items() if not is_same]


def _is_shared(target: tgt_socket.Target, export: connection.Export,
               grant: connection.Grant) -> bool:
    """Return True if an existing target can be kept for an adopted grant.

    The target must be ready and have the account of the grant and the data of the volume.
    """
    return (target.ready and target.accounts == (grant.credential.username,)
            and [lun.number for lun in target.luns] == [_LUN]
            and os.path.realpath(target.luns[0].path) == os.path.realpath(export.device))


def _names(target: tgt_socket.Target) -> tuple[str, ...]:
    """Return the initiator names in the access list of a target, without its addresses.

    Another service may have added addresses to the access list of an adopted target.
    """
    return tuple(entry for entry in target.initiators if _INITIATOR.match(entry))


def _nodes(names: Iterable[str]) -> set[str]:
    return set(map(connection.canonical_name, names))


def _add_names(client: tgt_socket.Client, number: int, grant: connection.Grant) -> None:
    for name in grant.admitted:
        with _unless(tgt_socket.Code.ACL_EXISTS):
            client.bind_initiator(number, name)


def _known(target: tgt_socket.Target) -> set[str]:
    """Return the initiators that may log in to a target or are logged in."""
    return _nodes((*_names(target), *(session.initiator for session in target.sessions)))


def _grants(volume_id: str, target: tgt_socket.Target) -> Iterator[connection.ActualGrant]:
    """Yield a grant for each initiator that may log in to a target or is logged in.

    The grants of an incomplete or modified target are marked as not intact.
    """
    readonly = bool(target.luns) and all(lun.readonly for lun in target.luns)
    mode = connection.AccessMode.RO if readonly else connection.AccessMode.RW
    names = _names(target)
    whole = (target.ready and len(target.accounts) == 1 and names == target.initiators
             and [lun.number for lun in target.luns] == [_LUN])
    shared = len(_nodes(target.initiators)) != 1
    for initiator in sorted(_known(target)):
        sessions = sum(connection.is_same_node(session.initiator, initiator)
                       for session in target.sessions)
        yield connection.ActualGrant(
            volume_id, initiator, mode, sessions, whole and initiator in names,
            ', '.join(target.accounts), shared,
            connection.spellings(initiator, [{'initiator': name} for name in names]))
