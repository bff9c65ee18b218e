"""Settings of the compute service and of its block storage client."""
import dataclasses
import socket

from oslo_config import cfg

from blockattach.platform.conf import account
from blockattach.platform.conf import settings as groups

GROUP = 'compute'
STORAGE_GROUP = 'block_storage'


@dataclasses.dataclass(frozen=True, slots=True)
class ComputeSettings:
    """Settings shared by the compute API and the agents.

    Fields ending in ``_seconds`` are in seconds. Each item of ``flavors`` has the form
    ``id:name:vcpus:MiB of memory:GiB of disk``.
    """

    connection: str | None = groups.option(cfg.StrOpt, secret=True, help=(
        'SQLAlchemy URL of the database of servers. Defaults to compute.sqlite in state_path.'))
    host: str = groups.option(cfg.HostAddressOpt, default='127.0.0.1', help=(
        'Address on which the compute API listens.'))
    port: int = groups.option(cfg.PortOpt, default=8774, help=(
        'Port on which the compute API listens.'))
    public_endpoint: str | None = groups.option(
        cfg.StrOpt, read=account.address, help=(
            'URL of the compute API for clients, without the version. Used in the links of '
            'responses. If unset, links use the URL of the request.'))
    name: str = groups.option(cfg.StrOpt, 'agent_host', read=lambda name: (
        name or socket.gethostname()), help=(
        'Name of the host of the agent, which is stored with each server. Defaults to the name of '
        'the machine.'))
    flavors: tuple[str, ...] = groups.option(
        cfg.ListOpt, default=[
            '1:m1.tiny:1:256:0', '2:m1.small:1:512:0', '3:m1.medium:2:1024:0'],
        read=tuple, help=(
            'List of flavors, each as id:name:vcpus:memory in MiB:disk in GiB. Ids and names must '
            'be unique. If the id is left empty, the position in the list is the id, which '
            'changes when the list changes. Servers keep the flavor with which they were '
            'created.'))
    kind: str = groups.option(cfg.StrOpt, default='fake', choices=[
        ('fake', 'Servers in memory, for trials. Live migration to another agent is not '
                 'supported.'),
        ('qemu', 'QEMU guests, which log in to the targets of volumes directly.'),
        ('host', 'No guests. Volumes are attached to the host itself.')], help=(
            'Type of the servers on the host of an agent.'))
    connector: str = groups.option(cfg.StrOpt, default='auto', choices=[
        ('auto', 'brick if the kernel has an iSCSI initiator, otherwise nbd.'),
        ('brick', 'os-brick with the iSCSI initiator of the kernel.'),
        ('nbd', 'qemu-storage-daemon, nbdfuse, and a loop device.')], help=(
            'How volumes are attached to the host if kind is host.'))
    kernel: str | None = groups.option(cfg.StrOpt, 'guest_kernel', help=(
        'Path of the kernel that guests boot if kind is qemu. If unset, guests boot from their '
        'first disk.'))
    initrd: str | None = groups.option(cfg.StrOpt, 'guest_initrd', help=(
        'Path of the initial RAM disk for guest_kernel.'))
    append: str = groups.option(cfg.StrOpt, 'guest_append', default='', help=(
        'Kernel command line for guest_kernel.'))
    accelerator: str = groups.option(cfg.StrOpt, default='kvm:tcg', help=(
        'QEMU accelerators, separated by colons. The first accelerator that works is used.'))
    address: str = groups.option(cfg.HostAddressOpt, 'agent_address', default='127.0.0.1', help=(
        'Address of the host of the agent, on which incoming live migrations are received.'))
    release_seconds: float = groups.option(
        cfg.FloatOpt, 'device_release_timeout', default=30, min=0.1, help=(
            'Maximum time in seconds that a guest takes to release a disk. When the time has '
            'passed, the guest keeps the disk.'))
    report_seconds: float = groups.option(
        cfg.FloatOpt, 'report_interval', default=10, min=0.1, help=(
            'Interval between reports of an agent, in seconds.'))
    down_seconds: float = groups.option(
        cfg.FloatOpt, 'agent_down_time', default=60, min=0.5, help=(
            'Time in seconds without a report after which an agent is considered down.'))
    lease_seconds: float = groups.option(
        cfg.FloatOpt, 'act_lease', default=60, min=1, help=(
            'Time in seconds after which an operation is taken over by another process, unless '
            'its process has renewed the lease.'))
    threads: int = groups.option(cfg.IntOpt, default=32, min=1, help=(
        'Number of operations that a compute API or an agent runs at the same time.'))
    agent_version: str | None = groups.option(cfg.StrOpt, help=(
        'Older interface version that this agent uses while other processes are not upgraded yet. '
        'If unset, the newest version is used.'))


@dataclasses.dataclass(frozen=True, slots=True)
class BlockStorageSettings(account.AccountSettings):
    """Settings of the block storage client. The unit of ``timeout`` is seconds."""

    transport: str = groups.option(cfg.StrOpt, default='http', choices=[
        ('http', 'Attachments and volumes over HTTP.'),
        ('bus', 'Attachments over the message bus (AttachmentsInterface), volumes over HTTP.')],
        help='Transport of attachment requests to block storage.')
    username: str | None = groups.option(cfg.StrOpt, deprecated_name='user_name', help=(
        'User name of the compute API. With auth_url, a Keystone user with the roles service and '
        'admin, whose token is used if the token of the caller is no longer available. Without '
        'auth_url, all requests use this user with HTTP basic authentication at '
        'endpoint_override.'))
    timeout: float = groups.option(cfg.FloatOpt, default=120, min=0.01, help=(
        'Timeout in seconds of requests to block storage.'))


OPTS = groups.options(ComputeSettings)
STORAGE_OPTS = groups.options(BlockStorageSettings)


def settings(conf: cfg.ConfigOpts) -> ComputeSettings:
    """Return the settings of the compute service."""
    return groups.read(conf, GROUP, ComputeSettings)


def storage_settings(conf: cfg.ConfigOpts) -> BlockStorageSettings:
    """Return the settings of the block storage client."""
    return account.read(conf, STORAGE_GROUP, BlockStorageSettings)
