"""[quota]: what a project may have that was given no limits of its own. Names are Cinder's."""
import dataclasses

from oslo_config import cfg

from blockattach.conf import settings as groups

GROUP = 'quota'
DATABASE = 'database'
UNIFIED_LIMITS = 'unified_limits'


@dataclasses.dataclass(frozen=True, slots=True)
class QuotaSettings:
    """The group; -1: any number."""

    quota_driver: str = groups.option(cfg.StrOpt, default=DATABASE, choices=[
        (DATABASE, 'In the database, by os-quota-sets and os-quota-class-sets.'),
        (UNIFIED_LIMITS, 'In Keystone, as registered limits and limits of projects: '
                         '[oslo_limit] says how it is asked.')], help=(
        'Where limits are kept. What Keystone has no registered limit for has the default below.'))
    unified_limits_seconds: float = groups.option(cfg.FloatOpt, default=10, min=0, help=(
        'How long limits that were read from Keystone are used before it is asked again.'))
    quota_volumes: int = groups.option(cfg.IntOpt, default=10, min=-1, help=(
        'How many volumes a project may have.'))
    quota_snapshots: int = groups.option(cfg.IntOpt, default=10, min=-1, help=(
        'How many snapshots a project may have.'))
    quota_gigabytes: int = groups.option(cfg.IntOpt, default=1000, min=-1, help=(
        'How many GiB the volumes and snapshots of a project may have together.'))
    quota_backups: int = groups.option(cfg.IntOpt, default=10, min=-1, help=(
        'Shown to clients; there are no backups.'))
    quota_backup_gigabytes: int = groups.option(cfg.IntOpt, default=1000, min=-1, help=(
        'Shown to clients; there are no backups.'))
    quota_groups: int = groups.option(cfg.IntOpt, default=10, min=-1, help=(
        'Shown to clients; there are no groups.'))
    quota_attachments: int = groups.option(
        cfg.IntOpt, default=10000, min=-1, deprecated_group='control', help=(
            'How many attachments a project may have.'))
    per_volume_size_limit: int = groups.option(cfg.IntOpt, default=-1, min=-1, help=(
        'How many GiB one volume may have.'))
    no_snapshot_gb_quota: bool = groups.option(cfg.BoolOpt, default=False, help=(
        'Count the GiB of volumes only, not those of snapshots.'))
    use_default_quota_class: bool = groups.option(cfg.BoolOpt, default=True, help=(
        'Whether the limits of the quota class "default" go before those of this group.'))


NONE = QuotaSettings(
    quota_volumes=-1, quota_snapshots=-1, quota_gigabytes=-1, quota_backups=-1,
    quota_backup_gigabytes=-1, quota_groups=-1, quota_attachments=-1)
"""No limit of anything."""

OPTS = groups.options(QuotaSettings)


def settings(conf: cfg.ConfigOpts) -> QuotaSettings:
    """Read the group."""
    return groups.read(conf, GROUP, QuotaSettings)
