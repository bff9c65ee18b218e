"""Attachments as the API shows them."""
from collections.abc import Mapping
from typing import Any

from blockattach.domain import attachment_lifecycle
from blockattach.domain import records

NO_MODE = 'null'
"""The mode of an attachment without one: these four letters, not JSON's null."""


def summary(attachment: records.Attachment) -> dict[str, Any]:
    """One line of a list."""
    return {
        'id': attachment.id,
        'status': attachment_lifecycle.WIRE_STATUS[attachment.state],
        'instance': attachment.instance_uuid,
        'volume_id': attachment.volume_id,
    }


def detail(attachment: records.Attachment, info: Mapping[str, Any] | None) -> dict[str, Any]:
    """All that is known of an attachment.

    :param info: how its host reaches the volume; None: nobody knows
    """
    return {
        **summary(attachment),
        'attached_at': attachment.attached_at or '',
        'detached_at': attachment.detached_at or '',
        'attach_mode': attachment.mode or NO_MODE,
        'connection_info': info,
    }
