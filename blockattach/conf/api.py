"""[api]: where the HTTP API listens, whom it believes, and its limits."""
import dataclasses
import enum

from oslo_config import cfg

GROUP = 'api'


class CapabilityCheck(enum.StrEnum):
    """What the API says at once of a volume that no pool will do for."""

    OFF = 'off'
    MESSAGE = 'message'
    REJECT = 'reject'


API_OPTS = (
    cfg.StrOpt('host', default='127.0.0.1',
               help='Address that the built-in server listens on. Without authentication '
                    '(auth_strategy = noauth) keep it to an address that only trusted clients '
                    'reach.'),
    cfg.PortOpt('port', default=8776,
                help='Port that the built-in server listens on. 0: the first free one.'),
    cfg.IntOpt('threads', default=32, min=1,
               help='How many requests the built-in server works on at the same time.'),
    cfg.StrOpt('auth_strategy', default='noauth', choices=[
               ('noauth', 'Believe what the client says of itself: X-Auth-Token is '
                          'user:project or user:project:role,role.'),
               ('keystone', 'Believe Keystone (group [keystone_authtoken]).')],
               help='How the API learns who asks.'),
    cfg.IntOpt('osapi_max_limit', default=1000, min=1,
               help='The most items that one page of a list has.'),
    cfg.IntOpt('max_request_body_size', default=114688, min=1,
               help='The largest body of a request in bytes; a larger one is answered 413.'),
    cfg.StrOpt('check_capabilities', default=CapabilityCheck.MESSAGE.value, choices=[
               (CapabilityCheck.OFF.value, 'Leave it to the scheduler to find out.'),
               (CapabilityCheck.MESSAGE.value, 'Answer 202 as ever, and write the user message '
                                               'that says why each pool refused at once; the '
                                               'volume ends in error.'),
               (CapabilityCheck.REJECT.value, 'Answer 400 with the reasons; no volume is made.')],
               help='What becomes of a request for a volume that no pool will do for, as far as '
                    'the pools have reported. Judged by the filters of [scheduler] '
                    'scheduler_default_filters that are our own; the reports are read anew every '
                    '[service] report_interval.'),
    cfg.StrOpt('public_endpoint',
               help='What clients call the API, without version: https://storage.example.org. '
                    'Used in the links of answers. Empty: what the client has called.'),
)


@dataclasses.dataclass(frozen=True, slots=True)
class ApiSettings:
    """The group as the API is told. ``public_endpoint`` has no slash at its end."""

    host: str = '127.0.0.1'
    port: int = 8776
    threads: int = 32
    auth_strategy: str = 'noauth'
    osapi_max_limit: int = 1000
    max_request_body_size: int = 114688
    public_endpoint: str | None = None
    check_capabilities: CapabilityCheck = CapabilityCheck.MESSAGE


def register(conf: cfg.ConfigOpts) -> None:
    """Make the group known."""
    conf.register_opts(API_OPTS, group=GROUP)


def settings(conf: cfg.ConfigOpts) -> ApiSettings:
    """Read the group."""
    group = conf[GROUP]
    return ApiSettings(
        host=group.host,
        port=group.port,
        threads=group.threads,
        auth_strategy=group.auth_strategy,
        osapi_max_limit=group.osapi_max_limit,
        max_request_body_size=group.max_request_body_size,
        public_endpoint=(group.public_endpoint or '').rstrip('/') or None,
        check_capabilities=CapabilityCheck(group.check_capabilities),
    )


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """For oslo.config's sample generator."""
    return [(GROUP, list(API_OPTS))]
