"""One volume group: its content, the names in it, and acts on it with the errors of the contract.

What LVM complains of is read: whether anything happened, and what an operator does about it. The
texts are those of LVM 2.03 under ``LC_ALL=C``. One that is not known proves nothing, so it is
uncertain.
"""
import dataclasses
import re
import uuid
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from oslo_privsep import daemon

from blockattach import errors
from blockattach.drivers import base
from blockattach.privileged import commands
from blockattach.privileged import lvm

VOLUME = 'volume-'
DELETED = 'deleted-'

# A command line that LVM does not understand is refused before anything is done.
_NOT_UNDERSTOOD = 3

# what it says, kind of the error, what helps
_KNOWN: tuple[tuple[str, type[errors.BackendRefused], str], ...] = (
    ('insufficient free space|insufficient suitable', errors.BackendFull,
     'add a disk to the volume group with vgextend'),
    ('reached threshold|out of (data|metadata) space', errors.BackendFull,
     'extend the thin pool with lvextend'),
    ('in use|used by another device', errors.BackendRefused,
     'end what holds it open; lsblk and fuser name it'),
    ('PVs are missing|partial LV', errors.BackendRefused,
     'bring the disk back and run vgextend --restoremissing, or give it up with vgreduce '
     '--removemissing'),
    ('with system ID', errors.BackendRefused,
     'the volume group belongs to another host; use one of this host'),
    ('volume group ".*" not found', errors.BackendRefused,
     'make it with vgcreate; this service never does'),
    ('failed to find logical volume', errors.BackendRefused, 'it does not exist'),
    ('target.* not detected|device-mapper driver|target support missing', errors.BackendRefused,
     'load the kernel modules dm-mod, dm-thin-pool and dm-snapshot'),
    ('permission denied|running as a non-root user', errors.BackendRefused,
     'let the service act as root; see helper_command in [privsep_lvm]'),
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

    def do(self, act: Callable[..., Any], *arguments: Any, size_gb: float = 0) -> Any:
        """Call a privileged function for this group.

        :param size_gb: the requested room, for the error where there is none
        :raises BackendFull, BackendRefused: nothing happened; the text says what helps
        :raises BackendUncertain: something may have
        """
        try:
            return act(self._site, *arguments)
        except commands.CommandFailed as exc:
            raise error_of(exc, size_gb) from exc
        except commands.CommandMissing as exc:
            raise errors.BackendRefused(
                reason=f'{exc.program} cannot be run: {exc.reason}; install lvm2') from exc
        except commands.CommandHung as exc:
            raise errors.BackendUncertain(
                reason=f'{exc.command} had not ended after {exc.seconds:g} seconds and was '
                       f'killed; look for a disk that does not answer (dmesg, pvs)') from exc
        except daemon.FailedToDropPrivileges as exc:
            raise errors.BackendRefused(
                reason=f'there are no rights to run lvm: {exc}; see helper_command in '
                       f'[privsep_lvm]') from exc
        except ValueError as exc:
            raise errors.BackendRefused(reason=str(exc)) from exc
        except OSError as exc:
            raise errors.BackendUncertain(
                reason=f'what acts on LVM for us failed: {exc}; see helper_command in '
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


def is_replaced(name: str, volume: base.StoredVolume) -> bool:
    """Whether it was this volume once."""
    return name.startswith(f'{DELETED}{_id(volume)}-')


def _id(volume: base.StoredVolume) -> str:
    return volume.name.removeprefix(VOLUME)


def error_of(failure: commands.CommandFailed, size_gb: float) -> errors.BackendError:
    """The error that a failed command is."""
    output = _sentence(failure.complaint)
    for pattern, kind, cure in _KNOWN:
        if re.search(pattern, failure.complaint, re.IGNORECASE):
            text = f'{failure.command}: {output}; {cure}'
            if kind is errors.BackendFull:
                return errors.BackendFull(size_gb=f'{size_gb:g}', reason=text)
            return kind(reason=text)
    if failure.code == _NOT_UNDERSTOOD:
        return errors.BackendRefused(
            reason=f'{failure.command}: {output}; is LVM older than 2.03?')
    return errors.BackendUncertain(reason=f'{failure.command} ended with {failure.code}: {output}')


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
