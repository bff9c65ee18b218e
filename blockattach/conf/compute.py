"""[compute]: the consumer of volumes. [block_storage]: how volumes are asked for."""
import dataclasses
import socket

from oslo_config import cfg

from blockattach.conf import account
from blockattach.conf import settings as groups

GROUP = 'compute'
STORAGE_GROUP = 'block_storage'


@dataclasses.dataclass(frozen=True, slots=True)
class ComputeSettings:
    """What the compute API and the agents have in common. What ends in ``seconds`` is in seconds.

    ``flavors``: ``id:name:vcpus:MiB of memory:GiB of disk`` each.
    """

    connection: str | None = groups.option(cfg.StrOpt, secret=True, help=(
        'SQLAlchemy URL of the database of servers. Empty: compute.sqlite in state_path.'))
    host: str = groups.option(cfg.HostAddressOpt, default='127.0.0.1', help=(
        'Where the compute API listens.'))
    port: int = groups.option(cfg.PortOpt, default=8774, help='On which port.')
    public_endpoint: str | None = groups.option(
        cfg.StrOpt, read=account.address, help=(
            'What links in answers of the compute API begin with, without version. Empty: as the '
            'client called it.'))
    name: str = groups.option(cfg.StrOpt, 'agent_host', read=lambda name: (
        name or socket.gethostname()), help=(
        'What the agent calls its host: servers remember it. Empty: the name of the machine.'))
    flavors: tuple[str, ...] = groups.option(
        cfg.ListOpt, default=[
            '1:m1.tiny:1:256:0', '2:m1.small:1:512:0', '3:m1.medium:2:1024:0'],
        read=tuple, help=(
            'The flavors, each as id:name:vcpus:memory in MiB:disk in GiB. No two have the same '
            'id or name. Without id: one is its number in the list, which is another one once the '
            'list has changed. Servers keep the flavor that they were made with.'))
    kind: str = groups.option(cfg.StrOpt, default='fake', choices=[
        ('fake', 'Servers in memory, which cannot move live to another agent: for trials.'),
        ('qemu', 'QEMU guests, which log in to volumes by themselves.'),
        ('host', 'Volumes appear on the host itself; there are no guests.')], help=(
            'What runs servers on the host of an agent.'))
    connector: str = groups.option(cfg.StrOpt, default='auto', choices=[
        ('auto', 'brick where the kernel has an iSCSI initiator, else nbd.'),
        ('brick', "os-brick and the kernel's initiator."),
        ('nbd', 'qemu-storage-daemon, nbdfuse and a loop device.')], help=(
            'How volumes come to the host, with kind = host.'))
    kernel: str | None = groups.option(cfg.StrOpt, 'guest_kernel', help=(
        'What guests boot, with kind = qemu. Empty: their first disk.'))
    initrd: str | None = groups.option(cfg.StrOpt, 'guest_initrd', help=(
        'The initial RAM disk of guest_kernel.'))
    append: str = groups.option(cfg.StrOpt, 'guest_append', default='', help=(
        'The command line of guest_kernel.'))
    accelerator: str = groups.option(cfg.StrOpt, default='kvm:tcg', help=(
        'Names as QEMU takes them: the first that works is used.'))
    address: str = groups.option(cfg.HostAddressOpt, 'agent_address', default='127.0.0.1', help=(
        'Address of the host of the agent: where servers that move live are received.'))
    release_seconds: float = groups.option(
        cfg.FloatOpt, 'device_release_timeout', default=30, min=0.1, help=(
            'Seconds that a guest may take to release a disk; then it keeps it.'))
    report_seconds: float = groups.option(
        cfg.FloatOpt, 'report_interval', default=10, min=0.1, help=(
            'Seconds between two reports of an agent.'))
    down_seconds: float = groups.option(
        cfg.FloatOpt, 'agent_down_time', default=60, min=0.5, help=(
            'Seconds without a report after which an agent counts as down.'))
    lease_seconds: float = groups.option(
        cfg.FloatOpt, 'act_lease', default=60, min=1, help=(
            'Seconds after which an act of a process that renews it no more is taken up by '
            'another one.'))
    threads: int = groups.option(cfg.IntOpt, default=32, min=1, help=(
        'How many acts a compute API, or an agent, does at the same time.'))
    agent_version: str | None = groups.option(cfg.StrOpt, help=(
        'An agent speaks this older version of its interface, while others are not upgraded yet. '
        'Empty: the newest.'))


@dataclasses.dataclass(frozen=True, slots=True)
class BlockStorageSettings(account.AccountSettings):
    """How volumes and attachments are asked for. ``timeout`` in seconds."""

    transport: str = groups.option(cfg.StrOpt, default='http', choices=[
        ('http', 'Everything over HTTP.'),
        ('bus', 'Attachments over the message bus (AttachmentsInterface); volumes over HTTP.')],
        help='How attachments are asked for.')
    username: str | None = groups.option(cfg.StrOpt, deprecated_name='user_name', help=(
        'Account of the compute API. With auth_url it is one of Keystone with the roles service '
        "and admin, which asks once a caller's token is gone. Without auth_url everything is "
        'asked for by it, by HTTP basic authentication at endpoint_override.'))
    timeout: float = groups.option(cfg.FloatOpt, default=120, min=0.01, help=(
        'Seconds to wait for an answer of block storage.'))


OPTS = groups.options(ComputeSettings)
STORAGE_OPTS = groups.options(BlockStorageSettings)


def settings(conf: cfg.ConfigOpts) -> ComputeSettings:
    """Read the group."""
    return groups.read(conf, GROUP, ComputeSettings)


def storage_settings(conf: cfg.ConfigOpts) -> BlockStorageSettings:
    """Read the group of block storage."""
    return account.read(conf, STORAGE_GROUP, BlockStorageSettings)
