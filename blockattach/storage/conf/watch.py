"""Options of [watch], the streams of attachment events."""
import dataclasses

from oslo_config import cfg

from blockattach.platform.conf import settings as groups

GROUP = 'watch'


@dataclasses.dataclass(frozen=True, slots=True)
class WatchSettings:
    """Settings of the streams of attachment events."""

    enabled: bool = groups.option(cfg.BoolOpt, default=False, help=(
        'Serve watch streams (GET /attachments?watch=true) with the built-in server of this '
        'process. The default in blockattach-all is true. One blockattach-api with its own '
        'configuration and port is enough for a cloud; the other processes refer to it with '
        'public_endpoint.'))
    public_endpoint: str | None = groups.option(
        cfg.StrOpt, read=lambda url: (url or '').rstrip('/') or None, help=(
            'URL of the process that serves watch streams, without the version, such as '
            'https://storage.example.org:8777. A process that does not serve streams redirects '
            'clients to this URL (HTTP 307). If unset, the process rejects watch requests with '
            'HTTP 400.'))
    poll_seconds: float = groups.option(
        cfg.FloatOpt, 'poll_interval', default=0.5, min=0.05, help=(
            'Interval in seconds between queries for new events, while there is at least one '
            'watcher.'))
    most_watchers: int = groups.option(cfg.IntOpt, default=10000, min=1, help=(
        'Maximum number of streams per process. Further requests are rejected with HTTP 503.'))
    buffer_bytes: int = groups.option(cfg.IntOpt, default=262144, min=4096, help=(
        'Maximum number of bytes that are buffered for a slow client. If the limit is exceeded, '
        'the stream is closed. The client can resume the stream.'))
    heartbeat_seconds: float = groups.option(cfg.IntOpt, 'heartbeat_interval', default=30, min=1,
                                             help=(
        'Interval in seconds at which a comment is sent on each stream, so that proxies keep the '
        'connection open.'))
    longest_seconds: float = groups.option(cfg.IntOpt, 'longest_stream', default=3600, min=1,
                                           help=(
        'Time in seconds after which a stream is closed, so that the client authenticates again. '
        'The client can resume the stream.'))


OPTS = groups.options(WatchSettings)


def settings(conf: cfg.ConfigOpts) -> WatchSettings:
    """Return the settings of the group [watch]."""
    return groups.read(conf, GROUP, WatchSettings)
