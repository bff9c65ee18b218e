"""One group per enabled backend, named like the backend: which store, which target, and where."""
import dataclasses

from oslo_config import cfg

from blockattach import errors
from blockattach.conf import locations
from blockattach.conf import lvm as lvm_conf
from blockattach.conf import settings as groups

OPTS = (
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
               help='Address that initiators log in to.'),
    cfg.ListOpt('target_secondary_ip_addresses', default=[],
                help='Further addresses of this host under which initiators reach the same '
                     'targets: the paths of multipath.'),
    cfg.PortOpt('target_port', default=3260,
                help='Port that initiators log in to. 0: the first free one.'),
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
                     'port appended (/run/tgtd/socket.0). It is neither started nor stopped, and '
                     'must listen on target_ip_address and target_port; the members of a cluster '
                     'share one. Empty: one is started under the state directory, which all such '
                     'backends of the process use.'),
    cfg.BoolOpt('report_discard_supported', default=False,
                help='Report to consumers that they may discard, so that what a server trims '
                     'takes no room any more. Only for volumes whose store and target can.'),
    cfg.IntOpt('reserved_percentage', default=0, min=0, max=100,
               help='Share of the pool that is never given away.'),
    cfg.FloatOpt('max_over_subscription_ratio', default=20.0, min=1.0,
                 help='How many times its size a thin pool may be given away.'),
    cfg.StrOpt('filter_function',
               help='Expression that says which volumes the backend takes, for instance '
                    '"volume.size < 10". Asked by the filter driver '
                    '([scheduler] scheduler_default_filters). Empty: every volume.'),
    cfg.StrOpt('goodness_function',
               help='Expression that says from 0 to 100 how well a volume suits the backend, for '
                    'instance "volume.size < 5 ? 100 : 50". Asked by the weigher goodness '
                    '([scheduler] scheduler_default_weighers).'),
    *lvm_conf.OPTS,
)


@dataclasses.dataclass(frozen=True, slots=True)
class BackendSettings:
    """One backend, as its drivers take it. ``state_dir`` is the process's own folder.

    ``lvm`` is there for the lvm store only. ``shared``: a cluster serves it, so nothing of it may
    be this process's own.
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
    report_discard_supported: bool = False
    mutual_chap_username: str = ''
    mutual_chap_password: str = dataclasses.field(default='', repr=False)
    lvm: lvm_conf.LvmSettings | None = None
    shared: bool = False
    filter_function: str | None = None
    goodness_function: str | None = None


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
        with locations.named(conf, name, 'volumes_dir'):
            raise errors.ConfigurationError(
                reason='volumes_dir must name the folder that all members of the cluster use')
    backend_name = group.volume_backend_name or name
    return groups.read(
        conf, name, BackendSettings, name=name, state_dir=state_dir, shared=shared,
        volume_backend_name=backend_name, pool_name=group.pool_name or backend_name,
        volumes_dir=group.volumes_dir or f'{state_dir}/volumes/{name}',
        lvm=lvm_conf.settings(group) if group.store == 'lvm' else None)
