"""[rpc]: how the processes of the service find and hear each other."""
import dataclasses

from oslo_config import cfg

from blockattach.conf import settings as groups

GROUP = 'rpc'

OPTS = (
    cfg.StrOpt('topic_prefix', default='blockattach',
               help='What every topic begins with. Two installations that share one broker and '
                    'virtual host need two prefixes.'),
    cfg.IntOpt('call_timeout', default=60, min=1,
               help='Seconds to wait for an answer from another process.'),
    cfg.IntOpt('short_call_timeout', default=15, min=1,
               help='Seconds to wait where the answer only says that the work was taken on.'),
    cfg.IntOpt('repeat_interval', default=5, min=2,
               help='Seconds without a heartbeat from the server of a call, after which it '
                    'is sent again, if it may be done twice: a process has ended with it.'),
    cfg.IntOpt('silence_timeout', default=30, min=3,
               help='Seconds to wait for a heartbeat of the process that a call was sent to. '
                    'One that died is noticed then, and not only when the time of the call is '
                    'over; one that is started again has so long to do it.'),
    cfg.IntOpt('send_retries', default=3, min=0,
               help='How many times a message is offered again to a broker that does not take '
                    'it, before the sender gets an error.'),
    cfg.IntOpt('threads', default=64, min=1,
               help='How many requests one server of this process works on at the same time.'),
    cfg.StrOpt('release', default='auto',
               help='While processes of two releases run side by side: the older release, whose '
                    'interfaces and objects are then spoken. auto, or empty: the newest.'),
    cfg.StrOpt('second_transport_url', secret=True,
               help='Requests are taken from there too, as from transport_url; nothing is sent '
                    'there but answers. For the time in which the processes move, one after the '
                    'other, to another broker, virtual host or kind of queues.'),
)


@dataclasses.dataclass(frozen=True, slots=True)
class RpcSettings:
    """The group as the bus takes it. Timeouts in seconds."""

    topic_prefix: str = 'blockattach'
    call_timeout: float = 60
    short_call_timeout: float = 15
    repeat_interval: int = 5
    silence_timeout: float = 30
    send_retries: int = 3
    threads: int = 64
    release: str = 'auto'
    second_transport_url: str | None = dataclasses.field(default=None, repr=False)


def settings(conf: cfg.ConfigOpts) -> RpcSettings:
    """Read the group."""
    return groups.read(conf, GROUP, RpcSettings)
