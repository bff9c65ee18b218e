"""[attachments]: how long an attachment waits for its consumer."""
import dataclasses

from oslo_config import cfg

GROUP = 'attachments'

ATTACHMENTS_OPTS = (
    cfg.IntOpt('reserve_timeout', default=0, min=0,
               help='Seconds after which an attachment is released that never got a connector, '
                    'unless Nova says that its server needs it. 0: never.'),
    cfg.IntOpt('complete_timeout', default=0, min=0,
               help='Seconds after which an attachment is ended that was connected and whose '
                    'consumer never said that it is complete, unless Nova says that its server '
                    'needs it. 0: never.'),
)


@dataclasses.dataclass(frozen=True, slots=True)
class AttachmentSettings:
    """Seconds of database time; 0: without end."""

    reserve_timeout: int = 0
    complete_timeout: int = 0


def register(conf: cfg.ConfigOpts) -> None:
    """Make the group known."""
    conf.register_opts(ATTACHMENTS_OPTS, group=GROUP)


def settings(conf: cfg.ConfigOpts) -> AttachmentSettings:
    """Read the group."""
    group = conf[GROUP]
    return AttachmentSettings(reserve_timeout=group.reserve_timeout,
                              complete_timeout=group.complete_timeout)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """For oslo.config's sample generator."""
    return [(GROUP, list(ATTACHMENTS_OPTS))]
