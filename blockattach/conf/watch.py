"""[watch]: streams of what happens to attachments."""
import dataclasses

from oslo_config import cfg

from blockattach.conf import settings as groups

GROUP = 'watch'


@dataclasses.dataclass(frozen=True, slots=True)
class WatchSettings:
    """Who serves streams, and what a stream may take. What ends in ``seconds`` is in seconds."""

    enabled: bool = groups.option(cfg.BoolOpt, default=False, help=(
        'Let the built-in server of this process serve streams: GET /attachments?watch=true. In '
        'blockattach-all it does without being asked. One blockattach-api with a configuration '
        'and a port of its own is enough for a cloud; the others name it in public_endpoint.'))
    public_endpoint: str | None = groups.option(
        cfg.StrOpt, read=lambda url: (url or '').rstrip('/') or None, help=(
            'What clients call the process that serves streams, without version: '
            'https://storage.example.org:8777. A process that serves none sends them there (307). '
            'Empty: it answers 400.'))
    poll_seconds: float = groups.option(
        cfg.FloatOpt, 'poll_interval', default=0.5, min=0.05, help=(
            'Seconds between two looks for what has happened, while anybody watches.'))
    most_watchers: int = groups.option(cfg.IntOpt, default=10000, min=1, help=(
        'How many streams one process serves. One more is answered 503.'))
    buffer_bytes: int = groups.option(cfg.IntOpt, default=262144, min=4096, help=(
        'How many bytes may wait for a client that reads slowly. Then its stream ends; it may go '
        'on where it was.'))
    heartbeat_seconds: float = groups.option(cfg.IntOpt, 'heartbeat_interval', default=30, min=1,
                                             help=(
        'Seconds after which a comment is sent into each stream, so that proxies keep it.'))
    longest_seconds: float = groups.option(cfg.IntOpt, 'longest_stream', default=3600, min=1,
                                           help=(
        'Seconds after which a stream ends, so that its client shows its token again. It may go '
        'on where it was.'))


OPTS = groups.options(WatchSettings)


def settings(conf: cfg.ConfigOpts) -> WatchSettings:
    """Read the group."""
    return groups.read(conf, GROUP, WatchSettings)
