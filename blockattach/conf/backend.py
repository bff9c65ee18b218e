"""One group per enabled backend, named like the backend: which store, which target, and where."""
import dataclasses

from oslo_config import cfg

from blockattach import units
from blockattach.conf import locations
from blockattach.conf import settings as groups


def _without_brackets(address: str) -> str:
    """Return an address without the brackets of an IPv6 literal in a URL."""
    return address[1:-1] if address.startswith('[') and address.endswith(']') else address


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LvmSettings:
    """The volume group of a backend with ``store = lvm``."""

    volume_group: str = groups.option(cfg.StrOpt, required=True, help=(
        'Volume group of the lvm store: it must exist, and is never made.'))
    lvm_type: str = groups.option(cfg.StrOpt, default='thin', choices=['thin', 'thick'], help=(
        'thin: volumes share a thin pool and take room as they are written; thick: '
        'they take all their room at once, and are wiped when they are deleted.'))
    thin_pool: str = groups.option(cfg.StrOpt, 'lvm_thin_pool', required=True, help=(
        'Thin pool for lvm_type = thin. It must exist and carry the tag '
        '"blockattach". Default: <volume_group>-pool.'))
    conf_file: str = groups.option(cfg.StrOpt, 'lvm_conf_file', required=True, help=(
        "Full path of another lvm.conf than the machine's. Only root may be "
        'able to write it.'))
    command_seconds: float = groups.option(
        cfg.IntOpt, 'lvm_command_seconds', default=60, min=1, help=(
            'How long one LVM command may take before it is killed; what it did is '
            'found out afterwards.'))
    warn_percent: float = groups.option(
        cfg.IntOpt, 'thin_pool_warn_percent', default=80, min=1, max=100, help=(
            'A thin pool whose data or metadata is as full as this is warned of in the '
            'log.'))
    full_percent: float = groups.option(
        cfg.IntOpt, 'thin_pool_full_percent', default=95, min=1, max=100, help=(
            'A thin pool whose data or metadata is as full as this takes no further '
            'volume, snapshot or extension; what is there goes on.'))
    volume_clear: str = groups.option(cfg.StrOpt, default='zero', choices=['zero', 'none'], help=(
        'zero: a deleted thick volume or snapshot is overwritten with zeros, in the '
        'background, before its room is given back; none: it is not, and the next '
        'volume may show its bytes.'))
    volume_clear_bandwidth: int = groups.option(cfg.IntOpt, default=100, min=1, help=(
        'MiB that are overwritten per second, at most.'))

    @property
    def clear_bandwidth(self) -> int:
        """In bytes per second; 0: no clearing."""
        return 0 if self.volume_clear == 'none' else self.volume_clear_bandwidth * units.MIB


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BackendSettings:
    """One backend, as its drivers take it. ``state_dir`` is the process's own folder.

    ``lvm`` is there for the lvm store only. ``shared``: a cluster serves it, so nothing of it may
    be this process's own.
    """

    name: str
    state_dir: str
    volume_backend_name: str = groups.option(cfg.StrOpt, required=True, help=(
        'Name that volume types choose this backend by (extra spec '
        'volume_backend_name). Default: the name of the group.'))
    store: str = groups.option(cfg.StrOpt, default='file', help=(
        'Where bytes live: a name from the entry points blockattach.stores '
        '(file: sparse files; lvm: logical volumes; fake: in memory, for tests).'))
    target: str = groups.option(cfg.StrOpt, default='tgt', help=(
        'How bytes are reached: a name from the entry points blockattach.targets '
        '(tgt: iSCSI in user space; lio: iSCSI in the kernel; fake: in memory, for '
        'tests).'))
    pool_name: str = groups.option(cfg.StrOpt, required=True, help=(
        'Name of the only pool. Default: the backend name.'))
    volumes_dir: str = groups.option(cfg.StrOpt, required=True, help=(
        'Folder of the file store. Default: volumes/<backend> under the state '
        'directory.'))
    target_ip_address: str = groups.option(
        cfg.StrOpt, default='127.0.0.1', read=_without_brackets, help=(
            'Portal address of the iSCSI targets. An IPv6 address may be in brackets.'))
    target_secondary_ip_addresses: tuple[str, ...] = groups.option(
        cfg.ListOpt, default=[],
        read=lambda addresses: tuple(map(_without_brackets, addresses)), help=(
            'Additional portal addresses of this host for the same targets (multipath '
            'paths).'))
    target_port: int = groups.option(cfg.PortOpt, default=3260, help=(
        'Port that initiators log in to. 0: the first free one.'))
    target_prefix: str = groups.option(cfg.StrOpt, default='iqn.2010-10.org.openstack:', help=(
        'What every target name begins with.'))
    mutual_chap_username: str = groups.option(cfg.StrOpt, default='', help=(
        'Name by which the targets prove themselves to initiators (mutual CHAP), '
        'which must know it and its secret. Empty: they do not. Only with '
        'target = lio.'))
    mutual_chap_password: str = groups.option(cfg.StrOpt, default='', secret=True, help=(
        'Secret of mutual_chap_username, 12 to 255 characters.'))
    tgt_socket: str | None = groups.option(cfg.StrOpt, help=(
        'Management socket of a running tgtd, as its TGT_IPC_SOCKET with the control '
        'port appended (/run/tgtd/socket.0). It is neither started nor stopped, and '
        'must listen on target_ip_address and target_port; the members of a cluster '
        'share one. Empty: one is started under the state directory, which all such '
        'backends of the process use.'))
    report_discard_supported: bool = groups.option(cfg.BoolOpt, default=False, help=(
        'Report to consumers that they may discard, so that what a server trims '
        'takes no room any more. Only for volumes whose store and target can.'))
    volume_copy_bps_limit: int = groups.option(cfg.IntOpt, default=0, min=0, help=(
        'Bytes that are copied per second, at most, in all copies of the backend '
        'together, where its store copies data itself (file without reflink, lvm with '
        'lvm_type = thick). 0: any number.'))
    reserved_percentage: int = groups.option(cfg.IntOpt, default=0, min=0, max=100, help=(
        'Share of the pool that is never given away.'))
    max_over_subscription_ratio: float = groups.option(cfg.FloatOpt, default=20.0, min=1.0, help=(
        'How many times its size a thin pool may be given away.'))
    filter_function: str | None = groups.option(cfg.StrOpt, help=(
        'Expression that says which volumes the backend takes, for instance '
        '"volume.size < 10". Asked by the filter driver '
        '([scheduler] scheduler_default_filters). Empty: every volume.'))
    goodness_function: str | None = groups.option(cfg.StrOpt, help=(
        'Expression that says from 0 to 100 how well a volume suits the backend, for '
        'instance "volume.size < 5 ? 100 : 50". Asked by the weigher goodness '
        '([scheduler] scheduler_default_weighers).'))
    image_volume_cache_enabled: bool = groups.option(cfg.BoolOpt, default=False, help=(
        'Keep a volume of each image that volumes are made of here: further ones are cloned '
        'from it, and the image is not downloaded again. Needs [images] '
        'cinder_internal_tenant_project_id and cinder_internal_tenant_user_id, and a store '
        'that clones.'))
    image_volume_cache_max_size_gb: int = groups.option(cfg.IntOpt, default=0, min=0, help=(
        'GiB that the volumes of cached images may have together. 0: any number.'))
    image_volume_cache_max_count: int = groups.option(cfg.IntOpt, default=0, min=0, help=(
        'How many images may be cached. 0: any number.'))
    lvm: LvmSettings | None = groups.part(LvmSettings, None)
    shared: bool = False


OPTS = groups.options(BackendSettings)


def register(conf: cfg.ConfigOpts, name: str) -> None:
    """Make the group of one backend known."""
    conf.register_opts(OPTS, group=name)


def settings(conf: cfg.ConfigOpts, name: str, state_dir: str,
             shared: bool = False) -> BackendSettings:
    """Read the group of one backend.

    :param shared: a cluster serves it
    :raises ConfigurationError: a folder of this process's own shall hold what others keep too
    """
    group = conf[name]
    if shared and group.store == 'file' and not group.volumes_dir:
        raise locations.refusal(
            conf, name, 'volumes_dir',
            'volumes_dir must name the folder that all members of the cluster use')
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
