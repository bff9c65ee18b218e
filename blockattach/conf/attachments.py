"""[attachments]: how long an attachment waits for its consumer."""
import dataclasses

from oslo_config import cfg

from blockattach.conf import settings as groups

GROUP = 'attachments'

OPTS = (
    cfg.IntOpt('reserve_timeout', default=86400, min=0,
               help='Seconds after which an attachment is released that never got a connector, '
                    'unless its server may need it: Nova is asked, and where it cannot be asked, '
                    'what names a server stays. 0: never.'),
    cfg.IntOpt('complete_timeout', default=86400, min=0,
               help='Seconds after which an attachment is ended that was connected and whose '
                    'consumer never completed it, unless its server may need it (as '
                    'reserve_timeout), or it names no server and its host is logged in. 0: '
                    'never.'),
    cfg.IntOpt('detach_timeout', default=3600, min=0,
               help='Seconds after which a detach that was announced (os-begin_detaching) and has '
                    'not begun lapses: the volume is in-use again. 0: never.'),
)


@dataclasses.dataclass(frozen=True, slots=True)
class AttachmentSettings:
    """Seconds of database time; 0: without end."""

    reserve_timeout: int = 86400
    complete_timeout: int = 86400
    detach_timeout: int = 3600


def settings(conf: cfg.ConfigOpts) -> AttachmentSettings:
    """Read the group."""
    return groups.read(conf, GROUP, AttachmentSettings)
