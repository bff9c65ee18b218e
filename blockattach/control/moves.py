"""Every move that a verb makes: first committed, then sent as a notification."""
from collections.abc import Callable
from typing import Any

from blockattach import context
from blockattach.db import attachment_queries
from blockattach.db import attachment_values
from blockattach.db import attachments
from blockattach.db import engine
from blockattach.domain import attachment_lifecycle
from blockattach.domain import records
from blockattach.rpc import notifications

_NO_FACTS = attachment_values.Facts()


class AttachmentMoves:
    """Makes attachments and moves them; arguments and errors are `blockattach.db.attachments`'."""

    def __init__(self, database: engine.Database,
                 notify: notifications.AttachmentNotifications) -> None:
        self._database = database
        self._notify = notify

    def reserve(self, caller: context.RequestContext, wish: attachments.Wish,
                lease_seconds: float = 0,
                within: Callable[[Any, str], None] | None = None) -> records.Attachment:
        """Reserve the volume for a new attachment; returns it."""
        made = attachments.reserve(self._database, wish, lease_seconds, within)
        self._notify.moved(caller, None, made)
        return made

    def move(self, caller: context.RequestContext, row: records.Attachment,
             event: attachment_lifecycle.Event, facts: attachments.Facts = _NO_FACTS,
             generation: int | None = None) -> records.Attachment:
        """Apply an event to an attachment; returns the new one."""
        moved = attachments.move(self._database, row.volume_id, row.id, event, facts, generation,
                                 expected=row)
        self._notify.moved(caller, moved.old, moved.new)
        return moved.new

    def current(self, row: records.Attachment) -> records.Attachment:
        """The attachment as it is now.

        :raises AttachmentNotFound: it is gone
        """
        return attachment_queries.get(self._database, row.id)

    def forced(self, caller: context.RequestContext, row: records.Attachment) -> None:
        """Notify that an attachment is ended by force."""
        self._notify.forced(caller, row)
