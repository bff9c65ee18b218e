"""The options of a backend with ``store = lvm``, in the backend's own group."""
import dataclasses

from oslo_config import cfg

from blockattach import units

OPTS = (
    cfg.StrOpt('volume_group',
               help='Volume group of the lvm store: it must exist, and is never made.'),
    cfg.StrOpt('lvm_type', default='thin', choices=['thin', 'thick'],
               help='thin: volumes share a thin pool and take room as they are written; thick: '
                    'they take all their room at once, and are wiped when they are deleted.'),
    cfg.StrOpt('lvm_thin_pool',
               help='Thin pool for lvm_type = thin. It must exist and carry the tag '
                    '"blockattach". Default: <volume_group>-pool.'),
    cfg.StrOpt('lvm_conf_file',
               help="Full path of another lvm.conf than the machine's. Only root may be "
                    'able to write it.'),
    cfg.IntOpt('lvm_command_seconds', default=60, min=1,
               help='How long one LVM command may take before it is killed; what it did is '
                    'found out afterwards.'),
    cfg.IntOpt('thin_pool_warn_percent', default=80, min=1, max=100,
               help='A thin pool whose data or metadata is as full as this is warned of in the '
                    'log.'),
    cfg.IntOpt('thin_pool_full_percent', default=95, min=1, max=100,
               help='A thin pool whose data or metadata is as full as this takes no further '
                    'volume, snapshot or extension; what is there goes on.'),
    cfg.StrOpt('volume_clear', default='zero', choices=['zero', 'none'],
               help='zero: a deleted thick volume or snapshot is overwritten with zeros, in the '
                    'background, before its room is given back; none: it is not, and the next '
                    'volume may show its bytes.'),
    cfg.IntOpt('volume_clear_bandwidth', default=100, min=1,
               help='MiB that are overwritten per second, at most.'),
)


@dataclasses.dataclass(frozen=True, slots=True)
class LvmSettings:
    """One backend's volume group. ``clear_bandwidth`` is in bytes per second; 0: no clearing."""

    volume_group: str
    lvm_type: str
    thin_pool: str
    conf_file: str
    command_seconds: float
    warn_percent: float
    full_percent: float
    clear_bandwidth: int


def settings(group: cfg.ConfigOpts.GroupAttr) -> LvmSettings:
    """Read it from the backend's group."""
    name = group.volume_group or ''
    return LvmSettings(
        volume_group=name,
        lvm_type=group.lvm_type,
        thin_pool=group.lvm_thin_pool or f'{name}-pool',
        conf_file=group.lvm_conf_file or '',
        command_seconds=group.lvm_command_seconds,
        warn_percent=group.thin_pool_warn_percent,
        full_percent=group.thin_pool_full_percent,
        clear_bandwidth=(0 if group.volume_clear == 'none'
                         else group.volume_clear_bandwidth * units.MIB))
