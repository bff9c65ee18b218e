"""A named request that comes again: the same thing is shown, nothing is made twice."""
import threading
from collections.abc import Callable
from typing import Any
from typing import TypeVar

from blockattach import clock
from blockattach import errors
from blockattach.db import attachment_queries
from blockattach.db import engine
from blockattach.db import idempotency
from blockattach.domain import attachment_lifecycle
from blockattach.domain import records

_LOOK_SECONDS = 0.02

Made = TypeVar('Made')
Within = Callable[[Any, str], None]
"""What is written in the transaction that makes something: with its connection and the new id."""


class Repeats:
    """Makes a thing for a request, or finds what the same request made before."""

    def __init__(self, database: engine.Database, kept_seconds: float, wait_seconds: float,
                 clock: clock.Clock) -> None:
        """
        :param kept_seconds: how long a name is remembered
        :param wait_seconds: how long a repeat waits for the first to end
        """
        self._database = database
        self._kept_seconds = kept_seconds
        self._wait_seconds = wait_seconds
        self._clock = clock

    def once(self, request: idempotency.Request | None, make: Callable[[Within | None], Made],
             show: Callable[[str], Made]) -> Made:
        """Make it, unless it was made; without a name it is made each time.

        :param make: makes it, and writes the name down in the same transaction
        :param show: what was made before, by its id; raises NotFound if it is gone
        :raises IdempotencyKeyReused: the name was given to another body
        :raises IdempotencyKeyTaken: the first is still under way, and was waited for
        """
        if request is None:
            return make(None)

        def remember(connection: Any, resource_id: str) -> None:
            idempotency.remember(connection, self._database, request, resource_id,
                                 self._kept_seconds)
        while True:
            found = idempotency.find(self._database, request)
            if found is None:
                try:
                    return make(remember)
                except errors.BlockattachError:
                    # What the same request has made meanwhile may be what was in the way.
                    found = idempotency.find(self._database, request)
                    if found is None:
                        raise
            try:
                return show(found)
            except errors.NotFound:
                if idempotency.find(self._database, request) == found:
                    raise
                # The first has failed, and what it made was undone: this one is the first now.

    def failed(self, resource_id: str) -> None:
        """What was made is undone again: a repeat is a new request."""
        idempotency.forget(self._database, resource_id)

    def attachment(self, attachment_id: str) -> records.Attachment:
        """An attachment made before, as soon as its making has ended.

        :raises AttachmentNotFound: it is gone
        :raises IdempotencyKeyTaken: its making takes too long
        """
        deadline = self._clock.monotonic() + self._wait_seconds
        never = threading.Event()
        row = attachment_queries.get(self._database, attachment_id)
        if not _is_being_made(row):
            return row
        try:
            while _is_being_made(row):
                if self._clock.monotonic() > deadline:
                    raise errors.IdempotencyKeyTaken
                self._clock.wait(never, _LOOK_SECONDS)
                row = attachment_queries.get(self._database, attachment_id)
            if row.state is not attachment_lifecycle.State.DISCONNECTING:
                return row
        except errors.AttachmentNotFound:
            pass
        # Refused or withdrawn; whoever made it may not have come to say so.
        self.failed(attachment_id)
        raise errors.AttachmentNotFound(attachment_id=attachment_id)


def _is_being_made(row: records.Attachment) -> bool:
    """Born with a connector, and its host was not let in yet: it remembers no state before."""
    return row.state is attachment_lifecycle.State.CONNECTING and row.previous_state is None
