"""Options of [attachments], the timeouts after which waiting attachments and detaches expire."""
import dataclasses

from oslo_config import cfg

from blockattach.platform.conf import settings as groups

GROUP = 'attachments'


@dataclasses.dataclass(frozen=True, slots=True)
class AttachmentSettings:
    """Timeouts in seconds, by the clock of the database; 0 disables the expiry."""

    reserve_timeout: int = groups.option(cfg.IntOpt, default=86400, min=0, help=(
        'Time in seconds after which an attachment that never received a connector is deleted, '
        'unless its server may still need the attachment. Nova is asked about the server. If Nova '
        'cannot be asked, attachments that name a server are kept. 0 disables the expiry.'))
    complete_timeout: int = groups.option(cfg.IntOpt, default=86400, min=0, help=(
        'Time in seconds after which an attachment that was connected but never completed is '
        'deleted. The attachment is kept if its server may still need it (see reserve_timeout), '
        'or if it names no server and its host is logged in to the target. 0 disables the '
        'expiry.'))
    detach_timeout: int = groups.option(cfg.IntOpt, default=3600, min=0, help=(
        'Time in seconds after which the volume of an announced detach (os-begin_detaching) that '
        'was not started returns to status in-use. 0 disables the expiry.'))


OPTS = groups.options(AttachmentSettings)


def settings(conf: cfg.ConfigOpts) -> AttachmentSettings:
    """Return the settings of the group [attachments]."""
    return groups.read(conf, GROUP, AttachmentSettings)
