"""Options of a backend. Their configuration group has the name of the backend."""
import dataclasses

from oslo_config import cfg

from blockattach.platform import units
from blockattach.platform.conf import locations
from blockattach.platform.conf import settings as groups


def _without_brackets(address: str) -> str:
    """Return an IP address without the brackets that URLs require around IPv6 addresses."""
    return address[1:-1] if address.startswith('[') and address.endswith(']') else address


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LvmSettings:
    """Settings of a backend with ``store = lvm``."""

    volume_group: str = groups.option(cfg.StrOpt, required=True, help=(
        'LVM volume group of the lvm store. The volume group must exist.'))
    lvm_type: str = groups.option(cfg.StrOpt, default='thin', choices=['thin', 'thick'], help=(
        'Type of the logical volumes. thin volumes share a thin pool and allocate space when data '
        'is written. thick volumes allocate their full size on creation and are wiped on '
        'deletion.'))
    thin_pool: str = groups.option(cfg.StrOpt, 'lvm_thin_pool', required=True, help=(
        'Thin pool for lvm_type = thin. The pool must exist and have the tag "blockattach". '
        'Defaults to <volume_group>-pool.'))
    conf_file: str = groups.option(cfg.StrOpt, 'lvm_conf_file', required=True, help=(
        'Absolute path of an lvm.conf that is used instead of that of the system. The file must '
        'be writable by root only.'))
    command_seconds: float = groups.option(
        cfg.IntOpt, 'lvm_command_seconds', default=60, min=1, help=(
            'Timeout of one LVM command in seconds. A command that exceeds the timeout is killed, '
            'and its effect is determined afterwards.'))
    warn_percent: float = groups.option(
        cfg.IntOpt, 'thin_pool_warn_percent', default=80, min=1, max=100, help=(
            'Usage of the data or metadata of a thin pool, in percent, from which a warning is '
            'logged.'))
    full_percent: float = groups.option(
        cfg.IntOpt, 'thin_pool_full_percent', default=95, min=1, max=100, help=(
            'Usage of the data or metadata of a thin pool, in percent, from which new volumes, '
            'snapshots, and extensions are rejected. Existing volumes are not affected.'))
    volume_clear: str = groups.option(cfg.StrOpt, default='zero', choices=['zero', 'none'], help=(
        'How a deleted thick volume or snapshot is wiped. zero overwrites the data with zeros in '
        'the background before the space is freed. none does not wipe the data, which may become '
        'readable in another volume.'))
    volume_clear_bandwidth: int = groups.option(cfg.IntOpt, default=100, min=1, help=(
        'Maximum rate in MiB per second at which deleted volumes are overwritten.'))

    @property
    def clear_bandwidth(self) -> int:
        """Rate at which deleted volumes are wiped, in bytes per second; 0 for no wiping."""
        return 0 if self.volume_clear == 'none' else self.volume_clear_bandwidth * units.MIB


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BackendSettings:
    """Settings of a backend, which its drivers receive.

    :ivar state_dir: state directory of the process
    :ivar lvm: None if the store is not lvm
    :ivar shared: True if a cluster serves the backend. All members of the cluster must then have
        access to all data of the backend
    """

    name: str
    state_dir: str
    volume_backend_name: str = groups.option(cfg.StrOpt, required=True, help=(
        'Name by which volume types select this backend (extra spec volume_backend_name). '
        'Defaults to the name of the group.'))
    store: str = groups.option(cfg.StrOpt, default='file', help=(
        'Store driver, as a name of the entry points blockattach.stores. Built-in drivers are '
        'file (sparse files), lvm (logical volumes), and fake (in memory, for tests).'))
    target: str = groups.option(cfg.StrOpt, default='tgt', help=(
        'Target driver, as a name of the entry points blockattach.targets. Built-in drivers are '
        'tgt (iSCSI in user space), lio (iSCSI in the kernel), and fake (in memory, for tests).'))
    pool_name: str = groups.option(cfg.StrOpt, required=True, help=(
        'Name of the pool. A backend has one pool. Defaults to volume_backend_name.'))
    volumes_dir: str = groups.option(cfg.StrOpt, required=True, help=(
        'Directory in which the file store keeps volumes. Defaults to volumes/<backend> in the '
        'state directory.'))
    target_ip_address: str = groups.option(
        cfg.StrOpt, default='127.0.0.1', read=_without_brackets, help=(
            'Portal IP address of the iSCSI targets. An IPv6 address may be enclosed in '
            'brackets.'))
    target_secondary_ip_addresses: tuple[str, ...] = groups.option(
        cfg.ListOpt, default=[],
        read=lambda addresses: tuple(map(_without_brackets, addresses)), help=(
            'Additional portal IP addresses of this host for the same targets, for multipath.'))
    target_port: int = groups.option(cfg.PortOpt, default=3260, help=(
        'Portal port of the iSCSI targets. 0 selects a free port.'))
    target_prefix: str = groups.option(cfg.StrOpt, default='iqn.2010-10.org.openstack:', help=(
        'Prefix of all target names.'))
    mutual_chap_username: str = groups.option(cfg.StrOpt, default='', help=(
        'User name with which targets authenticate to initiators (mutual CHAP). Initiators must '
        'be configured with the same user name and secret. If unset, targets do not authenticate. '
        'Requires target = lio.'))
    mutual_chap_password: str = groups.option(cfg.StrOpt, default='', secret=True, help=(
        'Secret of mutual_chap_username, from 12 to 255 characters.'))
    tgt_socket: str | None = groups.option(cfg.StrOpt, help=(
        'Management socket of a running tgtd, which is its TGT_IPC_SOCKET with the control port '
        'appended (/run/tgtd/socket.0). The service does not start or stop this tgtd, which must '
        'listen on target_ip_address and target_port. All members of a cluster must use the same '
        'tgtd. If unset, the process starts one tgtd in the state directory for all of its '
        'backends without this option.'))
    report_discard_supported: bool = groups.option(cfg.BoolOpt, default=False, help=(
        'Report discard support to consumers, so that space trimmed by a server is freed. Applies '
        'only to volumes whose store and target support discard.'))
    volume_copy_bps_limit: int = groups.option(cfg.IntOpt, default=0, min=0, help=(
        'Maximum rate in bytes per second of all copies of the backend together, for stores that '
        'copy data themselves (file without reflink, lvm with lvm_type = thick). 0 means '
        'unlimited.'))
    reserved_percentage: int = groups.option(cfg.IntOpt, default=0, min=0, max=100, help=(
        'Percentage of the pool capacity that is reserved and never allocated.'))
    max_over_subscription_ratio: float = groups.option(cfg.FloatOpt, default=20.0, min=1.0, help=(
        'Maximum ratio of the provisioned capacity of a thin pool to its size.'))
    filter_function: str | None = groups.option(cfg.StrOpt, help=(
        'Expression that selects the volumes that the backend accepts, such as "volume.size < '
        '10". Evaluated by the driver filter ([scheduler] scheduler_default_filters). If unset, '
        'all volumes are accepted.'))
    goodness_function: str | None = groups.option(cfg.StrOpt, help=(
        'Expression that rates from 0 to 100 how well a volume suits the backend, such as '
        '"volume.size < 5 ? 100 : 50". Evaluated by the goodness weigher ([scheduler] '
        'scheduler_default_weighers).'))
    image_volume_cache_enabled: bool = groups.option(cfg.BoolOpt, default=False, help=(
        'Keep one cached volume per image on this backend. Further volumes from the same image '
        'are cloned from the cached volume, without downloading the image. Requires [images] '
        'cinder_internal_tenant_project_id and cinder_internal_tenant_user_id, and a store that '
        'supports cloning.'))
    image_volume_cache_max_size_gb: int = groups.option(cfg.IntOpt, default=0, min=0, help=(
        'Maximum total size of the cached image volumes in GiB. 0 means unlimited.'))
    image_volume_cache_max_count: int = groups.option(cfg.IntOpt, default=0, min=0, help=(
        'Maximum number of cached images. 0 means unlimited.'))
    lvm: LvmSettings | None = groups.part(LvmSettings, None)
    shared: bool = False


OPTS = groups.options(BackendSettings)


def register(conf: cfg.ConfigOpts, name: str) -> None:
    """Register the options of the backend ``name``."""
    conf.register_opts(OPTS, group=name)


def settings(conf: cfg.ConfigOpts, name: str, state_dir: str,
             shared: bool = False) -> BackendSettings:
    """Return the settings of the backend ``name``.

    :param state_dir: state directory of the process
    :param shared: True if a cluster serves the backend
    :raises ConfigurationError: if a cluster serves the backend, and ``volumes_dir`` of the file
        store is not set
    """
    group = conf[name]
    if shared and group.store == 'file' and not group.volumes_dir:
        raise locations.refusal(
            conf, name, 'volumes_dir',
            'volumes_dir must be set to a directory that all members of the cluster share')
    backend_name = group.volume_backend_name or name
    return groups.read(
        conf, name, BackendSettings, name=name, state_dir=state_dir, shared=shared,
        volume_backend_name=backend_name, pool_name=group.pool_name or backend_name,
        volumes_dir=group.volumes_dir or f'{state_dir}/volumes/{name}',
        lvm=_lvm(conf, name) if group.store == 'lvm' else None)


def _lvm(conf: cfg.ConfigOpts, name: str) -> LvmSettings:
    group = conf[name]
    volume_group = group.volume_group or ''
    return groups.read(conf, name, LvmSettings, volume_group=volume_group,
                       thin_pool=group.lvm_thin_pool or f'{volume_group}-pool',
                       conf_file=group.lvm_conf_file or '')
