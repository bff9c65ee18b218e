"""LIO, changed by rtslib: the privileged calls of the target driver, with plain values.

Everything here may be repeated. A volume is exported from its target's folder down, and removed up
to it, so that whatever a crash leaves is found by the volume's name. An ACL gets its mapping and
its mode first and its credential last; before that no login by it succeeds.

rtslib's root object is left alone (it runs a shell and moves LIO's database), and so is its making
of backstores (it caches numbers that others may have taken, and reads all of them).
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
"""How long the kernel may take for one act, less than an RPC call may take."""

_OURS = re.compile(rf'iqn\.[a-z0-9.:-]+volume-({lio_tree.UUID})')
# As rtslib takes it; LIO compares names in lower case.
_NODE = re.compile(r'(?=.{1,223}$)(?:iqn\.\d{4}-[01]\d\.[a-z0-9:-]*\.[a-z0-9.:-]*'
                   r'|eui\.[0-9a-f]{16}|naa\.[125c-f][0-9a-f]{15})')
_DEVICE = re.compile(r'/[^,\s]+')
# A free number, to see whether LIO takes block devices.
_PROBE = 'iblock_1048575'

_FAILURES = (OSError, utils.RTSLibError)


@dataclasses.dataclass(frozen=True, slots=True)
class Export:
    """A volume as it is to be exported. ``portals`` as LIO writes them: ``[::1]:3260``."""

    name: str
    device: str
    portals: list[str]


@dataclasses.dataclass(frozen=True, slots=True)
class Grant:
    """An initiator's access: mode, CHAP credential and, for mutual CHAP, the target's."""

    initiator: str
    read_only: bool
    account: str
    password: str = dataclasses.field(repr=False)
    mutual_account: str = ''
    mutual_password: str = dataclasses.field(default='', repr=False)


@context.lio.entrypoint_with_timeout(SECONDS)
def prepare(portals: list[str]) -> None:
    """Make sure that volumes can be exported at these portals.

    :raises ConfigurationError: they cannot; the text says what to do
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
def export(wanted: Mapping[str, Any]) -> None:
    """Export a volume, without granting access to it.

    :raises BackendRefused: it is not exported; nothing else was changed
    """
    made = Export(**wanted)
    with _act(made.name):
        _exported(made)


@context.lio.entrypoint_with_timeout(SECONDS)
def grant(wanted: Mapping[str, Any], access: Mapping[str, Any]) -> None:
    """Grant one initiator access to a volume, in its mode; exports the volume too.

    :raises BackendRefused: no access was granted
    """
    made, granted = Export(**wanted), Grant(**access)
    if not _NODE.fullmatch(granted.initiator):
        raise errors.BackendRefused(
            reason=f'{granted.initiator!r} is not an initiator name that LIO accepts; give the '
                   f'host a name without underscores (iqn.2026-01.org.example:host-1)')
    with _act(made.name):
        group = _exported(made)
        if granted.read_only:
            _set_attributes(_store_of(made.name), lio_tree.READER_ATTRIBUTES)
        found = lio_tree.acl(made.name, granted.initiator)
        if found is None:
            _make_acl(group, granted)
        else:
            _converge_acl(
                rtslib_target.NodeACL(group, granted.initiator, 'lookup'), found, granted)


@context.lio.entrypoint_with_timeout(SECONDS)
def revoke(name: str, initiator: str) -> None:
    """Revoke one initiator's access: its sessions of this volume end, and no others."""
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
    """Remove a volume's export: every session of it ends, and its device is free."""
    with _act(name):
        _need_lio(errors.BackendUncertain)
        made = None
        if os.path.isdir(lio_tree.target(name)):
            made = _target(name)
            for group in list(made.tpgs):
                group.delete()
        failpoints.point('privileged.lio.after_groups')
        for path in lio_tree.backstores(name):
            _remove_backstore(path)
        failpoints.point('privileged.lio.after_backstore')
        if made is not None:
            made.delete()
        lio_reservations.forget(_serial(name))


@context.lio.entrypoint_with_timeout(SECONDS)
def exports(prefix: str, portals: list[str], mutual_account: str) -> list[dict[str, Any]]:
    """Every volume that is exported under a prefix, with its grants.

    :param portals: where it should be exported
    :param mutual_account: the target's name for mutual CHAP; empty: none
    """
    _need_lio(errors.BackendUncertain)
    names = lio_tree.volumes(re.compile(rf'{re.escape(prefix)}volume-{lio_tree.UUID}'))
    return [{'name': name, 'grants': _grants(name, portals, mutual_account)} for name in names]


@context.lio.entrypoint_with_timeout(SECONDS)
def reservations(name: str) -> dict[str, Any] | None:
    """The holders of registrations and of the reservation; None: the volume is not exported."""
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


# ---- A volume -----------------------------------------------------------------------------------


def _exported(wanted: Export) -> rtslib_target.TPG:
    """The portal group of a volume, made or repaired where needed."""
    _need_lio(errors.BackendRefused)
    store = lio_tree.linked_backstore(wanted.name)
    if (store is None or not lio_tree.is_whole(wanted.name, wanted.portals)
            or not lio_tree.leads_to(store, wanted.device)):
        _build(wanted)
    return _group(wanted.name)


def _build(wanted: Export) -> None:
    """Make what is missing. What leads to other bytes is removed first, with its sessions."""
    if not _DEVICE.fullmatch(wanted.device) or lio_tree.number_of(wanted.device) is None:
        raise errors.BackendRefused(
            reason=f'{wanted.device} is not a block device of this host; LIO does not export '
                   f'files (target = tgt does), and a logical volume must be active')
    failure: type[errors.BackendError] = errors.BackendRefused
    try:
        made = _target(wanted.name, 'any')
        failpoints.point('privileged.lio.after_target')
        for group in list(made.tpgs):
            if group.tag != 1 or _leads_astray(wanted):
                failure = errors.BackendUncertain
                group.delete()
        group = rtslib_target.TPG(made, 1)
        if lio_tree.read(f'{group.path}/dynamic_sessions'):
            # A session that was opened without an ACL stays open otherwise.
            group.enable = False
        _set_attributes(group.path, lio_tree.ATTRIBUTES)
        failpoints.point('privileged.lio.after_group')
        if lio_tree.linked_backstore(wanted.name) is None:
            store = _backstore(wanted)
            failpoints.point('privileged.lio.after_backstore_made')
            rtslib_target.LUN(group, 0, store)
        failpoints.point('privileged.lio.after_unit')
        _set_portals(group, wanted.portals)
        group.enable = True
    except _FAILURES as exc:
        raise failure(reason=f'cannot export {wanted.name}: {_cure(exc, wanted)}') from exc


def _leads_astray(wanted: Export) -> bool:
    """Whether a logical unit leads to another device than the volume's."""
    if not os.path.isdir(f'{lio_tree.group(wanted.name)}/lun/{lio_tree.UNIT}'):
        return False
    store = lio_tree.linked_backstore(wanted.name)
    return (store is None or os.path.basename(store) != wanted.name
            or not lio_tree.leads_to(store, wanted.device))


def _set_portals(group: rtslib_target.TPG, portals: list[str]) -> None:
    """Listen there, and nowhere else."""
    for portal in portals:
        address, _, port = portal.rpartition(':')
        try:
            rtslib_target.NetworkPortal(group, address, int(port))
        except utils.RTSLibError as exc:
            # The kernel says no more than that an argument is invalid.
            raise OSError(errno.EADDRINUSE, str(exc)) from exc
    for found in list(group.network_portals):
        if f'{found.ip_address}:{found.port}' not in portals:
            found.delete()


def _set_attributes(path: str, wanted: Mapping[str, str]) -> None:
    for name, value in wanted.items():
        if lio_tree.read(f'{path}/attrib/{name}') != value:
            utils.fwrite(f'{path}/attrib/{name}', value)


# ---- Its backstore ------------------------------------------------------------------------------


def _backstore(wanted: Export) -> tcm.BlockStorageObject:
    """The volume's backstore; one that a crash left unfinished is made again."""
    path = lio_tree.backstore(wanted.name)
    if not (lio_tree.read(f'{path}/enable') == '1' and lio_tree.leads_to(path, wanted.device)):
        try:
            _make_backstore(path, wanted)
        except OSError as exc:
            leftovers = lio_tree.backstores(wanted.name)
            if exc.errno not in (errno.EEXIST, errno.EBUSY) or not leftovers:
                raise
            for other in leftovers:
                _remove_backstore(other)
            _make_backstore(path, wanted)
    number = os.path.basename(os.path.dirname(path)).partition('_')[2]
    return tcm.BlockStorageObject(wanted.name, index=int(number))


def _make_backstore(path: str, wanted: Export) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(os.path.dirname(path))
    os.mkdir(path)
    try:
        utils.fwrite(f'{path}/control', f'udev_path={wanted.device}')
        utils.fwrite(f'{path}/udev_path', wanted.device)
        utils.fwrite(f'{path}/enable', '1')
        serial = _serial(wanted.name)
        utils.fwrite(f'{path}/wwn/vpd_unit_serial', serial)
        lio_reservations.restore(path, serial)
    except (OSError, errors.BackendRefused):
        _remove_backstore(path)
        raise
    for attribute in ('emulate_tpu', 'emulate_tpws'):
        # Refused for a device that knows no discard.
        with contextlib.suppress(OSError):
            utils.fwrite(f'{path}/attrib/{attribute}', '1')


def _remove_backstore(path: str) -> None:
    """Release the device. LIO refuses while any logical unit leads here."""
    os.rmdir(path)
    # Another volume may share the number.
    with contextlib.suppress(OSError):
        os.rmdir(os.path.dirname(path))


# ---- An initiator's ACL -------------------------------------------------------------------------


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


def _converge_acl(acl: rtslib_target.NodeACL, found: lio_tree.Acl, granted: Grant) -> None:
    """Bring an existing ACL to the desired state; its session goes on."""
    if not found.mapped:
        _unmap(acl)
        _map(acl, granted.read_only)
    elif found.read_only != granted.read_only:
        _set_mode(acl, granted.read_only)
    if (not found.requires_chap or found.account != granted.account
            or acl.chap_password != granted.password
            or found.mutual_account != granted.mutual_account
            or acl.chap_mutual_password != granted.mutual_password):
        _identify(acl, granted)


def _map(acl: rtslib_target.NodeACL, read_only: bool) -> None:
    """Map an ACL to the logical unit. rtslib would make it writable where it cannot protect it.

    An attribute of the portal group protects it from the first moment.
    """
    path = f'{acl.path}/{lio_tree.UNIT}'
    os.mkdir(path)
    os.symlink(f'{acl.parent_tpg.path}/lun/{lio_tree.UNIT}', f'{path}/unit')
    _set_mode(acl, read_only)


def _unmap(acl: rtslib_target.NodeACL) -> None:
    """Remove an ACL's mappings."""
    for name in lio_tree.names(acl.path):
        if name.startswith('lun_'):
            path = f'{acl.path}/{name}'
            with os.scandir(path) as inside:
                links = [found.path for found in inside if found.is_symlink()]
            for link in links:
                os.unlink(link)
            os.rmdir(path)


def _set_mode(acl: rtslib_target.NodeACL, read_only: bool) -> None:
    """Whether writes are refused, from the next command on."""
    utils.fwrite(f'{acl.path}/{lio_tree.UNIT}/write_protect', int(read_only))


def _identify(acl: rtslib_target.NodeACL, granted: Grant) -> None:
    """Set the credentials; the initiator's password last, as no login succeeds without it."""
    with contextlib.suppress(OSError):
        # Only later kernels have this attribute of an ACL: inherit it from the group.
        utils.fwrite(f'{acl.path}/attrib/authentication', '-1')
    acl.chap_mutual_userid = granted.mutual_account
    acl.chap_mutual_password = granted.mutual_password
    acl.chap_userid = granted.account
    failpoints.point('privileged.lio.after_account')
    acl.chap_password = granted.password


# ---- Look-ups, checks and errors ----------------------------------------------------------------


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
    """A name of ours: privileged code touches no other."""
    if not _OURS.fullmatch(name):
        raise errors.BackendRefused(reason=f'{name!r} is not the name of a target of the service')
    return name


def _serial(name: str) -> str:
    """The serial number that initiators see: the volume's id."""
    return name[-36:]


@contextlib.contextmanager
def _act(name: str) -> Iterator[None]:
    """One act per volume at a time, across threads and daemons. An unforeseen failure is
    uncertain: part of the act may have happened.
    """
    try:
        with lio_reservations.alone(_checked(name)):
            yield
    except _FAILURES as exc:
        raise errors.BackendUncertain(reason=f'the state of target {name} in LIO is unknown: '
                                             f'{exc}') from exc


def _need_lio(kind: type[errors.BlockattachError]) -> None:
    """Check before rtslib does, which would run a shell.

    :raises kind: LIO is not there; the text says what to do
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
    """LIO itself accepts any address, also one that no host can reach."""
    address = portal.rpartition(':')[0].strip('[]')
    family = socket.AF_INET6 if ':' in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((address, 0))
    except OSError as exc:
        raise errors.ConfigurationError(
            reason=f'cannot use {address} as a portal: {exc.strerror}; set target_ip_address and '
                   f'target_secondary_ip_addresses to addresses of this host') from exc


def _cure(failure: Exception, wanted: Export) -> str:
    """What went wrong and what to do. rtslib wraps the kernel's error."""
    cause = failure if isinstance(failure, OSError) else failure.__context__
    number = cause.errno if isinstance(cause, OSError) else None
    return {
        errno.EBUSY: f'{wanted.device} is in use on this host; unmount the device, or stop the '
                     f'program or the target that uses the device',
        errno.EADDRINUSE: f'another program listens on {" or ".join(wanted.portals)}; stop the '
                          f'program, or set another target_port',
    }.get(number or 0, str(failure))
