"""[rpc]: how the processes of the service find and hear each other."""
import dataclasses

from oslo_config import cfg

from blockattach.conf import settings as groups

GROUP = 'rpc'


@dataclasses.dataclass(frozen=True, slots=True)
class RpcSettings:
    """The group as the bus takes it. Timeouts in seconds."""

    topic_prefix: str = groups.option(cfg.StrOpt, default='blockattach', help=(
        'What every topic begins with. Two installations that share one broker and '
        'virtual host need two prefixes.'))
    call_timeout: float = groups.option(cfg.IntOpt, default=60, min=1, help=(
        'Seconds to wait for an answer from another process.'))
    short_call_timeout: float = groups.option(cfg.IntOpt, default=15, min=1, help=(
        'Seconds to wait where the answer only says that the work was taken on.'))
    repeat_interval: int = groups.option(cfg.IntOpt, default=5, min=2, help=(
        'Seconds without a heartbeat from the server of a call, after which it '
        'is sent again, if it may be done twice: a process has ended with it.'))
    silence_timeout: float = groups.option(cfg.IntOpt, default=30, min=3, help=(
        'Seconds to wait for a heartbeat of the process that a call was sent to. '
        'One that died is noticed then, and not only when the time of the call is '
        'over; one that is started again has so long to do it.'))
    send_retries: int = groups.option(cfg.IntOpt, default=3, min=0, help=(
        'How many times a message is offered again to a broker that does not take '
        'it, before the sender gets an error.'))
    threads: int = groups.option(cfg.IntOpt, default=64, min=1, help=(
        'How many requests one server of this process works on at the same time.'))
    release: str = groups.option(cfg.StrOpt, default='auto', help=(
        'While processes of two releases run side by side: the older release, whose '
        'interfaces and objects are then spoken. auto, or empty: the newest.'))
    second_transport_url: str | None = groups.option(cfg.StrOpt, secret=True, help=(
        'Requests are taken from there too, as from transport_url; nothing is sent '
        'there but answers. For the time in which the processes move, one after the '
        'other, to another broker, virtual host or kind of queues.'))


OPTS = groups.options(RpcSettings)


def settings(conf: cfg.ConfigOpts) -> RpcSettings:
    """Read the group."""
    return groups.read(conf, GROUP, RpcSettings)
