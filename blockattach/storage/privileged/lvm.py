"""Privileged calls of the LVM stores, with one function for each command on a volume group.

The caller is an unprivileged process, so each function checks its arguments. The functions change
only logical volumes whose names belong to this service (`NAMES`), or that `adopt` takes over. They
run only ``lvm``, and read the LVM configuration only from a folder that no user other than root
can write to.

Errors cross the process boundary as exceptions that carry plain values.
"""
import contextlib
import errno
import json
import os
import pathlib
import re
import signal
import stat
import subprocess
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from blockattach.storage.privileged import context

TAG = 'blockattach'
"""LVM tag of all logical volumes and thin pools of this service."""

_UUID = '[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}'
NAMES = re.compile(rf'(volume|_snapshot|_unfinished|_source|deleted)-{_UUID}(-[0-9a-f]{{8}})?')
"""Names of the logical volumes that this service creates. Only `adopt` changes a logical volume of
any other name."""

_LVM_NAME = re.compile(r'[A-Za-z0-9+_.][A-Za-z0-9+_.-]{0,126}')
_PIECE = 1024 ** 2
_GRACE_SECONDS = 5.0
_REPORT = ('--reportformat', 'json', '--units', 'b', '--nosuffix', '--binary')
# A full report always has five parts. The parts that are not needed are reduced to one field.
_CONTENT = (
    '--configreport', 'vg', '-o', 'vg_size,vg_free,vg_tags,vg_missing_pv_count',
    '--configreport', 'lv', '-o',
    'lv_name,lv_path,lv_size,lv_attr,lv_layout,lv_tags,lv_active,lv_device_open,lv_health_status,'
    'origin,pool_lv,data_percent,metadata_percent',
    '--configreport', 'pv', '-o', 'pv_name', '--configreport', 'pvseg', '-o', 'pvseg_start',
    '--configreport', 'seg', '-o', 'seg_start')


class CommandFailed(Exception):
    """Error of a command that ended with a nonzero exit status.

    :ivar args: command, exit status, error output
    """


class CommandMissing(Exception):
    """Error of a program that is missing or cannot be started. Nothing was changed.

    :ivar args: program, reason
    """


class CommandHung(Exception):
    """Error of a command that exceeded its timeout and was killed. Its effect is unknown.

    :ivar args: command, timeout in seconds
    """


class Site(NamedTuple):
    """Volume group to act on, and the settings of its commands.

    :ivar group: name of the volume group
    :ivar conf_file: path of the ``lvm.conf`` to use; empty for that of the system
    :ivar seconds: timeout of each command in seconds
    """

    group: str
    conf_file: str
    seconds: float


# ---- Reports ------------------------------------------------------------------------------------


@context.lvm.entrypoint
def content(site: Site) -> dict[str, list[dict[str, str]]]:
    """Return the volume group (``vg``) and all its logical volumes (``lv``) at one moment.

    Logical volumes of other programs are included. The keys of a row are the names that LVM gives
    its fields. Sizes are in bytes.
    """
    site = _checked(site)
    output = _reported(site, 'fullreport', *_CONTENT, site.group)
    return {'vg': output['vg'], 'lv': output['lv']}


@context.lvm.entrypoint
def physical_volumes(site: Site) -> list[dict[str, str]]:
    """Return all physical volumes of this host, with the volume group of each."""
    return _reported(_checked(site), 'pvs', '-o', 'pv_name,vg_name')['pv']


@context.lvm.entrypoint
def scanning(site: Site) -> dict[str, Any]:
    """Return the settings that determine which devices LVM scans.

    :returns: ``global_filter``, the list of its patterns; ``scan_lvs``, True if logical volumes
        are scanned; ``devices_file``, True if only devices listed in a file are scanned
    """
    site = _checked(site)
    output = _lvm(site, 'lvmconfig', '--typeconfig', 'full', 'devices/global_filter',
                  'devices/scan_lvs', 'devices/use_devicesfile', 'devices/devicesfile')
    settings = dict(line.split('=', 1) for line in output.splitlines())
    folder = os.path.dirname(site.conf_file) or os.environ.get('LVM_SYSTEM_DIR') or '/etc/lvm'
    devices = os.path.join(folder, 'devices', json.loads(settings['devicesfile']))
    return {'global_filter': json.loads(settings['global_filter']),
            'scan_lvs': settings['scan_lvs'] == '1',
            'devices_file': settings['use_devicesfile'] == '1' and os.path.exists(devices)}


# ---- Changes of logical volumes -----------------------------------------------------------------


@context.lvm.entrypoint
def create_thin(site: Site, pool: str, name: str, size: int) -> None:
    """Create a thin volume of ``size`` bytes in a thin pool."""
    site = _checked(site, name)
    _lvm(site, 'lvcreate', '--yes', '--type', 'thin', '--thinpool', _name(pool),
         '--virtualsize', f'{int(size)}b', *_named(name), site.group)


@context.lvm.entrypoint
def create_thick(site: Site, name: str, size: int) -> None:
    """Create a thick volume of ``size`` bytes, which allocates all its space at once."""
    site = _checked(site, name)
    _lvm(site, 'lvcreate', '--yes', '--type', 'linear', '--size', f'{int(size)}b',
         *_named(name), site.group)


@context.lvm.entrypoint
def snapshot_thin(site: Site, origin: str, name: str) -> None:
    """Create a thin snapshot of ``origin`` and activate the snapshot."""
    site = _checked(site, origin, name)
    _lvm(site, 'lvcreate', '--yes', '--snapshot', '--setactivationskip', 'n', *_named(name),
         f'{site.group}/{origin}')


@context.lvm.entrypoint
def snapshot_thick(site: Site, origin: str, name: str, room: int) -> None:
    """Create a thick snapshot of ``origin`` with at most ``room`` bytes of space.

    The space keeps the original data of blocks that are overwritten in the origin. LVM allocates
    less if less is enough for all blocks of the origin.
    """
    site = _checked(site, origin, name)
    _lvm(site, 'lvcreate', '--yes', '--snapshot', '--size', f'{int(room)}b', *_named(name),
         f'{site.group}/{origin}')


@context.lvm.entrypoint
def split_snapshot(site: Site, name: str) -> None:
    """Split a thick snapshot from its origin. The space of the snapshot becomes a plain volume."""
    site = _checked(site, name)
    _lvm(site, 'lvconvert', '--yes', '--splitsnapshot', f'{site.group}/{name}')


@context.lvm.entrypoint
def extend(site: Site, name: str, size: int) -> None:
    """Extend a volume to ``size`` bytes."""
    site = _checked(site, name)
    _lvm(site, 'lvextend', '--size', f'{int(size)}b', f'{site.group}/{name}')


@context.lvm.entrypoint
def cut(site: Site, name: str, size: int) -> None:
    """Shrink a deleted or unfinished volume to ``size`` bytes.

    :raises ValueError: if the volume is neither deleted nor unfinished
    """
    site = _checked(site, name)
    if not name.startswith('_unfinished-'):
        _only_deleted(name)
    # LVM's backup of the metadata is disabled, because a wipe shrinks a volume hundreds of times.
    _lvm(site, 'lvreduce', '--force', '--yes', '--autobackup', 'n', '--size', f'{int(size)}b',
         f'{site.group}/{name}')


@context.lvm.entrypoint
def rename(site: Site, name: str, new_name: str) -> None:
    """Rename a volume, which may be in use."""
    site = _checked(site, name, new_name)
    _lvm(site, 'lvrename', site.group, name, new_name)


@context.lvm.entrypoint
def adopt(site: Site, name: str, new_name: str) -> None:
    """Add the tag of this service to a foreign logical volume, and rename the volume.

    The logical volume may be in use. No other function changes foreign logical volumes.

    :param name: name of any logical volume of the volume group
    :param new_name: name that belongs to this service
    """
    site = _checked(site, new_name)
    # The tag comes first, so that no volume with a name of this service is ever without the tag.
    _lvm(site, 'lvchange', '--addtag', TAG, f'{site.group}/{_name(name)}')
    _lvm(site, 'lvrename', site.group, name, new_name)


@context.lvm.entrypoint
def activate(site: Site, name: str) -> None:
    """Activate a volume, even if its activation skip flag is set."""
    site = _checked(site, name)
    _lvm(site, 'lvchange', '--activate', 'y', '--ignoreactivationskip', f'{site.group}/{name}')


@context.lvm.entrypoint
def deactivate(site: Site, name: str) -> None:
    """Deactivate a volume.

    :raises CommandFailed: if the device of the volume is open
    """
    site = _checked(site, name)
    _lvm(site, 'lvchange', '--activate', 'n', f'{site.group}/{name}')


@context.lvm.entrypoint
def remove(site: Site, name: str) -> None:
    """Delete a volume of this service that has no thick snapshots.

    :raises ValueError: if the volume has no tag of this service, or has thick snapshots
    :raises CommandFailed: if the device of the volume is open
    """
    site = _checked(site, name)
    # LVM would delete the thick snapshots of a volume along with the volume. The command itself
    # excludes such volumes, because a check beforehand would race with the creation of a snapshot.
    output = _lvm(site, 'lvremove', '--yes', '--select',
                  f'lv_tags={TAG} && lv_role!=thickorigin', f'{site.group}/{name}')
    # lvremove succeeds when the selection matches no volume.
    if 'removed' not in output:
        raise ValueError(f'{site.group}/{name} no longer carries the tag {TAG} or has thick '
                         f'snapshots, and was not removed')


# ---- Data of volumes ----------------------------------------------------------------------------


@context.lvm.entrypoint
def zero(site: Site, name: str, offset: int, length: int) -> None:
    """Overwrite a part of a deleted volume with zeros, and flush the zeros to the disk.

    :param offset: start of the part in bytes
    :param length: length of the part in bytes
    """
    site = _checked(site, name)
    _only_deleted(name)
    piece = bytes(_PIECE)
    file = os.open(_paths(site, name)[name], os.O_WRONLY | os.O_CLOEXEC)
    try:
        for start in range(offset, offset + length, _PIECE):
            _write(file, piece[:offset + length - start], start)
        _flush(file, offset, length)
    finally:
        os.close(file)


@context.lvm.entrypoint
def copy(site: Site, source: str, name: str, offset: int, length: int) -> None:
    """Copy a part of a volume to the same offset of another volume, and flush it to the disk.

    Only the pieces that differ between the two volumes are written.

    :param source: name of the volume to read
    :param name: name of the volume to write
    :param offset: start of the part in bytes
    :param length: length of the part in bytes
    """
    site = _checked(site, source, name)
    paths = _paths(site, source, name)
    original = os.open(paths[source], os.O_RDONLY | os.O_CLOEXEC)
    file = os.open(paths[name], os.O_RDWR | os.O_CLOEXEC)
    expected, present = bytearray(_PIECE), bytearray(_PIECE)
    try:
        for start in range(offset, offset + length, _PIECE):
            size = min(_PIECE, offset + length - start)
            del expected[size:], present[size:]
            _read(original, expected, start)
            _read(file, present, start)
            if expected != present:
                _write(file, expected, start)
        _flush(file, offset, length)
        os.posix_fadvise(original, offset, length, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(original)
        os.close(file)


def _read(file: int, piece: bytearray, offset: int) -> None:
    done = 0
    while done < len(piece):
        count = os.preadv(file, [memoryview(piece)[done:]], offset + done)
        if not count:
            raise OSError(errno.EIO, f'the device ends at byte {offset + done}')
        done += count


def _write(file: int, piece: bytes | bytearray, offset: int) -> None:
    done = 0
    while done < len(piece):
        done += os.pwrite(file, memoryview(piece)[done:], offset + done)


def _flush(file: int, offset: int, length: int) -> None:
    """Flush a range of a device to the disk, and drop the range from the page cache."""
    os.fdatasync(file)
    os.posix_fadvise(file, offset, length, os.POSIX_FADV_DONTNEED)


def _paths(site: Site, *names: str) -> dict[str, str]:
    """Return the device paths of the named volumes, by name.

    :raises ValueError: if one of the volumes does not have the tag of this service
    """
    output = _reported(site, 'lvs', '-o', 'lv_name,lv_path', '--select', f'lv_tags={TAG}',
                       *(f'{site.group}/{name}' for name in names))
    paths = {row['lv_name']: row['lv_path'] for row in output['lv']}
    for name in names:
        if name not in paths:
            raise ValueError(f'{site.group}/{name} no longer carries the tag {TAG}')
    return paths


# ---- LVM commands -------------------------------------------------------------------------------


def _reported(site: Site, verb: str, *words: str) -> dict[str, list[dict[str, str]]]:
    [output] = json.loads(_lvm(site, verb, *_REPORT, *words))['report']
    return dict(output)


def _lvm(site: Site, verb: str, *words: str) -> str:
    environment = {'LVM_SUPPRESS_FD_WARNINGS': '1'}
    if site.conf_file:
        environment['LVM_SYSTEM_DIR'] = os.path.dirname(site.conf_file)
    elif 'LVM_SYSTEM_DIR' in os.environ:
        environment['LVM_SYSTEM_DIR'] = os.environ['LVM_SYSTEM_DIR']
    return run(('lvm', verb, *words), site.seconds, environment)


def run(words: Sequence[str], seconds: float, environment: Mapping[str, str]) -> str:
    """Run a program until it ends or exceeds its timeout, and return its standard output.

    The program is run without a shell and without a terminal.

    :param words: program and arguments
    :param seconds: timeout in seconds
    :param environment: environment of the program in addition to PATH and LC_ALL
    :raises CommandFailed, CommandMissing, CommandHung: as described by the classes
    """
    cleaned = {'PATH': os.environ.get('PATH', os.defpath), 'LC_ALL': 'C', **environment}
    try:
        process = subprocess.Popen(
            words, env=cleaned, cwd='/', stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, errors='replace', start_new_session=True)
    except OSError as exc:
        raise CommandMissing(words[0], exc.strerror or str(exc)) from None
    command = ' '.join(words[:2])
    try:
        output, complaint = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        _kill(process)
        raise CommandHung(command, seconds) from None
    if process.returncode:
        raise CommandFailed(command, process.returncode, complaint.strip())
    return output


def _kill(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        # The program leads a session of its own, so that its children end with it.
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        # A process that is blocked in the kernel ends only when its system call returns.
        process.communicate(timeout=_GRACE_SECONDS)


def _named(name: str) -> Sequence[str]:
    # The tag is set by the command that creates the volume, so that no volume of this service is
    # ever without the tag.
    return ('--name', name, '--addtag', TAG)


def _checked(site: Site, *names: str) -> Site:
    """Check the site and the names of logical volumes, and return the site.

    In the returned site, ``conf_file`` has no symbolic links.

    :raises ValueError: if a name does not belong to this service, or users other than root can
        write to ``conf_file``
    """
    # Between the processes, the site is sent as a plain tuple.
    site = Site(*site)
    _name(site.group)
    for name in names:
        if not NAMES.fullmatch(name):
            raise ValueError(f'{name!r} is not the name of a logical volume of the service')
    if site.conf_file:
        site = site._replace(conf_file=str(_trusted(pathlib.Path(site.conf_file))))
    return site


def _name(name: str) -> str:
    if not _LVM_NAME.fullmatch(name):
        raise ValueError(f'{name!r} is not a valid LVM name')
    return name


def _only_deleted(name: str) -> None:
    if not name.startswith('deleted-'):
        raise ValueError(f'{name} is not the name of a deleted volume')


def _trusted(path: pathlib.Path) -> pathlib.Path:
    """Return the path of an lvm.conf to which only root can write, without symbolic links.

    :raises ValueError: if the path is not that of an lvm.conf, or users other than root can write
        to the file
    """
    resolved = path.resolve()
    if not path.is_absolute() or resolved.name != 'lvm.conf' or not resolved.is_file():
        raise ValueError(f'{path} is not the absolute path of an lvm.conf file')
    # The configuration of LVM names programs that LVM runs as root. A user who can write to a
    # parent directory can replace the file.
    for part in (resolved, *resolved.parents):
        status = part.stat()
        is_shared = (status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
                     and not status.st_mode & stat.S_ISVTX)
        if is_shared or status.st_uid not in (0, os.geteuid()):
            raise ValueError(f'{path} is writable by users other than root, at {part}')
    return resolved
