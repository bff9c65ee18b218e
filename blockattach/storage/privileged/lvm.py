"""What is done to one volume group, as root: a function for each act, and nothing else.

An unprivileged caller may ask for these acts, so each checks its arguments: it changes only
logical volumes whose names are ours (`NAMES`), or makes them ours (`adopt`), runs only ``lvm``,
and reads its configuration only from a folder that no other user may write to.

What goes wrong crosses the border between processes as an exception that carries plain values.
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
"""The LVM tag of every logical volume and thin pool that is ours."""

_UUID = '[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}'
NAMES = re.compile(rf'(volume|_snapshot|_unfinished|_source|deleted)-{_UUID}(-[0-9a-f]{{8}})?')
"""The names of what we make: nothing else is ever changed."""

_LVM_NAME = re.compile(r'[A-Za-z0-9+_.][A-Za-z0-9+_.-]{0,126}')
_PIECE = 1024 ** 2
_GRACE_SECONDS = 5.0
_REPORT = ('--reportformat', 'json', '--units', 'b', '--nosuffix', '--binary')
# A full report has parts that nobody asked for; one field of each is enough.
_CONTENT = (
    '--configreport', 'vg', '-o', 'vg_size,vg_free,vg_tags,vg_missing_pv_count',
    '--configreport', 'lv', '-o',
    'lv_name,lv_path,lv_size,lv_attr,lv_layout,lv_tags,lv_active,lv_device_open,lv_health_status,'
    'origin,pool_lv,data_percent,metadata_percent',
    '--configreport', 'pv', '-o', 'pv_name', '--configreport', 'pvseg', '-o', 'pvseg_start',
    '--configreport', 'seg', '-o', 'seg_start')


class CommandFailed(Exception):
    """It ended by itself with another code than 0; ``args``: the command, its code, what it says.
    """


class CommandMissing(Exception):
    """There is no such program, or it cannot be run: nothing happened; ``args``: it, and why."""


class CommandHung(Exception):
    """It had not ended when its time was up, and was killed: what it did is not known; ``args``:
    the command, and the seconds.
    """


class Site(NamedTuple):
    """Where to act, and how long a command may take."""

    group: str
    conf_file: str
    seconds: float


# ---- What there is ------------------------------------------------------------------------------


@context.lvm.entrypoint
def content(site: Site) -> dict[str, list[dict[str, str]]]:
    """The volume group (``vg``) and all its logical volumes (``lv``), others' too, at one moment.

    Rows by LVM's names of their fields; sizes in bytes.
    """
    site = _checked(site)
    output = _reported(site, 'fullreport', *_CONTENT, site.group)
    return {'vg': output['vg'], 'lv': output['lv']}


@context.lvm.entrypoint
def physical_volumes(site: Site) -> list[dict[str, str]]:
    """The disks that LVM knows as its own on this host, with the group of each."""
    return _reported(_checked(site), 'pvs', '-o', 'pv_name,vg_name')['pv']


@context.lvm.entrypoint
def scanning(site: Site) -> dict[str, Any]:
    """What LVM scans: its ``global_filter``, whether it scans logical volumes, and whether a file
    lists the devices.
    """
    site = _checked(site)
    output = _lvm(site, 'lvmconfig', '--typeconfig', 'full', 'devices/global_filter',
                  'devices/scan_lvs', 'devices/use_devicesfile', 'devices/devicesfile')
    found = dict(line.split('=', 1) for line in output.splitlines())
    folder = os.path.dirname(site.conf_file) or os.environ.get('LVM_SYSTEM_DIR') or '/etc/lvm'
    devices = os.path.join(folder, 'devices', json.loads(found['devicesfile']))
    return {'global_filter': json.loads(found['global_filter']),
            'scan_lvs': found['scan_lvs'] == '1',
            'devices_file': found['use_devicesfile'] == '1' and os.path.exists(devices)}


# ---- What is changed ----------------------------------------------------------------------------


@context.lvm.entrypoint
def create_thin(site: Site, pool: str, name: str, size: int) -> None:
    """Make a thin volume of ``size`` bytes in a pool."""
    site = _checked(site, name)
    _lvm(site, 'lvcreate', '--yes', '--type', 'thin', '--thinpool', _name(pool),
         '--virtualsize', f'{int(size)}b', *_named(name), site.group)


@context.lvm.entrypoint
def create_thick(site: Site, name: str, size: int) -> None:
    """Make a volume of ``size`` bytes that takes its room at once."""
    site = _checked(site, name)
    _lvm(site, 'lvcreate', '--yes', '--type', 'linear', '--size', f'{int(size)}b',
         *_named(name), site.group)


@context.lvm.entrypoint
def snapshot_thin(site: Site, origin: str, name: str) -> None:
    """Make a thin volume that shares its blocks with ``origin``, and is active from then on."""
    site = _checked(site, origin, name)
    _lvm(site, 'lvcreate', '--yes', '--snapshot', '--setactivationskip', 'n', *_named(name),
         f'{site.group}/{origin}')


@context.lvm.entrypoint
def snapshot_thick(site: Site, origin: str, name: str, room: int) -> None:
    """Make a snapshot that keeps what is overwritten, in at most ``room`` bytes.

    LVM takes less where less can hold all of the origin.
    """
    site = _checked(site, origin, name)
    _lvm(site, 'lvcreate', '--yes', '--snapshot', '--size', f'{int(room)}b', *_named(name),
         f'{site.group}/{origin}')


@context.lvm.entrypoint
def split_snapshot(site: Site, name: str) -> None:
    """Part a thick snapshot from its origin: what is left of it is a plain volume."""
    site = _checked(site, name)
    _lvm(site, 'lvconvert', '--yes', '--splitsnapshot', f'{site.group}/{name}')


@context.lvm.entrypoint
def extend(site: Site, name: str, size: int) -> None:
    """Make a volume ``size`` bytes large."""
    site = _checked(site, name)
    _lvm(site, 'lvextend', '--size', f'{int(size)}b', f'{site.group}/{name}')


@context.lvm.entrypoint
def cut(site: Site, name: str, size: int) -> None:
    """Shrink a volume that is deleted or unfinished to ``size`` bytes."""
    site = _checked(site, name)
    if not name.startswith('_unfinished-'):
        _only_deleted(name)
    # Without LVM's own back-up of each step: a wipe makes hundreds of them.
    _lvm(site, 'lvreduce', '--force', '--yes', '--autobackup', 'n', '--size', f'{int(size)}b',
         f'{site.group}/{name}')


@context.lvm.entrypoint
def rename(site: Site, name: str, new_name: str) -> None:
    """Rename a volume; its use continues."""
    site = _checked(site, name, new_name)
    _lvm(site, 'lvrename', site.group, name, new_name)


@context.lvm.entrypoint
def adopt(site: Site, name: str, new_name: str) -> None:
    """Give any logical volume of the group our tag and a name of ours; its use continues.

    Only this makes what others made ours.
    """
    site = _checked(site, new_name)
    _lvm(site, 'lvchange', '--addtag', TAG, f'{site.group}/{_name(name)}')
    _lvm(site, 'lvrename', site.group, name, new_name)


@context.lvm.entrypoint
def activate(site: Site, name: str) -> None:
    """Let the volume have a device, also one that is left out when all are activated."""
    site = _checked(site, name)
    _lvm(site, 'lvchange', '--activate', 'y', '--ignoreactivationskip', f'{site.group}/{name}')


@context.lvm.entrypoint
def deactivate(site: Site, name: str) -> None:
    """Take the volume's device away; LVM refuses while anyone holds it."""
    site = _checked(site, name)
    _lvm(site, 'lvchange', '--activate', 'n', f'{site.group}/{name}')


@context.lvm.entrypoint
def remove(site: Site, name: str) -> None:
    """Remove a volume that is ours and has no thick snapshots, which LVM would remove too.

    LVM refuses while anyone holds it.
    """
    site = _checked(site, name)
    output = _lvm(site, 'lvremove', '--yes', '--select',
                  f'lv_tags={TAG} && lv_role!=thickorigin', f'{site.group}/{name}')
    if 'removed' not in output:
        raise ValueError(f'{site.group}/{name} no longer carries the tag {TAG} or has thick '
                         f'snapshots, and was not removed')


# ---- Bytes --------------------------------------------------------------------------------------


@context.lvm.entrypoint
def zero(site: Site, name: str, offset: int, length: int) -> None:
    """Overwrite a part of a deleted volume with zeros, down to the disk."""
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
    """Make a part of a volume equal to the same part of another: writes only what differs."""
    site = _checked(site, source, name)
    paths = _paths(site, source, name)
    original = os.open(paths[source], os.O_RDONLY | os.O_CLOEXEC)
    file = os.open(paths[name], os.O_RDWR | os.O_CLOEXEC)
    wanted, present = bytearray(_PIECE), bytearray(_PIECE)
    try:
        for start in range(offset, offset + length, _PIECE):
            size = min(_PIECE, offset + length - start)
            del wanted[size:], present[size:]
            _read(original, wanted, start)
            _read(file, present, start)
            if wanted != present:
                _write(file, wanted, start)
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
    """Write it to the disk, and drop it from the page cache."""
    os.fdatasync(file)
    os.posix_fadvise(file, offset, length, os.POSIX_FADV_DONTNEED)


def _paths(site: Site, *names: str) -> dict[str, str]:
    """The devices of our volumes, as LVM reports them."""
    output = _reported(site, 'lvs', '-o', 'lv_name,lv_path', '--select', f'lv_tags={TAG}',
                       *(f'{site.group}/{name}' for name in names))
    found = {row['lv_name']: row['lv_path'] for row in output['lv']}
    for name in names:
        if name not in found:
            raise ValueError(f'{site.group}/{name} no longer carries the tag {TAG}')
    return found


# ---- LVM ----------------------------------------------------------------------------------------


def _reported(site: Site, verb: str, *words: str) -> dict[str, list[dict[str, str]]]:
    """The rows of each kind that a report has."""
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
    """What a program says on standard output: run to its end or to its deadline, never by a shell,
    and with no terminal.

    :param environment: beside PATH, everything that it sees of ours
    :raises CommandFailed, CommandMissing, CommandHung: as the classes say
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
    """End it and its children. One that is blocked in the kernel ends when that call does."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=_GRACE_SECONDS)


def _named(name: str) -> Sequence[str]:
    """Name and mark come in one step, so that nothing of ours is ever without its mark."""
    return ('--name', name, '--addtag', TAG)


def _checked(site: Site, *names: str) -> Site:
    """The site again, as its class: the border between processes makes a plain tuple of it."""
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
    """LVM's configuration names programs that it runs: nobody but root may have written it."""
    found = path.resolve()
    if not path.is_absolute() or found.name != 'lvm.conf' or not found.is_file():
        raise ValueError(f'{path} is not the absolute path of an lvm.conf file')
    for part in (found, *found.parents):
        facts = part.stat()
        others = facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not facts.st_mode & stat.S_ISVTX
        if others or facts.st_uid not in (0, os.geteuid()):
            raise ValueError(f'{path} is writable by users other than root, at {part}')
    return found
