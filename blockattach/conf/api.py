"""[api]: where the HTTP API listens, its authentication, and its limits."""
import dataclasses
import enum

from oslo_config import cfg

from blockattach.conf import locations
from blockattach.conf import resource_filters
from blockattach.conf import settings as groups

GROUP = 'api'
KEYSTONE_GROUP = 'keystone_authtoken'
"""What keystonemiddleware reads, where it describes the caller."""


class AuthStrategy(enum.StrEnum):
    """How the API authenticates callers."""

    KEYSTONE = 'keystone'
    HTTP_BASIC = 'http_basic'
    NOAUTH = 'noauth'


class CapabilityCheck(enum.StrEnum):
    """What the API says at once of a volume that no pool will do for."""

    OFF = 'off'
    MESSAGE = 'message'
    REJECT = 'reject'


@dataclasses.dataclass(frozen=True, slots=True)
class QueueSettings:
    """How much is done at once, and what waits. All that ends in ``timeout`` is in seconds;
    ``backend_size`` may wait for a backend that is slow."""

    work_places: int = groups.option(cfg.IntOpt, 'threads', default=8, min=1, help=(
        'How many requests one process (of the API, or blockattach-control) works on '
        'at the same time. One that waits for another process, as for a backend, is '
        'not counted. More than keep its processor busy make it slower.'))
    threads: int = groups.option(
        cfg.IntOpt, 'request_threads', default=1024, min=2, max=32768, help=(
            'How many requests the built-in server, or blockattach-control, has read at '
            'the same time: those that are worked on, and those that wait for a slot '
            'or for a backend, each in a thread. More than threads. Under another server '
            'its own option says so.'))
    size: int = groups.option(cfg.IntOpt, 'queue_size', default=4096, min=0, max=65535, help=(
        'How many requests may wait for a slot. One more is answered 503 at '
        'once.'))
    timeout: float = groups.option(cfg.IntOpt, 'queue_timeout', default=30, min=1, max=3600, help=(
        'Seconds that a request may wait for a slot, also for one at its backend. '
        'Then it is answered 503, and nothing of it was begun.'))
    header_timeout: float = groups.option(cfg.IntOpt, default=10, min=1, max=3600, help=(
        'Seconds in which a client must have sent the whole header of a request, from '
        'its first byte. The built-in server answers 408 then. So long it keeps a '
        'connection on which nothing comes.'))
    body_timeout: float = groups.option(cfg.IntOpt, default=30, min=1, max=3600, help=(
        'Seconds in which it must have sent the whole body, from the end of the '
        'header. The built-in server answers 408 then.'))
    backend_places: int = groups.option(cfg.IntOpt, default=16, min=1, help=(
        'How many requests of one process are at one backend at the same time. The '
        'others wait in the queue of that backend.'))
    backend_size: int = groups.option(
        cfg.IntOpt, 'backend_queue_size', default=256, min=0, max=65535, help=(
            'How many may wait in the queue of a backend however slow it is. More may, up '
            'to queue_size, as long as it is fast enough for them to get a slot in time; '
            'else they are answered 503 at once.'))


@dataclasses.dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of PEM files. ``client_ca`` is None where clients need no certificate."""

    cert: str = groups.option(cfg.StrOpt, 'tls_cert_file', required=True, help=(
        'Certificate of the built-in server, with those between it and the root '
        '(PEM). With it the server speaks HTTPS, TLS 1.2 or later, and only that. '
        'Read anew on SIGHUP. Empty: HTTP.'))
    key: str | None = groups.option(cfg.StrOpt, 'tls_key_file', help=(
        'Its private key (PEM), without a passphrase. Empty: it stands in '
        'tls_cert_file.'))
    client_ca: str | None = groups.option(cfg.StrOpt, 'tls_client_ca_file', help=(
        'CA certificates for clients (PEM): a client without a certificate signed by '
        'one of them is refused. Empty: clients need none.'))


@dataclasses.dataclass(frozen=True, slots=True)
class BasicAuthFiles:
    """Paths. ``roles`` is None where every user is an administrator."""

    users: str = groups.option(
        cfg.StrOpt, 'http_basic_auth_user_file', default='/etc/blockattach/htpasswd', help=(
            'Names and passwords for auth_strategy = http_basic, as "htpasswd -B" writes '
            'them (bcrypt). A change counts at once.'))
    roles: str | None = groups.option(cfg.StrOpt, 'http_basic_auth_roles_file', help=(
        'In which project and with which roles they act: lines of '
        'user:project:role,role; others are refused. A change counts at '
        'once. Empty: every user is an administrator.'))


def _without_slash(url: str | None) -> str | None:
    return (url or '').rstrip('/') or None


@dataclasses.dataclass(frozen=True, slots=True)
class ApiSettings:
    """The group as the API takes it. ``public_endpoint`` has no slash at its end; ``tls`` is None
    where the server speaks plain HTTP."""

    host: str = groups.option(cfg.StrOpt, default='127.0.0.1', help=(
        'Address that the built-in server listens on. With auth_strategy = noauth it '
        'must be one of the loopback addresses.'))
    port: int = groups.option(cfg.PortOpt, default=8776, help=(
        'Port that the built-in server listens on. 0: the first free one.'))
    queue: QueueSettings = groups.part(QueueSettings, QueueSettings())
    tls: TlsFiles | None = groups.part(TlsFiles, None)
    auth_strategy: AuthStrategy = groups.option(
        cfg.StrOpt, default=AuthStrategy.NOAUTH.value, read=AuthStrategy, choices=[
            (AuthStrategy.KEYSTONE.value,
             'Believe Keystone (group [keystone_authtoken]).'),
            (AuthStrategy.HTTP_BASIC.value,
             'Ask for a name and a password (http_basic_auth_user_file): for a service '
             'without Keystone.'),
            (AuthStrategy.NOAUTH.value,
             'Believe what the client says of itself: X-Auth-Token is user:project or '
             'user:project:role,role. Serves only clients on the same machine.')],
        help='How the API authenticates callers.')
    basic_auth: BasicAuthFiles = groups.part(BasicAuthFiles, BasicAuthFiles())
    osapi_max_limit: int = groups.option(cfg.IntOpt, default=1000, min=1, help=(
        'The most items that one page of a list has.'))
    resource_query_filters_file: str | None = groups.option(
        cfg.StrOpt, help=(
            'By what users may filter lists, as JSON: names of filters by resource, with a ~ '
            'behind a name also by a part of the value. The form is that of the '
            'resource_filters.json of Cinder, whose table is built in. Administrators are not '
            'bound by it.'))
    max_request_body_size: int = groups.option(cfg.IntOpt, default=114688, min=1, help=(
        'The largest body of a request in bytes; a larger one is answered 413.'))
    check_capabilities: CapabilityCheck = groups.option(
        cfg.StrOpt, default=CapabilityCheck.MESSAGE.value, read=CapabilityCheck, choices=[
            (CapabilityCheck.OFF.value, 'Leave it to the scheduler to find out.'),
            (CapabilityCheck.MESSAGE.value, 'Answer 202 as ever, and write the user message '
                                            'that says why each pool refused at once; the '
                                            'volume ends in error.'),
            (CapabilityCheck.REJECT.value, 'Answer 400 with the reasons; no volume is made.')],
        help=(
            'What becomes of a request for a volume that no pool will do for, as far as '
            'the pools have reported. Judged by the filters of [scheduler] '
            'scheduler_default_filters that are our own; the reports are read anew every '
            '[service] report_interval.'))
    cloned_volume_same_az: bool = groups.option(cfg.BoolOpt, default=True, help=(
        'Answer 400 to a request for a volume that is made of a volume or a snapshot in '
        'another availability zone. Else its pool is looked for, which is on the backend '
        'of what it is made of all the same.'))
    public_endpoint: str | None = groups.option(cfg.StrOpt, read=_without_slash, help=(
        'What clients call the API, without version: https://storage.example.org. '
        'Used in the links of answers. Empty: what the client has called.'))


OPTS = groups.options(ApiSettings)


def settings(conf: cfg.ConfigOpts) -> ApiSettings:
    """Read the group.

    :raises ConfigurationError: of TLS, only a part is set
    """
    return groups.read(conf, GROUP, ApiSettings, queue=queue_settings(conf), tls=_tls(conf))


def filters(conf: cfg.ConfigOpts) -> resource_filters.Filters:
    """By what users may filter lists.

    :raises ConfigurationError: the file cannot be used
    """
    with locations.named(conf, GROUP, 'resource_query_filters_file'):
        return resource_filters.read(conf[GROUP].resource_query_filters_file)


def queue_settings(conf: cfg.ConfigOpts) -> QueueSettings:
    """Read how much is done at once.

    :raises ConfigurationError: not every request that is worked on would have a thread
    """
    found = groups.read(conf, GROUP, QueueSettings)
    if found.threads < found.work_places:
        raise locations.refusal(
            conf, GROUP, 'request_threads', 'cannot work on more requests than have a thread: '
            'request_threads is less than threads')
    return found


def _tls(conf: cfg.ConfigOpts) -> TlsFiles | None:
    group = conf[GROUP]
    if group.tls_cert_file:
        return groups.read(conf, GROUP, TlsFiles)
    for name in ('tls_key_file', 'tls_client_ca_file'):
        if group[name]:
            # Better than to speak HTTP to clients that expect HTTPS.
            raise locations.refusal(conf, GROUP, name, f'cannot use {name} without tls_cert_file')
    return None
