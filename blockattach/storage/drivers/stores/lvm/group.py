"""LVM commands on a volume group, names of its logical volumes, and a check of scanned devices.

Error messages of LVM are translated into the errors of the driver contract. A known message shows
that the command had no effect, and what the operator must do. The patterns match the messages of
LVM 2.03 under ``LC_ALL=C``. An unknown message is translated into `errors.BackendUncertain`,
unless the exit status shows that LVM did not accept the command line.

LVM must not scan iSCSI disks on a storage host. When the session of a scanned disk dies, every LVM
command hangs, and LVM would also show volume groups that guests have created inside their volumes.
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
"""Prefixes of the names of unfinished and deleted logical volumes."""

# Exit status for an invalid command line, which LVM rejects before it changes anything.
_NOT_UNDERSTOOD = 3

# Pattern of the message, class of the error, advice for the operator.
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

# Names of disks that may appear at any time and that LVM must not scan: an iSCSI disk and a
# multipath device. Each entry has all the names of one disk.
_TO_COME = (
    ('/dev/sdzz', '/dev/disk/by-path/ip-192.0.2.1:3260-iscsi-iqn.2010-10.org.openstack:'
                  'volume-00000000-0000-0000-0000-000000000000-lun-0'),
    ('/dev/dm-9999', '/dev/mapper/mpathzz'),
)


@dataclasses.dataclass(frozen=True, slots=True)
class LogicalVolume:
    """Logical volume as reported by LVM.

    :ivar size: size in bytes
    :ivar ours: True if the logical volume has the tag of this service
    :ivar open: True if its device is open
    :ivar health: ``lv_health_status`` of LVM, empty if healthy
    :ivar origin: name of the logical volume from which a snapshot was created, or empty
    :ivar pool: name of its thin pool, or empty
    :ivar zeroes: True for a thin pool that zeroes new blocks
    :ivar data_percent: allocated part of a thin pool or volume, in percent
    """

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
    """Content of a volume group at one moment.

    :ivar size: size in bytes
    :ivar free: unallocated space in bytes
    :ivar missing: number of missing physical volumes
    :ivar volumes: logical volumes by name, including those without the tag of this service
    """

    size: int
    free: int
    tags: frozenset[str]
    missing: int
    volumes: Mapping[str, LogicalVolume]


class VolumeGroup:
    """Volume group on this host. Every method runs LVM commands, and nothing is cached."""

    def __init__(self, site: lvm.Site) -> None:
        self.name = site.group
        self._site = site

    def content(self) -> Content:
        """Return the current sizes, tags and logical volumes of the group."""
        report = self.do(lvm.content)
        [row] = report['vg']
        return Content(
            int(row['vg_size']), int(row['vg_free']), _tags(row['vg_tags']),
            int(row['vg_missing_pv_count']),
            {lv['lv_name']: _logical_volume(lv) for lv in report['lv']})

    def scanning_complaint(self) -> str | None:
        """Return the change of lvm.conf that prevents LVM from scanning the disks of guests.

        :returns: None if no change is necessary
        """
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
        """Call a privileged function for this group, and translate its errors.

        :param act: function of `blockattach.storage.privileged.lvm`
        :param size_gb: requested size in GiB, for the text of a BackendFull error
        :raises BackendFull, BackendRefused: if nothing was changed; the text says what to do
        :raises BackendUncertain: if something may have been changed
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
            # Privileged functions check their arguments before they change anything.
            raise errors.BackendRefused(reason=str(exc)) from exc
        except OSError as exc:
            if exc.errno in disks.MEANINGS:
                # The disk failed during a copy, not the helper.
                raise disks.error_of(exc, size_gb) from exc
            raise errors.BackendUncertain(
                reason=f'the privileged LVM helper failed: {exc}; see helper_command in '
                       f'[privsep_lvm]') from exc


def snapshot_name(snapshot: base.StoredSnapshot) -> str:
    """Return the name of the logical volume of a snapshot.

    The name begins with an underscore because LVM reserves names that begin with ``snapshot``.
    """
    return f'_{snapshot.name}'


def unfinished_name(volume: base.StoredVolume) -> str:
    """Return the name of the logical volume with the new content during a clone or revert."""
    return f'_unfinished-{_id(volume)}'


def source_name(volume: base.StoredVolume) -> str:
    """Return the name of the temporary snapshot from which a thick volume is copied."""
    return f'_source-{_id(volume)}'


def deleted_name(name: str) -> str:
    """Return a unique name for a deleted or replaced logical volume.

    The name must be unique because a volume may be deleted while an earlier logical volume of the
    same name is still being wiped.
    """
    return f'{DELETED}{name.partition("-")[2]}-{uuid.uuid4().hex[:8]}'


def replaced_by(name: str) -> str | None:
    """Return the name of the volume that may have replaced a logical volume during a revert.

    :returns: None if ``name`` is not a name that `deleted_name` returns
    """
    if not name.startswith(DELETED):
        return None
    return f'{VOLUME}{name.removeprefix(DELETED).rpartition("-")[0]}'


def is_replaced(name: str, volume: base.StoredVolume) -> bool:
    """Return True if `deleted_name` has returned ``name`` for a logical volume of ``volume``."""
    return name.startswith(f'{DELETED}{_id(volume)}-')


def _id(volume: base.StoredVolume) -> str:
    return volume.name.removeprefix(VOLUME)


def error_of(size_gb: float, command: str, code: int, complaint: str) -> errors.BackendError:
    """Return the error of the driver contract for a failed LVM command.

    :param size_gb: requested size in GiB, for the text of a BackendFull error
    :param code: exit status of the command
    :param complaint: error output of the command
    """
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
    """Return True if LVM scans a disk with the given names.

    The first pattern that matches a name accepts or rejects this name. The disk is scanned if any
    of its names is accepted, or if none of them is rejected.

    :param filters: patterns of ``global_filter``
    """
    decisions = {_decision(filters, name) for name in names}
    return 'a' in decisions or 'r' not in decisions


def _decision(filters: Sequence[str], name: str) -> str | None:
    for entry in filters:
        # An entry is a letter and a pattern between two delimiters of any kind: a|^/dev/sd|
        if re.search(entry[2:-1], name):
            return entry[0]
    return None


def _line(volume_group: str, physical_volumes: Iterable[Mapping[str, str]]) -> str:
    """Return a ``global_filter`` for lvm.conf that restricts LVM to the present physical volumes.

    iSCSI disks in other volume groups are excluded.
    """
    kept = sorted(row['pv_name'] for row in physical_volumes
                  if row['pv_name'].startswith('/dev/')
                  and (row['vg_name'] == volume_group or not _comes_over_iscsi(row['pv_name'])))
    # LVM applies the first pattern that matches, so that the last pattern rejects all other disks.
    patterns = [*(f'a|^{name}$|' for name in kept), 'r|.*|']
    return f'global_filter = [ {", ".join(json.dumps(pattern) for pattern in patterns)} ]'


def _comes_over_iscsi(device: str) -> bool:
    block = os.path.realpath(f'/sys/class/block/{os.path.basename(os.path.realpath(device))}')
    return re.search(r'/session\d+/', block) is not None
