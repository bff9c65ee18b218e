"""[rpc]: communication between the processes of the service."""
import dataclasses

from oslo_config import cfg

from blockattach.platform.conf import settings as groups

GROUP = 'rpc'
HTTP = 'http'
TRANSPORT_URL = 'transport_url'


@dataclasses.dataclass(frozen=True, slots=True)
class RpcSettings:
    """Settings of the ``[rpc]`` group. Timeouts are in seconds."""

    topic_prefix: str = groups.option(cfg.StrOpt, default='blockattach', help=(
        'Prefix of all topics. Two installations that share a broker and a virtual host need '
        'different prefixes.'))
    call_timeout: float = groups.option(cfg.IntOpt, default=60, min=1, help=(
        'Timeout of a call to another process, in seconds.'))
    short_call_timeout: float = groups.option(cfg.IntOpt, default=15, min=1, help=(
        'Timeout in seconds of a call that returns as soon as the work is accepted.'))
    long_call_timeout: float = groups.option(cfg.IntOpt, default=4000, min=1, help=(
        'Timeout in seconds of a call that returns when a server was migrated or a disk was '
        'copied. Must be greater than the maximum duration of a live migration, which is one '
        'hour.'))
    repeat_interval: int = groups.option(cfg.IntOpt, default=5, min=2, help=(
        'Time in seconds without a heartbeat from the server of a call after which an idempotent '
        'call is sent again, because the process of the server may have died.'))
    silence_timeout: float = groups.option(cfg.IntOpt, default=30, min=3, help=(
        'Maximum time in seconds without a heartbeat from the process that handles a call. After '
        'this time the call fails, before its timeout has passed. A process that is restarted '
        'must start within this time.'))
    send_retries: int = groups.option(cfg.IntOpt, default=3, min=0, help=(
        'Number of retries of a message that the broker does not accept, before the sender gets '
        'an error.'))
    threads: int = groups.option(cfg.IntOpt, default=64, min=1, help=(
        'Number of requests that one RPC server of this process handles at the same time.'))
    release: str = groups.option(cfg.StrOpt, default='auto', help=(
        'Older release whose RPC interfaces and objects are used while processes of two releases '
        'run at the same time. auto, or an empty value, uses the newest release.'))
    calls: str = groups.option(cfg.StrOpt, default=TRANSPORT_URL, choices=[
        (TRANSPORT_URL, 'Calls are sent through the broker, like all other messages.'),
        (HTTP, 'Calls are sent over HTTP directly to the process that handles them, or through '
               'transport_url if the address of the process is not known.'),
    ], help=(
        'Transport of RPC calls. All other messages use transport_url, which may be http:// '
        'itself for a deployment without a broker.'))
    listen: str = groups.option(cfg.StrOpt, default='127.0.0.1:0', metavar='HOST:PORT', help=(
        'Address on which this process accepts RPC requests over HTTP, if calls or transport_url '
        'use HTTP and the process handles RPC requests. Port 0 selects a free port.'))
    advertise: str | None = groups.option(cfg.StrOpt, metavar='HOST:PORT', help=(
        'Address at which other processes reach the listener of this process, if different from '
        'listen. Port 0 stands for the port of listen. An address other than a loopback address '
        'is served with TLS only, with a certificate that the process creates and publishes in '
        'the database.'))
    key_file: str | None = groups.option(cfg.StrOpt, help=(
        'File with the keys with which processes authenticate to each other over HTTP, one NAME '
        'SECRET [INTERFACE ...] per line. Requests are sent with the first key. All keys are '
        'accepted, for the given interfaces or for all interfaces. Defaults to rpc.keys in '
        'state_path, which is created at the first start. All processes must use the same keys.'))
    second_transport_url: str | None = groups.option(cfg.StrOpt, secret=True, help=(
        'Additional transport from which requests are received. Only replies are sent to this '
        'transport. Use this option while the processes are moved, one after the other, to '
        'another broker, virtual host, or queue type.'))


OPTS = groups.options(RpcSettings)


def settings(conf: cfg.ConfigOpts) -> RpcSettings:
    """Return the settings of the ``[rpc]`` group."""
    return groups.read(conf, GROUP, RpcSettings)
