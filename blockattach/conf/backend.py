"""One group per enabled backend, named like the backend: which store, which target, and where."""
import dataclasses

from oslo_config import cfg

from blockattach.conf import lvm as lvm_conf

BACKEND_OPTS = (
    cfg.StrOpt('volume_backend_name',
               help='Name that volume types choose this backend by (extra spec '
                    'volume_backend_name). Default: the name of the group.'),
    cfg.StrOpt('store', default='file',
               help='Where bytes live: a name from the entry points blockattach.stores '
                    '(file: sparse files; lvm: logical volumes; fake: in memory, for tests).'),
    cfg.StrOpt('target', default='tgt',
               help='How bytes are reached: a name from the entry points blockattach.targets '
                    '(tgt: iSCSI in user space; lio: iSCSI in the kernel; fake: in memory, for '
                    'tests).'),
    cfg.StrOpt('pool_name', help='Name of the only pool. Default: the backend name.'),
    cfg.StrOpt('volumes_dir',
               help='Folder of the file store. Default: volumes/<backend> under the state '
                    'directory.'),
    cfg.StrOpt('target_ip_address', default='127.0.0.1',
               help='Address that initiators are told to log in to.'),
    cfg.ListOpt('target_secondary_ip_addresses', default=[],
                help='Further addresses of this host under which initiators reach the same '
                     'targets: the paths of multipath. Only with target = lio.'),
    cfg.PortOpt('target_port', default=3260,
                help='Port that initiators are told to log in to. 0: the first free one.'),
    cfg.StrOpt('target_prefix', default='iqn.2010-10.org.openstack:',
               help='What every target name begins with.'),
    cfg.StrOpt('mutual_chap_username', default='',
               help='Name by which the targets prove themselves to initiators (mutual CHAP), '
                    'which must know it and its secret. Empty: they do not. Only with '
                    'target = lio.'),
    cfg.StrOpt('mutual_chap_password', default='', secret=True,
               help='Secret of mutual_chap_username, 12 to 255 characters.'),
    cfg.StrOpt('tgt_socket',
               help='Management socket of a running tgtd, as its TGT_IPC_SOCKET with the control '
                    'port appended. Empty: a tgtd of our own is started under the state '
                    'directory and stopped with the service.'),
    cfg.IntOpt('reserved_percentage', default=0, min=0, max=100,
               help='Share of the pool that is never given away.'),
    cfg.FloatOpt('max_over_subscription_ratio', default=20.0, min=1.0,
                 help='How many times its size a thin pool may be given away.'),
    *lvm_conf.LVM_OPTS,
)


@dataclasses.dataclass(frozen=True, slots=True)
class BackendSettings:
    """One backend, as its drivers are told. ``state_dir`` is the process's own folder.

    ``lvm`` is there for the lvm store only.
    """

    name: str
    state_dir: str
    volume_backend_name: str
    store: str
    target: str
    pool_name: str
    volumes_dir: str
    target_ip_address: str
    target_port: int
    target_prefix: str
    tgt_socket: str | None
    reserved_percentage: int
    max_over_subscription_ratio: float
    target_secondary_ip_addresses: tuple[str, ...] = ()
    mutual_chap_username: str = ''
    mutual_chap_password: str = dataclasses.field(default='', repr=False)
    lvm: lvm_conf.LvmSettings | None = None


def register(conf: cfg.ConfigOpts, name: str) -> None:
    """Make the group of one backend known."""
    conf.register_opts(BACKEND_OPTS, group=name)


def settings(conf: cfg.ConfigOpts, name: str, state_dir: str) -> BackendSettings:
    """Read the group of one backend."""
    group = conf[name]
    backend_name = group.volume_backend_name or name
    return BackendSettings(
        name=name,
        state_dir=state_dir,
        volume_backend_name=backend_name,
        store=group.store,
        target=group.target,
        pool_name=group.pool_name or backend_name,
        volumes_dir=group.volumes_dir or f'{state_dir}/volumes/{name}',
        target_ip_address=group.target_ip_address,
        target_port=group.target_port,
        target_prefix=group.target_prefix,
        tgt_socket=group.tgt_socket,
        reserved_percentage=group.reserved_percentage,
        max_over_subscription_ratio=group.max_over_subscription_ratio,
        target_secondary_ip_addresses=tuple(group.target_secondary_ip_addresses),
        mutual_chap_username=group.mutual_chap_username,
        mutual_chap_password=group.mutual_chap_password,
        lvm=lvm_conf.settings(group) if group.store == 'lvm' else None,
    )


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """For oslo.config's sample generator."""
    return [('file', list(BACKEND_OPTS))]
