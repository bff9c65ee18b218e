"""[rpc]: how the processes of the service find and hear each other."""
import dataclasses

from oslo_config import cfg

from blockattach.conf import settings as groups

GROUP = 'rpc'
HTTP = 'http'
TRANSPORT_URL = 'transport_url'


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
    long_call_timeout: float = groups.option(cfg.IntOpt, default=4000, min=1, help=(
        'Seconds to wait where the answer comes when a server was moved, or a disk was '
        'copied. More than a live migration may take, which is an hour.'))
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
    calls: str = groups.option(cfg.StrOpt, default=TRANSPORT_URL, choices=[
        (TRANSPORT_URL, 'by the broker, as everything else'),
        (HTTP, 'straight to the process that is asked, over HTTP; by transport_url where it '
               'listens at no address that is known'),
    ], help=(
        'Which way requests go that wait for an answer. Everything else goes by '
        'transport_url, which may be http:// itself: then there is no broker.'))
    listen: str = groups.option(cfg.StrOpt, default='127.0.0.1:0', metavar='HOST:PORT', help=(
        'Where this process takes requests over HTTP, if calls or transport_url asks for '
        'it and it has any to take. Port 0: any that is free.'))
    advertise: str | None = groups.option(cfg.StrOpt, metavar='HOST:PORT', help=(
        'Where the others reach that, if not there; port 0: the same port. What is no '
        'address of the loopback interface is reached by TLS only, with a certificate that '
        'the process makes for itself and shows in the database.'))
    key_file: str | None = groups.option(cfg.StrOpt, help=(
        'File with the keys by which processes prove to each other over HTTP that they '
        'belong together, a line each: NAME SECRET [INTERFACE ...]. The first is sent with, '
        'all are accepted, for the interfaces named or for all. Default: rpc.keys under '
        'state_path, made at first start. All processes need the same.'))
    second_transport_url: str | None = groups.option(cfg.StrOpt, secret=True, help=(
        'Requests are taken from there too, as from transport_url; nothing is sent '
        'there but answers. For the time in which the processes move, one after the '
        'other, to another broker, virtual host or kind of queues.'))


OPTS = groups.options(RpcSettings)


def settings(conf: cfg.ConfigOpts) -> RpcSettings:
    """Read the group."""
    return groups.read(conf, GROUP, RpcSettings)
