"""From the body that asks for an attachment to what shall be made."""
from collections.abc import Mapping
from typing import Any

from blockattach.db import admissions
from blockattach.db import attachments
from blockattach.domain import connection


def read(asked: Mapping[str, Any], seen: admissions.Seen,
         forbidden_by: str | None) -> attachments.Wish:
    """The attachment that is asked for; an empty connector is none."""
    mode = connection.AccessMode(asked['mode']) if 'mode' in asked else None
    return attachments.Wish(
        seen.volume.id, seen.volume.project_id, asked.get('instance_uuid'), mode,
        asked.get('connector') or None, forbidden_by=forbidden_by, seen=seen)
