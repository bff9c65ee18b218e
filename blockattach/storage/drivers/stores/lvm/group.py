"""One volume group: its content, the names in it, acts on it with the errors of the contract, and
the devices that LVM scans on this host.

What LVM complains of is read: whether anything happened, and what an operator does about it. The
texts are those of LVM 2.03 under ``LC_ALL=C``. One that is not known proves nothing, so it is
uncertain.

A storage host that scans an iSCSI disk of its own hangs in every command when a session dies, and
shows volume groups that guests made inside their volumes.
"""
import dataclasses
import json
import os
import re
import uuid
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from oslo_privsep import daemon

from blockattach.platform import disks
from blockattach.platform import errors
from blockattach.storage.drivers import base
from blockattach.storage.privileged import lvm

VOLUME = 'volume-'
SNAPSHOT = '_snapshot-'
DELETED = 'deleted-'
PASSING = (DELETED, '_unfinished-', '_source-')
"""What names begin with that stand for something half made or deleted."""

# A command line that LVM does not understand is refused before anything is done.
_NOT_UNDERSTOOD = 3

# what it says, kind of the error, what helps
_KNOWN: tuple[tuple[str, type[errors.BackendRefused], str], ...] = (
    ('insufficient free space|insufficient suitable', errors.BackendFull,
     'add a disk to the volume group with vgextend'),
    ('reached threshold|out of (data|metadata) space', errors.BackendFull,
     'extend the thin pool with lvextend'),
    ('in use|used by another device', errors.BackendRefused,
     'stop the process that holds the volume open; see lsblk and fuser'),
    ('PVs are missing|partial LV', errors.BackendRefused,
     'reconnect the disk and run vgextend --restoremissing, or remove the disk with vgreduce '
     '--removemissing'),
    ('with system ID', errors.BackendRefused,
     'the volume group belongs to another host; use a volume group of this host'),
    ('volume group ".*" not found', errors.BackendRefused,
     'create the volume group with vgcreate; the service never creates one'),
    ('failed to find logical volume', errors.BackendRefused,
     'the logical volume does not exist'),
    ('target.* not detected|device-mapper driver|target support missing', errors.BackendRefused,
     'load the kernel modules dm-mod, dm-thin-pool and dm-snapshot'),
    ('permission denied|running as a non-root user', errors.BackendRefused,
     'run LVM commands as root; see helper_command in [privsep_lvm]'),
)

# Each entry is a disk as it may appear at any time, by all its names.
_TO_COME = (
    ('/dev/sdzz', '/dev/disk/by-path/ip-192.0.2.1:3260-iscsi-iqn.2010-10.org.openstack:'
                  'volume-00000000-0000-0000-0000-000000000000-lun-0'),
    ('/dev/dm-9999', '/dev/mapper/mpathzz'),
)


@dataclasses.dataclass(frozen=True, slots=True)
class LogicalVolume:
    """One logical volume. ``size`` in bytes; ``ours``: it carries our tag; ``open``: in use."""

    name: str
    path: str
    size: int
    ours: bool
    active: bool
    open: bool
    health: str
    origin: str
    pool: str
    is_pool: bool
    zeroes: bool
    data_percent: float
    metadata_percent: float


@dataclasses.dataclass(frozen=True, slots=True)
class Content:
    """A group at one moment, sizes in bytes; ``volumes`` by name, others' too.

    ``missing``: how many of its disks cannot be found.
    """

    size: int
    free: int
    tags: frozenset[str]
    missing: int
    volumes: Mapping[str, LogicalVolume]


class VolumeGroup:
    """A group by its name. What it is asked goes to LVM, each time."""

    def __init__(self, site: lvm.Site) -> None:
        self.name = site.group
        self._site = site

    def content(self) -> Content:
        """Its sizes, tags and logical volumes, read now."""
        report = self.do(lvm.content)
        [row] = report['vg']
        return Content(
            int(row['vg_size']), int(row['vg_free']), _tags(row['vg_tags']),
            int(row['vg_missing_pv_count']),
            {found['lv_name']: _logical_volume(found) for found in report['lv']})

    def scanning_complaint(self) -> str | None:
        """What must change in lvm.conf, with the lines for it, or None if it is safe."""
        scanning = self.do(lvm.scanning)
        if scanning['scan_lvs']:
            return ('LVM scans logical volumes and therefore the disks of guests; add this line '
                    'to the devices section of lvm.conf: scan_lvs = 0')
        if scanning['devices_file'] or not any(
                accepts(scanning['global_filter'], names) for names in _TO_COME):
            return None
        return (f'LVM scans every disk, including disks that this host exports or attaches over '
                f'iSCSI; add this line to the devices section of lvm.conf: '
                f'{_line(self.name, self.do(lvm.physical_volumes))}')

    def do(self, act: Callable[..., Any], *arguments: Any, size_gb: float = 0) -> Any:
        """Call a privileged function for this group.

        :param size_gb: the requested room, for the error where there is none
        :raises BackendFull, BackendRefused: nothing happened; the text says what helps
        :raises BackendUncertain: something may have
        """
        try:
            return act(self._site, *arguments)
        except lvm.CommandFailed as exc:
            raise error_of(size_gb, *exc.args) from exc
        except lvm.CommandMissing as exc:
            program, reason = exc.args
            raise errors.BackendRefused(
                reason=f'cannot run {program}: {reason}; install lvm2') from exc
        except lvm.CommandHung as exc:
            command, seconds = exc.args
            raise errors.BackendUncertain(
                reason=f'{command} did not finish within {seconds:g} seconds and was '
                       f'killed; look for an unresponsive disk (dmesg, pvs)') from exc
        except daemon.FailedToDropPrivileges as exc:
            raise errors.BackendRefused(
                reason=f'no privileges to run LVM commands: {exc}; see helper_command in '
                       f'[privsep_lvm]') from exc
        except ValueError as exc:
            raise errors.BackendRefused(reason=str(exc)) from exc
        except OSError as exc:
            if exc.errno in disks.MEANINGS:
                # An error of the disk during a copy.
                raise disks.error_of(exc, size_gb) from exc
            raise errors.BackendUncertain(
                reason=f'the privileged LVM helper failed: {exc}; see helper_command in '
                       f'[privsep_lvm]') from exc


def snapshot_name(snapshot: base.StoredSnapshot) -> str:
    """A name that begins with ``snapshot`` LVM would keep for itself."""
    return f'_{snapshot.name}'


def unfinished_name(volume: base.StoredVolume) -> str:
    """While it is made from another one."""
    return f'_unfinished-{_id(volume)}'


def source_name(volume: base.StoredVolume) -> str:
    """A snapshot that it is copied from."""
    return f'_source-{_id(volume)}'


def deleted_name(name: str) -> str:
    """A unique name: a volume may be deleted while a former one of its name is still wiped."""
    return f'{DELETED}{name.partition("-")[2]}-{uuid.uuid4().hex[:8]}'


def replaced_by(name: str) -> str | None:
    """Return the name of the volume that replaced a deleted one, or None for other names."""
    if not name.startswith(DELETED):
        return None
    return f'{VOLUME}{name.removeprefix(DELETED).rpartition("-")[0]}'


def is_replaced(name: str, volume: base.StoredVolume) -> bool:
    """Whether it was this volume once."""
    return name.startswith(f'{DELETED}{_id(volume)}-')


def _id(volume: base.StoredVolume) -> str:
    return volume.name.removeprefix(VOLUME)


def error_of(size_gb: float, command: str, code: int, complaint: str) -> errors.BackendError:
    """The error that a failed command is."""
    output = _sentence(complaint)
    for pattern, kind, cure in _KNOWN:
        if re.search(pattern, complaint, re.IGNORECASE):
            text = f'{command}: {output}; {cure}'
            if kind is errors.BackendFull:
                return errors.BackendFull(size_gb=f'{size_gb:g}', reason=text)
            return kind(reason=text)
    if code == _NOT_UNDERSTOOD:
        return errors.BackendRefused(
            reason=f'{command}: {output}; check that LVM is 2.03 or later')
    return errors.BackendUncertain(reason=f'{command} exited with status {code}: {output}')


def _sentence(complaint: str) -> str:
    """What it says in a line, without warnings."""
    lines = [line.strip().rstrip('.') for line in complaint.splitlines()]
    return ': '.join(dict.fromkeys(line for line in lines if not line.startswith('WARNING'))) or \
        complaint.strip()


def _logical_volume(row: Mapping[str, str]) -> LogicalVolume:
    return LogicalVolume(
        name=row['lv_name'], path=row['lv_path'], size=int(row['lv_size']),
        ours=lvm.TAG in _tags(row['lv_tags']), active=row['lv_active'] == 'active',
        open=row['lv_device_open'] == '1', health=row['lv_health_status'], origin=row['origin'],
        pool=row['pool_lv'], is_pool=row['lv_layout'] == 'thin,pool',
        zeroes=row['lv_attr'][7:8] == 'z', data_percent=float(row['data_percent'] or 0),
        metadata_percent=float(row['metadata_percent'] or 0))


def _tags(text: str) -> frozenset[str]:
    return frozenset(text.split(','))


def accepts(filters: Sequence[str], names: Iterable[str]) -> bool:
    """Whether LVM scans a disk that has these names.

    The first pattern that matches a name decides for this name; a disk is accepted by any of its
    names, else rejected by any, else accepted.
    """
    found = {_decision(filters, name) for name in names}
    return 'a' in found or 'r' not in found


def _decision(filters: Sequence[str], name: str) -> str | None:
    for entry in filters:
        # A letter, then the pattern between two signs of any kind: a|^/dev/sd|
        if re.search(entry[2:-1], name):
            return entry[0]
    return None


def _line(volume_group: str, physical_volumes: Iterable[Mapping[str, str]]) -> str:
    """The filter that keeps the disks that are LVM's now, and no other."""
    kept = sorted(row['pv_name'] for row in physical_volumes
                  if row['pv_name'].startswith('/dev/')
                  and (row['vg_name'] == volume_group or not _comes_over_iscsi(row['pv_name'])))
    patterns = [*(f'a|^{name}$|' for name in kept), 'r|.*|']
    return f'global_filter = [ {", ".join(json.dumps(pattern) for pattern in patterns)} ]'


def _comes_over_iscsi(device: str) -> bool:
    block = os.path.realpath(f'/sys/class/block/{os.path.basename(os.path.realpath(device))}')
    return re.search(r'/session\d+/', block) is not None
