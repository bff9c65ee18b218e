"""LIO, changed by rtslib: what the target driver asks for, done with rights, in plain values.

Everything here may be repeated. A volume is offered from its target's folder down, and taken away
up to it: whatever a crash leaves is found by the volume's name. An entry gets its mapping and its
mode first and its credential last; before that nobody logs in by it.

rtslib's root object is left alone (it runs a shell and moves LIO's database), and so is its making
of backstores (it remembers numbers that others may have taken, and looks through all).
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

from blockattach import errors
from blockattach import failpoints
from blockattach.privileged import context
from blockattach.privileged import lio_locks
from blockattach.privileged import lio_reservations
from blockattach.privileged import lio_tree

SECONDS = 40.0
"""How long the kernel may take for one act, less than a call over the bus may take."""

_OURS = re.compile(rf'iqn\.[a-z0-9.:-]+volume-({lio_tree.UUID})')
# As rtslib takes it; LIO compares names in lower case.
_NODE = re.compile(r'(?=.{1,223}$)(?:iqn\.\d{4}-[01]\d\.[a-z0-9:-]*\.[a-z0-9.:-]*'
                   r'|eui\.[0-9a-f]{16}|naa\.[125c-f][0-9a-f]{15})')
_DEVICE = re.compile(r'/[^,\s]+')
# A free number, to see whether LIO takes block devices.
_PROBE = 'iblock_1048575'

_FAILURES = (OSError, utils.RTSLibError)


@dataclasses.dataclass(frozen=True, slots=True)
class Offer:
    """A volume as it is to be offered. ``portals`` as LIO writes them: ``[::1]:3260``."""

    name: str
    device: str
    portals: list[str]


@dataclasses.dataclass(frozen=True, slots=True)
class Admission:
    """Who is to be let in, how, and what he must prove; by mutual CHAP, what is proved to him."""

    initiator: str
    read_only: bool
    account: str
    password: str = dataclasses.field(repr=False)
    mutual_account: str = ''
    mutual_password: str = dataclasses.field(default='', repr=False)


@context.lio.entrypoint_with_timeout(SECONDS)
def prepare(portals: list[str]) -> None:
    """See to it that volumes can be offered at these portals.

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
            reason=f'LIO cannot offer block devices over iSCSI ({exc.strerror}): modprobe -a '
                   f'target_core_iblock iscsi_target_mod') from exc
    try:
        lio_reservations.make_folders()
    except OSError as exc:
        raise errors.ConfigurationError(
            reason=f'reservations would not survive a power loss: cannot make {exc.filename}: '
                   f'{exc.strerror}') from exc
    for portal in portals:
        _need_address(portal)


@context.lio.entrypoint_with_timeout(SECONDS)
def offer(wanted: Mapping[str, Any]) -> None:
    """Offer a volume, to nobody yet.

    :raises BackendRefused: it is not offered; nothing else was changed
    """
    made = Offer(**wanted)
    with _alone(made.name), _errors_translated(made.name):
        _offered(made)


@context.lio.entrypoint_with_timeout(SECONDS)
def grant(wanted: Mapping[str, Any], admission: Mapping[str, Any]) -> None:
    """Let one initiator in to a volume, in its mode; offers the volume too.

    :raises BackendRefused: nobody was let in by this
    """
    made, who = Offer(**wanted), Admission(**admission)
    if not _NODE.fullmatch(who.initiator):
        raise errors.BackendRefused(
            reason=f'{who.initiator!r} is not an initiator name that LIO takes: give the host one '
                   f'in lower case, without underscore (iqn.2026-01.org.example:host-1)')
    with _alone(made.name), _errors_translated(made.name):
        group = _offered(made)
        if who.read_only:
            _set_attributes(_store_of(made.name), lio_tree.READER_ATTRIBUTES)
        found = lio_tree.entry(made.name, who.initiator)
        if found is None:
            _make_entry(group, who)
        else:
            _put_right(rtslib_target.NodeACL(group, who.initiator, 'lookup'), found, who)


@context.lio.entrypoint_with_timeout(SECONDS)
def revoke(name: str, initiator: str) -> None:
    """Let one initiator in no longer: its sessions of this volume end, and no other's."""
    with _alone(name), _errors_translated(name):
        _need_lio(errors.BackendUncertain)
        if _NODE.fullmatch(initiator):
            path = lio_tree.entry_path(name, initiator)
            if os.path.isdir(path):
                entry = rtslib_target.NodeACL(_group(name), initiator, 'lookup')
                _unmap(entry)
                failpoints.point('privileged.lio.after_unmap')
                entry.delete()
            lio_reservations.forget(_serial(name), initiator)


@context.lio.entrypoint_with_timeout(SECONDS)
def withdraw(name: str) -> None:
    """Offer a volume no longer: every session of it ends, and its device is free."""
    with _alone(name), _errors_translated(name):
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
def offered(prefix: str, portals: list[str], mutual_account: str) -> list[dict[str, Any]]:
    """Every volume that is offered under a prefix, and whom it lets in.

    :param portals: where it should be offered
    :param mutual_account: what the target should prove to be, empty: nothing
    """
    _need_lio(errors.BackendUncertain)
    names = lio_tree.volumes(re.compile(rf'{re.escape(prefix)}volume-{lio_tree.UUID}'))
    return [{'name': name, 'grants': _grants(name, portals, mutual_account)} for name in names]


@context.lio.entrypoint_with_timeout(SECONDS)
def reservations(name: str) -> dict[str, Any] | None:
    """Who holds a registration or the reservation; None where the volume is not offered."""
    store = lio_tree.linked_backstore(_checked(name))
    return None if store is None else lio_reservations.held(store)


def _grants(name: str, portals: list[str], mutual_account: str) -> list[dict[str, Any]]:
    entries = lio_tree.entries(name)
    whole = bool(entries) and lio_tree.is_whole(name, portals)
    store = lio_tree.linked_backstore(name)
    whole = whole and store is not None and lio_tree.offers(
        store, lio_tree.read(f'{store}/udev_path') or '')
    readers_held = store is not None and any(entry.read_only for entry in entries) \
        and lio_tree.has_attributes(store, lio_tree.READER_ATTRIBUTES)
    return [{
        'initiator': entry.initiator, 'read_only': entry.read_only, 'account': entry.account,
        'sessions': int(entry.in_session),
        'intact': (whole and entry.mapped and entry.asks and bool(entry.account)
                   and entry.mutual_account == mutual_account
                   and (readers_held or not entry.read_only)),
    } for entry in entries]


# ---- A volume -----------------------------------------------------------------------------------


def _offered(wanted: Offer) -> rtslib_target.TPG:
    """The portal group of a volume, made or repaired where it is not as it should be."""
    _need_lio(errors.BackendRefused)
    store = lio_tree.linked_backstore(wanted.name)
    if (store is None or not lio_tree.is_whole(wanted.name, wanted.portals)
            or not lio_tree.offers(store, wanted.device)):
        _build(wanted)
    return _group(wanted.name)


def _build(wanted: Offer) -> None:
    """Make what is missing. What leads to other bytes is taken down first, whoever is in."""
    if not _DEVICE.fullmatch(wanted.device) or lio_tree.number_of(wanted.device) is None:
        raise errors.BackendRefused(
            reason=f'{wanted.device} is not a block device of this host: LIO offers no files '
                   f'(target = tgt does), and a logical volume must be active')
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
            # Who came in without an entry stays in by an open session.
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
        raise failure(reason=f'cannot offer {wanted.name}: {_cure(exc, wanted)}') from exc


def _leads_astray(wanted: Offer) -> bool:
    """Whether there is a logical unit that does not lead to the volume's device."""
    if not os.path.isdir(f'{lio_tree.group(wanted.name)}/lun/{lio_tree.UNIT}'):
        return False
    store = lio_tree.linked_backstore(wanted.name)
    return (store is None or os.path.basename(store) != wanted.name
            or not lio_tree.offers(store, wanted.device))


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


def _backstore(wanted: Offer) -> tcm.BlockStorageObject:
    """The volume's bytes as LIO sees them; what a crash left of it is made anew."""
    path = lio_tree.backstore(wanted.name)
    if not (lio_tree.read(f'{path}/enable') == '1' and lio_tree.offers(path, wanted.device)):
        try:
            _make_backstore(path, wanted)
        except FileExistsError:
            _remove_backstore(path)
            _make_backstore(path, wanted)
        except OSError as exc:
            left = lio_tree.backstores(wanted.name)
            if exc.errno != errno.EBUSY or not left:
                raise
            for other in left:
                _remove_backstore(other)
            _make_backstore(path, wanted)
    number = os.path.basename(os.path.dirname(path)).partition('_')[2]
    return tcm.BlockStorageObject(wanted.name, index=int(number))


def _make_backstore(path: str, wanted: Offer) -> None:
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
    """Let go of the device. LIO refuses while a logical unit leads here, of whomever."""
    os.rmdir(path)
    # Another volume may share the number.
    with contextlib.suppress(OSError):
        os.rmdir(os.path.dirname(path))


# ---- An initiator's entry -----------------------------------------------------------------------


def _make_entry(group: rtslib_target.TPG, who: Admission) -> None:
    try:
        entry = rtslib_target.NodeACL(group, who.initiator, 'create')
    except _FAILURES as exc:
        raise errors.BackendRefused(reason=f'cannot let in {who.initiator}: {exc}') from exc
    try:
        failpoints.point('privileged.lio.after_entry')
        _map(entry, who.read_only)
        failpoints.point('privileged.lio.after_mapping')
        _identify(entry, who)
    except _FAILURES as exc:
        with contextlib.suppress(*_FAILURES):
            entry.delete()
        kind = errors.BackendUncertain if entry.exists else errors.BackendRefused
        raise kind(reason=f'cannot let in {who.initiator}: {exc}') from exc


def _put_right(entry: rtslib_target.NodeACL, found: lio_tree.Entry, who: Admission) -> None:
    """Bring an entry that is there to what it should be; a session that it has goes on."""
    if not found.mapped:
        _unmap(entry)
        _map(entry, who.read_only)
    elif found.read_only != who.read_only:
        _set_mode(entry, who.read_only)
    if (not found.asks or found.account != who.account or entry.chap_password != who.password
            or found.mutual_account != who.mutual_account
            or entry.chap_mutual_password != who.mutual_password):
        _identify(entry, who)


def _map(entry: rtslib_target.NodeACL, read_only: bool) -> None:
    """Lead an entry to the logical unit. rtslib would make it writable where it cannot protect it.

    It is protected from the first moment, by an attribute of the portal group.
    """
    path = f'{entry.path}/{lio_tree.UNIT}'
    os.mkdir(path)
    os.symlink(f'{entry.parent_tpg.path}/lun/{lio_tree.UNIT}', f'{path}/unit')
    _set_mode(entry, read_only)


def _unmap(entry: rtslib_target.NodeACL) -> None:
    """Lead an entry nowhere."""
    for name in lio_tree.names(entry.path):
        if name.startswith('lun_'):
            path = f'{entry.path}/{name}'
            with os.scandir(path) as inside:
                links = [found.path for found in inside if found.is_symlink()]
            for link in links:
                os.unlink(link)
            os.rmdir(path)


def _set_mode(entry: rtslib_target.NodeACL, read_only: bool) -> None:
    """Whether writes are refused, from the next command on."""
    utils.fwrite(f'{entry.path}/{lio_tree.UNIT}/write_protect', int(read_only))


def _identify(entry: rtslib_target.NodeACL, who: Admission) -> None:
    """What must be proved; the initiator's password last, without which nobody gets in."""
    with contextlib.suppress(OSError):
        # An own answer of the entry's, which only later kernels have: as the group says.
        utils.fwrite(f'{entry.path}/attrib/authentication', '-1')
    entry.chap_mutual_userid = who.mutual_account
    entry.chap_mutual_password = who.mutual_password
    entry.chap_userid = who.account
    failpoints.point('privileged.lio.after_account')
    entry.chap_password = who.password


# ---- What is needed, and what is said -----------------------------------------------------------


def _target(name: str, mode: str = 'lookup') -> rtslib_target.Target:
    return rtslib_target.Target(rtslib_fabric.FabricModule('iscsi'), name, mode)


def _group(name: str) -> rtslib_target.TPG:
    return rtslib_target.TPG(_target(name), 1, 'lookup')


def _store_of(name: str) -> str:
    store = lio_tree.linked_backstore(name)
    if store is None:
        raise errors.BackendUncertain(reason=f'{name} was changed by another program meanwhile')
    return store


def _checked(name: str) -> str:
    """A name of ours: with rights, nothing else is touched."""
    if not _OURS.fullmatch(name):
        raise errors.BackendRefused(reason=f'{name!r} is not the name of a target of ours')
    return name


def _serial(name: str) -> str:
    """What the volume is called towards initiators: its id."""
    return name[-36:]


@contextlib.contextmanager
def _alone(name: str) -> Iterator[None]:
    """One act per volume at a time, whichever thread of which daemon it comes to."""
    with lio_locks.alone(_checked(name)):
        yield


@contextlib.contextmanager
def _errors_translated(name: str) -> Iterator[None]:
    """What nobody foresaw may have happened in part."""
    try:
        yield
    except _FAILURES as exc:
        raise errors.BackendUncertain(reason=f'cannot tell how far LIO came with {name}: '
                                             f'{exc}') from exc


def _need_lio(kind: type[errors.BlockattachError]) -> None:
    """Look before rtslib does, which would run a shell to help.

    :raises kind: LIO is not there; the text says what to do
    """
    if os.path.isdir(f'{lio_tree.root()}/core'):
        return
    mounts = lio_tree.read('/proc/self/mounts') or ''
    if ' configfs ' not in mounts:
        raise kind(reason='LIO cannot be reached, configfs is not mounted: mount -t configfs '
                          'configfs /sys/kernel/config')
    raise kind(reason='LIO is not loaded: modprobe -a target_core_mod target_core_iblock '
                      'iscsi_target_mod, and name them in a file of /etc/modules-load.d')


def _need_address(portal: str) -> None:
    """LIO itself listens on any address, and nobody ever comes."""
    address = portal.rpartition(':')[0].strip('[]')
    family = socket.AF_INET6 if ':' in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((address, 0))
    except OSError as exc:
        raise errors.ConfigurationError(
            reason=f'{address} cannot be a portal: {exc.strerror} (target_ip_address, '
                   f'target_secondary_ip_addresses: an address of this host each)') from exc


def _cure(failure: Exception, wanted: Offer) -> str:
    """What went wrong and what to do. rtslib wraps what the kernel said."""
    cause = failure if isinstance(failure, OSError) else failure.__context__
    number = cause.errno if isinstance(cause, OSError) else None
    return {
        errno.EBUSY: f'{wanted.device} is in use on this host: unmount it, or end the program or '
                     f'the target that holds it',
        errno.EADDRINUSE: f'another program listens at {" or ".join(wanted.portals)}: end it, or '
                          f'set another target_port',
    }.get(number or 0, str(failure))
