"""Privileged calls of the LIO target driver, which change LIO by means of rtslib.

Arguments and results are plain values. Every call may be repeated. An export is created from the
folder of its target downwards and removed upwards, so that the remains of a crash can be found by
the name of the volume. An ACL gets its mapping and mode first and its credential last. No login
with the ACL succeeds before the credential is set.

Two parts of rtslib are not used. Its root object runs a shell and moves the database of LIO. Its
creation of backstores reads all backstores and caches numbers that other programs may have taken.
"""
import contextlib
import dataclasses
import errno
import os
import re
import socket
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from rtslib_fb import fabric as rtslib_fabric
from rtslib_fb import target as rtslib_target
from rtslib_fb import tcm
from rtslib_fb import utils

from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.storage.privileged import context
from blockattach.storage.privileged import lio_reservations
from blockattach.storage.privileged import lio_tree

SECONDS = 40.0
"""Timeout of a privileged call in seconds, shorter than that of an RPC call."""

_OURS = re.compile(rf'iqn\.[a-z0-9.:-]+volume-({lio_tree.UUID})')
# Initiator names that rtslib accepts, in lower case, as LIO compares them.
_NODE = re.compile(r'(?=.{1,223}$)(?:iqn\.\d{4}-[01]\d\.[a-z0-9:-]*\.[a-z0-9.:-]*'
                   r'|eui\.[0-9a-f]{16}|naa\.[125c-f][0-9a-f]{15})')
_DEVICE = re.compile(r'/[^,\s]+')
# Host bus adapter with an unused number, created to check that LIO supports block devices.
_PROBE = 'iblock_1048575'

_FAILURES = (OSError, utils.RTSLibError)


@dataclasses.dataclass(frozen=True, slots=True)
class Export:
    """Volume to be exported, with the name of its target, and portals such as ``[::1]:3260``."""

    name: str
    device: str
    portals: list[str]


@dataclasses.dataclass(frozen=True, slots=True)
class Grant:
    """Access of an initiator to a volume.

    :ivar mutual_account: CHAP user name of the target, or empty without mutual CHAP
    """

    initiator: str
    read_only: bool
    account: str
    password: str = dataclasses.field(repr=False)
    mutual_account: str = ''
    mutual_password: str = dataclasses.field(default='', repr=False)


@context.lio.entrypoint_with_timeout(SECONDS)
def prepare(portals: list[str]) -> None:
    """Check that volumes can be exported at the given portals.

    :raises ConfigurationError: if volumes cannot be exported; the text says what to do
    """
    _need_lio(errors.ConfigurationError)
    probe = f'{lio_tree.root()}/core/{_PROBE}'
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(lio_tree.fabric())
        with contextlib.suppress(FileExistsError):
            os.mkdir(probe)
        os.rmdir(probe)
    except OSError as exc:
        raise errors.ConfigurationError(
            reason=f'LIO cannot export block devices over iSCSI ({exc.strerror}); run modprobe -a '
                   f'target_core_iblock iscsi_target_mod') from exc
    try:
        lio_reservations.make_folders()
    except OSError as exc:
        raise errors.ConfigurationError(
            reason=f'cannot create {exc.filename}: {exc.strerror}; reservations would not survive '
                   f'a power loss') from exc
    for portal in portals:
        _need_address(portal)


@context.lio.entrypoint_with_timeout(SECONDS)
def export(values: Mapping[str, Any]) -> None:
    """Export a volume without granting access to it.

    :param values: fields of an `Export`
    :raises BackendRefused: if the volume was not exported and nothing else was changed
    """
    volume = Export(**values)
    with _act(volume.name):
        _exported(volume)


@context.lio.entrypoint_with_timeout(SECONDS)
def grant(values: Mapping[str, Any], access: Mapping[str, Any]) -> None:
    """Grant an initiator access to a volume, and export the volume if it is not exported yet.

    :param values: fields of an `Export`
    :param access: fields of a `Grant`
    :raises BackendRefused: if no access was granted
    """
    volume, granted = Export(**values), Grant(**access)
    if not _NODE.fullmatch(granted.initiator):
        raise errors.BackendRefused(
            reason=f'{granted.initiator!r} is not an initiator name that LIO accepts; give the '
                   f'host a name without underscores (iqn.2026-01.org.example:host-1)')
    with _act(volume.name):
        group = _exported(volume)
        if granted.read_only:
            _set_attributes(_store_of(volume.name), lio_tree.READER_ATTRIBUTES)
        present = lio_tree.acl(volume.name, granted.initiator)
        if present is None:
            _make_acl(group, granted)
        else:
            _converge_acl(
                rtslib_target.NodeACL(group, granted.initiator, 'lookup'), present, granted)


@context.lio.entrypoint_with_timeout(SECONDS)
def revoke(name: str, initiator: str) -> None:
    """Revoke the access of an initiator to a volume, and end its sessions of this volume."""
    with _act(name):
        _need_lio(errors.BackendUncertain)
        if _NODE.fullmatch(initiator):
            path = lio_tree.acl_path(name, initiator)
            if os.path.isdir(path):
                acl = rtslib_target.NodeACL(_group(name), initiator, 'lookup')
                _unmap(acl)
                failpoints.point('privileged.lio.after_unmap')
                acl.delete()
            lio_reservations.forget(_serial(name), initiator)


@context.lio.entrypoint_with_timeout(SECONDS)
def unexport(name: str) -> None:
    """Remove the export of a volume, end all its sessions, and release its device."""
    with _act(name):
        _need_lio(errors.BackendUncertain)
        target = None
        if os.path.isdir(lio_tree.target(name)):
            target = _target(name)
            for group in list(target.tpgs):
                group.delete()
        failpoints.point('privileged.lio.after_groups')
        for path in lio_tree.backstores(name):
            _remove_backstore(path)
        failpoints.point('privileged.lio.after_backstore')
        if target is not None:
            target.delete()
        lio_reservations.forget(_serial(name))


@context.lio.entrypoint_with_timeout(SECONDS)
def exports(prefix: str, portals: list[str], mutual_account: str) -> list[dict[str, Any]]:
    """Return all exported volumes whose target names begin with ``prefix``, with their grants.

    :param portals: portals that an intact export must have
    :param mutual_account: CHAP user name of the target that an intact ACL must have, or empty
    """
    _need_lio(errors.BackendUncertain)
    names = lio_tree.volumes(re.compile(rf'{re.escape(prefix)}volume-{lio_tree.UUID}'))
    return [{'name': name, 'grants': _grants(name, portals, mutual_account)} for name in names]


@context.lio.entrypoint_with_timeout(SECONDS)
def reservations(name: str) -> dict[str, Any] | None:
    """Return the persistent reservations of a volume, or None if the volume is not exported."""
    store = lio_tree.linked_backstore(_checked(name))
    return None if store is None else lio_reservations.held(store)


def _grants(name: str, portals: list[str], mutual_account: str) -> list[dict[str, Any]]:
    acls = lio_tree.acls(name)
    whole = bool(acls) and lio_tree.is_whole(name, portals)
    store = lio_tree.linked_backstore(name)
    whole = whole and store is not None and lio_tree.leads_to(
        store, lio_tree.read(f'{store}/udev_path') or '')
    readers_held = store is not None and any(acl.read_only for acl in acls) \
        and lio_tree.has_attributes(store, lio_tree.READER_ATTRIBUTES)
    return [{
        'initiator': acl.initiator, 'read_only': acl.read_only, 'account': acl.account,
        'sessions': int(acl.in_session),
        'intact': (whole and acl.mapped and acl.requires_chap and bool(acl.account)
                   and acl.mutual_account == mutual_account
                   and (readers_held or not acl.read_only)),
    } for acl in acls]


# ---- Exports ------------------------------------------------------------------------------------


def _exported(volume: Export) -> rtslib_target.TPG:
    """Create or repair the export of a volume if needed, and return its portal group."""
    _need_lio(errors.BackendRefused)
    store = lio_tree.linked_backstore(volume.name)
    if (store is None or not lio_tree.is_whole(volume.name, volume.portals)
            or not lio_tree.leads_to(store, volume.device)):
        _build(volume)
    return _group(volume.name)


def _build(volume: Export) -> None:
    """Create the missing parts of an export.

    A portal group with another device or another tag is deleted first, with its sessions.

    :raises BackendRefused: if the volume cannot be exported; nothing was removed
    :raises BackendUncertain: if the volume cannot be exported after a portal group was deleted
    """
    if not _DEVICE.fullmatch(volume.device) or lio_tree.number_of(volume.device) is None:
        raise errors.BackendRefused(
            reason=f'{volume.device} is not a block device of this host; LIO does not export '
                   f'files (target = tgt does), and a logical volume must be active')
    failure: type[errors.BackendError] = errors.BackendRefused
    try:
        target = _target(volume.name, 'any')
        failpoints.point('privileged.lio.after_target')
        for group in list(target.tpgs):
            if group.tag != 1 or _leads_astray(volume):
                failure = errors.BackendUncertain
                group.delete()
        group = rtslib_target.TPG(target, 1)
        if lio_tree.read(f'{group.path}/dynamic_sessions'):
            # Disabling the group closes the sessions that were opened without an ACL.
            group.enable = False
        _set_attributes(group.path, lio_tree.ATTRIBUTES)
        failpoints.point('privileged.lio.after_group')
        if lio_tree.linked_backstore(volume.name) is None:
            store = _backstore(volume)
            failpoints.point('privileged.lio.after_backstore_made')
            rtslib_target.LUN(group, 0, store)
        failpoints.point('privileged.lio.after_unit')
        _set_portals(group, volume.portals)
        group.enable = True
    except _FAILURES as exc:
        raise failure(reason=f'cannot export {volume.name}: {_cure(exc, volume)}') from exc


def _leads_astray(volume: Export) -> bool:
    """Return True if the logical unit of a volume has a wrong backstore or device."""
    if not os.path.isdir(f'{lio_tree.group(volume.name)}/lun/{lio_tree.UNIT}'):
        return False
    store = lio_tree.linked_backstore(volume.name)
    return (store is None or os.path.basename(store) != volume.name
            or not lio_tree.leads_to(store, volume.device))


def _set_portals(group: rtslib_target.TPG, portals: list[str]) -> None:
    """Make a portal group listen on exactly the given portals."""
    for portal in portals:
        address, _, port = portal.rpartition(':')
        try:
            rtslib_target.NetworkPortal(group, address, int(port))
        except utils.RTSLibError as exc:
            # The kernel only reports an invalid argument, so a portal in use is assumed.
            raise OSError(errno.EADDRINUSE, str(exc)) from exc
    for present in list(group.network_portals):
        if f'{present.ip_address}:{present.port}' not in portals:
            present.delete()


def _set_attributes(path: str, attributes: Mapping[str, str]) -> None:
    for name, value in attributes.items():
        if lio_tree.read(f'{path}/attrib/{name}') != value:
            utils.fwrite(f'{path}/attrib/{name}', value)


# ---- Backstores ---------------------------------------------------------------------------------


def _backstore(volume: Export) -> tcm.BlockStorageObject:
    """Create the backstore of a volume if needed, and return the backstore.

    An incomplete backstore that a killed process has left is replaced.
    """
    path = lio_tree.backstore(volume.name)
    if not (lio_tree.read(f'{path}/enable') == '1' and lio_tree.leads_to(path, volume.device)):
        try:
            _make_backstore(path, volume)
        except OSError as exc:
            leftovers = lio_tree.backstores(volume.name)
            if exc.errno not in (errno.EEXIST, errno.EBUSY) or not leftovers:
                raise
            for other in leftovers:
                _remove_backstore(other)
            _make_backstore(path, volume)
    number = os.path.basename(os.path.dirname(path)).partition('_')[2]
    return tcm.BlockStorageObject(volume.name, index=int(number))


def _make_backstore(path: str, volume: Export) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(os.path.dirname(path))
    os.mkdir(path)
    try:
        utils.fwrite(f'{path}/control', f'udev_path={volume.device}')
        utils.fwrite(f'{path}/udev_path', volume.device)
        utils.fwrite(f'{path}/enable', '1')
        serial = _serial(volume.name)
        # LIO names the file of the stored registrations after this serial.
        utils.fwrite(f'{path}/wwn/vpd_unit_serial', serial)
        lio_reservations.restore(path, serial)
    except (OSError, errors.BackendRefused):
        _remove_backstore(path)
        raise
    for attribute in ('emulate_tpu', 'emulate_tpws'):
        # LIO rejects these attributes if the device does not support discard.
        with contextlib.suppress(OSError):
            utils.fwrite(f'{path}/attrib/{attribute}', '1')


def _remove_backstore(path: str) -> None:
    """Delete a backstore. LIO rejects the deletion while a logical unit uses the backstore."""
    os.rmdir(path)
    # The host bus adapter may also have a backstore of another volume.
    with contextlib.suppress(OSError):
        os.rmdir(os.path.dirname(path))


# ---- ACLs of initiators -------------------------------------------------------------------------


def _make_acl(group: rtslib_target.TPG, granted: Grant) -> None:
    try:
        acl = rtslib_target.NodeACL(group, granted.initiator, 'create')
    except _FAILURES as exc:
        raise errors.BackendRefused(
            reason=f'cannot grant access to {granted.initiator}: {exc}') from exc
    try:
        failpoints.point('privileged.lio.after_acl')
        _map(acl, granted.read_only)
        failpoints.point('privileged.lio.after_mapping')
        _identify(acl, granted)
    except _FAILURES as exc:
        with contextlib.suppress(*_FAILURES):
            acl.delete()
        kind = errors.BackendUncertain if acl.exists else errors.BackendRefused
        raise kind(reason=f'cannot grant access to {granted.initiator}: {exc}') from exc


def _converge_acl(acl: rtslib_target.NodeACL, present: lio_tree.Acl, granted: Grant) -> None:
    """Bring an existing ACL to the desired state while its sessions continue."""
    if not present.mapped:
        _unmap(acl)
        _map(acl, granted.read_only)
    elif present.read_only != granted.read_only:
        _set_mode(acl, granted.read_only)
    if (not present.requires_chap or present.account != granted.account
            or acl.chap_password != granted.password
            or present.mutual_account != granted.mutual_account
            or acl.chap_mutual_password != granted.mutual_password):
        _identify(acl, granted)


def _map(acl: rtslib_target.NodeACL, read_only: bool) -> None:
    """Map the logical unit in an ACL.

    rtslib is not used, because its mapping remains writable if the write protection fails. An
    attribute of the portal group makes the mapping read-only from its creation on.
    """
    path = f'{acl.path}/{lio_tree.UNIT}'
    os.mkdir(path)
    os.symlink(f'{acl.parent_tpg.path}/lun/{lio_tree.UNIT}', f'{path}/unit')
    _set_mode(acl, read_only)


def _unmap(acl: rtslib_target.NodeACL) -> None:
    for name in lio_tree.names(acl.path):
        if name.startswith('lun_'):
            path = f'{acl.path}/{name}'
            with os.scandir(path) as entries:
                links = [entry.path for entry in entries if entry.is_symlink()]
            # configfs does not remove a folder that contains a link.
            for link in links:
                os.unlink(link)
            os.rmdir(path)


def _set_mode(acl: rtslib_target.NodeACL, read_only: bool) -> None:
    """Set the mode of an ACL, which takes effect with the next SCSI command."""
    utils.fwrite(f'{acl.path}/{lio_tree.UNIT}/write_protect', int(read_only))


def _identify(acl: rtslib_target.NodeACL, granted: Grant) -> None:
    """Set the credentials of an ACL, the password last, because no login succeeds without it."""
    with contextlib.suppress(OSError):
        # Only recent kernels have this attribute of an ACL. -1 inherits that of the portal group.
        utils.fwrite(f'{acl.path}/attrib/authentication', '-1')
    acl.chap_mutual_userid = granted.mutual_account
    acl.chap_mutual_password = granted.mutual_password
    acl.chap_userid = granted.account
    failpoints.point('privileged.lio.after_account')
    acl.chap_password = granted.password


# ---- Lookups, checks and errors -----------------------------------------------------------------


def _target(name: str, mode: str = 'lookup') -> rtslib_target.Target:
    return rtslib_target.Target(rtslib_fabric.FabricModule('iscsi'), name, mode)


def _group(name: str) -> rtslib_target.TPG:
    return rtslib_target.TPG(_target(name), 1, 'lookup')


def _store_of(name: str) -> str:
    store = lio_tree.linked_backstore(name)
    if store is None:
        raise errors.BackendUncertain(reason=f'target {name} was changed by another program')
    return store


def _checked(name: str) -> str:
    """Return ``name`` if it is the name of a target of this service.

    :raises BackendRefused: for any other target, which privileged code must not change
    """
    if not _OURS.fullmatch(name):
        raise errors.BackendRefused(reason=f'{name!r} is not the name of a target of the service')
    return name


def _serial(name: str) -> str:
    # Initiators see the id of the volume as the serial number. The name ends with the id.
    return name[-36:]


@contextlib.contextmanager
def _act(name: str) -> Iterator[None]:
    """Hold the lock of a volume, and convert unexpected failures to BackendUncertain.

    Only one thread of one daemon changes a volume at a time. After an unexpected failure, a part
    of the change may have been made.
    """
    try:
        with lio_reservations.alone(_checked(name)):
            yield
    except _FAILURES as exc:
        raise errors.BackendUncertain(reason=f'the state of target {name} in LIO is unknown: '
                                             f'{exc}') from exc


def _need_lio(kind: type[errors.BlockattachError]) -> None:
    """Check that LIO is loaded.

    The check comes before any use of rtslib, which would run a shell if LIO is not loaded.

    :raises kind: if LIO is not loaded; the text says what to do
    """
    if os.path.isdir(f'{lio_tree.root()}/core'):
        return
    mounts = lio_tree.read('/proc/self/mounts') or ''
    if ' configfs ' not in mounts:
        raise kind(reason='LIO cannot be used, configfs is not mounted; run mount -t configfs '
                          'configfs /sys/kernel/config')
    raise kind(reason='LIO is not loaded; run modprobe -a target_core_mod target_core_iblock '
                      'iscsi_target_mod, and list the modules in a file in /etc/modules-load.d')


def _need_address(portal: str) -> None:
    # LIO itself accepts any address, even one that no host can reach.
    address = portal.rpartition(':')[0].strip('[]')
    family = socket.AF_INET6 if ':' in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((address, 0))
    except OSError as exc:
        raise errors.ConfigurationError(
            reason=f'cannot use {address} as a portal: {exc.strerror}; set target_ip_address and '
                   f'target_secondary_ip_addresses to addresses of this host') from exc


def _cure(failure: Exception, volume: Export) -> str:
    """Return the cause of a failed export, with advice for the operator if the cause is known."""
    # rtslib raises its own error while it handles that of the kernel.
    cause = failure if isinstance(failure, OSError) else failure.__context__
    number = cause.errno if isinstance(cause, OSError) else None
    return {
        errno.EBUSY: f'{volume.device} is in use on this host; unmount the device, or stop the '
                     f'program or the target that uses the device',
        errno.EADDRINUSE: f'another program listens on {" or ".join(volume.portals)}; stop the '
                          f'program, or set another target_port',
    }.get(number or 0, str(failure))
