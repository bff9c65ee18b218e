"""From the body that asks for an attachment to what shall be made."""
from collections.abc import Mapping
from typing import Any

from blockattach.db import attachments
from blockattach.db import preconditions
from blockattach.domain import connection
from blockattach.domain import connectors


def read(asked: Mapping[str, Any], expected: preconditions.Precondition,
         forbidden_by: str | None) -> attachments.Wish:
    """The attachment that is asked for; an empty connector is none.

    :raises InvalidInput: the connector is beyond `connectors.check`
    """
    mode = connection.AccessMode(asked['mode']) if 'mode' in asked else None
    return attachments.Wish(
        expected.volume.id, expected.volume.project_id, asked.get('instance_uuid'), mode,
        connector(asked), forbidden_by=forbidden_by, expected=expected)


def connector(asked: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What a host says of itself; None: nothing.

    :raises InvalidInput: it is beyond `connectors.check`
    """
    found = asked.get('connector') or {}
    connectors.check(found)
    return found or None
