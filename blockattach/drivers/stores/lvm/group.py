"""One volume group: its content, and acts on it with the errors of the driver contract."""
import dataclasses
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from oslo_privsep import daemon

from blockattach import errors
from blockattach.drivers.stores.lvm import complaints
from blockattach.privileged import commands
from blockattach.privileged import lvm


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
            raise complaints.error_of(exc, size_gb) from exc
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
