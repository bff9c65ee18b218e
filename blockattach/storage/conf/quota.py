"""Options of [quota], the default limits of projects.

An option that Cinder also has keeps the name in Cinder.
"""
import dataclasses

from oslo_config import cfg

from blockattach.platform.conf import settings as groups

GROUP = 'quota'
DATABASE = 'database'
UNIFIED_LIMITS = 'unified_limits'


@dataclasses.dataclass(frozen=True, slots=True)
class QuotaSettings:
    """Settings of quotas, including the default limits of projects. -1 means unlimited."""

    quota_driver: str = groups.option(cfg.StrOpt, default=DATABASE, choices=[
        (DATABASE, 'In the database, managed with os-quota-sets and os-quota-class-sets.'),
        (UNIFIED_LIMITS, 'In Keystone, as registered limits and project limits, accessed as '
                         'configured in [oslo_limit].')], help=(
        'Storage of quota limits. Resources without a registered limit in Keystone use the '
        'defaults of this group.'))
    unified_limits_seconds: float = groups.option(cfg.FloatOpt, default=10, min=0, help=(
        'Time in seconds for which limits of Keystone are cached.'))
    quota_volumes: int = groups.option(cfg.IntOpt, default=10, min=-1, help=(
        'Maximum number of volumes per project. -1 means unlimited.'))
    quota_snapshots: int = groups.option(cfg.IntOpt, default=10, min=-1, help=(
        'Maximum number of snapshots per project. -1 means unlimited.'))
    quota_gigabytes: int = groups.option(cfg.IntOpt, default=1000, min=-1, help=(
        'Maximum total size of volumes and snapshots per project, in GiB. -1 means unlimited.'))
    quota_backups: int = groups.option(cfg.IntOpt, default=10, min=-1, help=(
        'Limit shown to clients. Backups are not supported.'))
    quota_backup_gigabytes: int = groups.option(cfg.IntOpt, default=1000, min=-1, help=(
        'Limit shown to clients. Backups are not supported.'))
    quota_groups: int = groups.option(cfg.IntOpt, default=10, min=-1, help=(
        'Limit shown to clients. Groups are not supported.'))
    quota_attachments: int = groups.option(
        cfg.IntOpt, default=10000, min=-1, deprecated_group='control', help=(
            'Maximum number of attachments per project. -1 means unlimited.'))
    per_volume_size_limit: int = groups.option(cfg.IntOpt, default=-1, min=-1, help=(
        'Maximum size of a volume in GiB. -1 means unlimited.'))
    no_snapshot_gb_quota: bool = groups.option(cfg.BoolOpt, default=False, help=(
        'Exclude snapshots from the gigabytes quota.'))
    use_default_quota_class: bool = groups.option(cfg.BoolOpt, default=True, help=(
        'Give the limits of the quota class "default" precedence over those of this group.'))


NONE = QuotaSettings(
    quota_volumes=-1, quota_snapshots=-1, quota_gigabytes=-1, quota_backups=-1,
    quota_backup_gigabytes=-1, quota_groups=-1, quota_attachments=-1)
"""Settings without any limit."""

OPTS = groups.options(QuotaSettings)


def settings(conf: cfg.ConfigOpts) -> QuotaSettings:
    """Return the settings of the group [quota]."""
    return groups.read(conf, GROUP, QuotaSettings)
