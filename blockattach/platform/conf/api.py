"""[api]: address, authentication and limits of the HTTP API."""
import dataclasses
import enum

from oslo_config import cfg

from blockattach.platform.conf import locations
from blockattach.platform.conf import settings as groups

GROUP = 'api'
KEYSTONE_GROUP = 'keystone_authtoken'
"""Option group of keystonemiddleware."""


class AuthStrategy(enum.StrEnum):
    """Authentication method of the API."""

    KEYSTONE = 'keystone'
    HTTP_BASIC = 'http_basic'
    NOAUTH = 'noauth'


class CapabilityCheck(enum.StrEnum):
    """Response of the API to a request for a volume that no pool can hold."""

    OFF = 'off'
    MESSAGE = 'message'
    REJECT = 'reject'


@dataclasses.dataclass(frozen=True, slots=True)
class QueueSettings:
    """Limits on concurrent and waiting requests.

    All fields whose names end in ``timeout`` are in seconds. ``backend_size`` is the number of
    requests that may wait for a slow backend.
    """

    work_places: int = groups.option(cfg.IntOpt, 'threads', default=8, min=1, help=(
        'Number of requests that one API process, or blockattach-control, processes at the same '
        'time. A request that waits for another process, such as a backend, does not count. A '
        'value greater than one processor can serve makes the process slower.'))
    threads: int = groups.option(
        cfg.IntOpt, 'request_threads', default=1024, min=2, max=32768, help=(
            'Number of threads for requests in the built-in server and in blockattach-control. A '
            'request holds one thread while it is processed, and while it waits for a slot or for '
            'a backend. Must not be less than threads. Other WSGI servers use their own options '
            'instead.'))
    size: int = groups.option(cfg.IntOpt, 'queue_size', default=4096, min=0, max=65535, help=(
        'Maximum number of requests that wait for a slot. Further requests are rejected '
        'immediately with HTTP 503.'))
    timeout: float = groups.option(cfg.IntOpt, 'queue_timeout', default=30, min=1, max=3600, help=(
        'Maximum time in seconds that a request waits for a slot, including a slot at its '
        'backend. When the time has passed, the request is rejected with HTTP 503 and has had no '
        'effect.'))
    header_timeout: float = groups.option(cfg.IntOpt, default=10, min=1, max=3600, help=(
        'Maximum time in seconds between the first byte of a request and the end of its header. A '
        'slower request is rejected by the built-in server with HTTP 408. An idle connection is '
        'closed after the same time.'))
    body_timeout: float = groups.option(cfg.IntOpt, default=30, min=1, max=3600, help=(
        'Maximum time in seconds between the end of the header of a request and the end of its '
        'body. A slower request is rejected by the built-in server with HTTP 408.'))
    backend_places: int = groups.option(cfg.IntOpt, default=16, min=1, help=(
        'Maximum number of requests that one process sends to one backend at the same time. '
        'Further requests wait in the queue of the backend.'))
    backend_size: int = groups.option(
        cfg.IntOpt, 'backend_queue_size', default=256, min=0, max=65535, help=(
            'Number of requests that can wait in the queue of a backend regardless of its speed. '
            'More requests can wait, up to queue_size, as long as the backend is fast enough to '
            'start them before queue_timeout; otherwise they are rejected immediately with HTTP '
            '503.'))


@dataclasses.dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of the PEM files for HTTPS. ``client_ca`` is None if clients need no certificate."""

    cert: str = groups.option(cfg.StrOpt, 'tls_cert_file', required=True, help=(
        'Certificate of the built-in server, followed by the intermediate certificates (PEM). If '
        'set, the server accepts HTTPS only, with TLS 1.2 or later. The file is read again on '
        'SIGHUP. If unset, the server accepts HTTP.'))
    key: str | None = groups.option(cfg.StrOpt, 'tls_key_file', help=(
        'Private key of tls_cert_file (PEM), without a passphrase. If unset, tls_cert_file must '
        'contain the key.'))
    client_ca: str | None = groups.option(cfg.StrOpt, 'tls_client_ca_file', help=(
        'CA certificates that verify client certificates (PEM). A client without a certificate '
        'signed by one of these CAs is rejected. If unset, clients need no certificate.'))


@dataclasses.dataclass(frozen=True, slots=True)
class BasicAuthFiles:
    """Paths of the files for HTTP basic authentication.

    ``roles`` is None if every user is an administrator.
    """

    users: str = groups.option(
        cfg.StrOpt, 'http_basic_auth_user_file', default='/etc/blockattach/htpasswd', help=(
            'File with the user names and bcrypt password hashes for auth_strategy = http_basic, '
            'in the format of "htpasswd -B". Changes take effect immediately.'))
    roles: str | None = groups.option(cfg.StrOpt, 'http_basic_auth_roles_file', help=(
        'File with the project and the roles of each user, one user:project:role,role per line. A '
        'user who is not listed is rejected. Changes take effect immediately. If unset, every '
        'user is an administrator.'))


def _without_slash(url: str | None) -> str | None:
    return (url or '').rstrip('/') or None


@dataclasses.dataclass(frozen=True, slots=True)
class ApiSettings:
    """Settings of the ``[api]`` group.

    ``public_endpoint`` has no trailing slash. ``tls`` is None if the server accepts plain HTTP.
    """

    host: str = groups.option(cfg.StrOpt, default='127.0.0.1', help=(
        'Address on which the built-in server listens. Must be a loopback address if '
        'auth_strategy is noauth.'))
    port: int = groups.option(cfg.PortOpt, default=8776, help=(
        'Port on which the built-in server listens. 0 selects a free port.'))
    queue: QueueSettings = groups.part(QueueSettings, QueueSettings())
    tls: TlsFiles | None = groups.part(TlsFiles, None)
    auth_strategy: AuthStrategy = groups.option(
        cfg.StrOpt, default=AuthStrategy.NOAUTH.value, read=AuthStrategy, choices=[
            (AuthStrategy.KEYSTONE.value,
             'Keystone tokens, validated as configured in [keystone_authtoken].'),
            (AuthStrategy.HTTP_BASIC.value,
             'HTTP basic authentication with the users of http_basic_auth_user_file, for a '
             'deployment without Keystone.'),
            (AuthStrategy.NOAUTH.value,
             'No authentication. The client sets user, project, and roles itself: X-Auth-Token is '
             'user:project or user:project:role,role. Only clients on the same machine are '
             'served.')],
        help='Authentication method of the API.')
    basic_auth: BasicAuthFiles = groups.part(BasicAuthFiles, BasicAuthFiles())
    osapi_max_limit: int = groups.option(cfg.IntOpt, default=1000, min=1, help=(
        'Maximum number of items in one page of a list.'))
    resource_query_filters_file: str | None = groups.option(
        cfg.StrOpt, help=(
            'JSON file with the filters that users can apply to lists, by resource. A name '
            'followed by ~ also matches a part of the value. The format is that of '
            'resource_filters.json of Cinder, whose content is the default. Administrators can '
            'use any filter.'))
    max_request_body_size: int = groups.option(cfg.IntOpt, default=114688, min=1, help=(
        'Maximum size of a request body in bytes. A larger request is rejected with HTTP 413.'))
    check_capabilities: CapabilityCheck = groups.option(
        cfg.StrOpt, default=CapabilityCheck.MESSAGE.value, read=CapabilityCheck, choices=[
            (CapabilityCheck.OFF.value, 'Do not check in the API. The scheduler rejects the '
                                        'volume later.'),
            (CapabilityCheck.MESSAGE.value, 'Accept the request with HTTP 202, and create the '
                                            'user message with the reasons of each pool '
                                            'immediately. The volume ends in status error.'),
            (CapabilityCheck.REJECT.value, 'Reject the request with HTTP 400 and the reasons. No '
                                           'volume is created.')],
        help=(
            'How the API handles a request for a volume that no reported pool can hold. The check '
            'applies the built-in filters in [scheduler] scheduler_default_filters to the pool '
            'reports, which are read again every [service] report_interval seconds.'))
    cloned_volume_same_az: bool = groups.option(cfg.BoolOpt, default=True, help=(
        'Reject a request with HTTP 400 if the source volume or snapshot of the new volume is in '
        'another availability zone. If false, the request is accepted, and the volume is created '
        'on the backend of its source.'))
    public_endpoint: str | None = groups.option(cfg.StrOpt, read=_without_slash, help=(
        'URL of the API for clients, without the version, such as https://storage.example.org. '
        'Used in the links of responses. If unset, links use the URL of the request.'))


OPTS = groups.options(ApiSettings)


def settings(conf: cfg.ConfigOpts) -> ApiSettings:
    """Return the settings of the ``[api]`` group.

    :raises ConfigurationError: the TLS options are set only in part, or the limits on requests
        contradict each other
    """
    return groups.read(conf, GROUP, ApiSettings, queue=queue_settings(conf), tls=_tls(conf))


def queue_settings(conf: cfg.ConfigOpts) -> QueueSettings:
    """Return the settings of the ``[api]`` group for concurrent and waiting requests.

    :raises ConfigurationError: there are fewer request threads than work slots
    """
    found = groups.read(conf, GROUP, QueueSettings)
    # A request in progress holds a thread, so further slots could never be used.
    if found.threads < found.work_places:
        raise locations.refusal(
            conf, GROUP, 'request_threads', 'request_threads must not be less than threads')
    return found


def _tls(conf: cfg.ConfigOpts) -> TlsFiles | None:
    group = conf[GROUP]
    if group.tls_cert_file:
        return groups.read(conf, GROUP, TlsFiles)
    for name in ('tls_key_file', 'tls_client_ca_file'):
        if group[name]:
            # Refuse to start rather than serve HTTP to clients that expect HTTPS.
            raise locations.refusal(conf, GROUP, name, f'cannot use {name} without tls_cert_file')
    return None
