"""[attachments]: how long an attachment waits for its consumer."""
import dataclasses

from oslo_config import cfg

from blockattach.conf import settings as groups

GROUP = 'attachments'


@dataclasses.dataclass(frozen=True, slots=True)
class AttachmentSettings:
    """Seconds of database time; 0: without end."""

    reserve_timeout: int = groups.option(cfg.IntOpt, default=86400, min=0, help=(
        'Seconds after which an attachment is released that never got a connector, '
        'unless its server may need it: Nova is asked, and where it cannot be asked, '
        'what names a server stays. 0: never.'))
    complete_timeout: int = groups.option(cfg.IntOpt, default=86400, min=0, help=(
        'Seconds after which an attachment is ended that was connected and whose '
        'consumer never completed it, unless its server may need it (as '
        'reserve_timeout), or it names no server and its host is logged in. 0: '
        'never.'))
    detach_timeout: int = groups.option(cfg.IntOpt, default=3600, min=0, help=(
        'Seconds after which a detach that was announced (os-begin_detaching) and has '
        'not begun lapses: the volume is in-use again. 0: never.'))


OPTS = groups.options(AttachmentSettings)


def settings(conf: cfg.ConfigOpts) -> AttachmentSettings:
    """Read the group."""
    return groups.read(conf, GROUP, AttachmentSettings)
