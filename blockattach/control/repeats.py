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
        """
        if request is None:
            return make(None)
        found = idempotency.find(self._database, request)
        if found is not None:
            return show(found)

        def remember(connection: Any, resource_id: str) -> None:
            idempotency.remember(connection, self._database, request, resource_id,
                                 self._kept_seconds)
        try:
            return make(remember)
        except errors.IdempotencyKeyTaken:
            found = idempotency.find(self._database, request)
            if found is None:
                raise
            return show(found)

    def failed(self, resource_id: str) -> None:
        """What was made is undone again: a repeat is a new request."""
        idempotency.forget(self._database, resource_id)

    def attachment(self, attachment_id: str) -> records.Attachment:
        """An attachment made before, as soon as nobody is at work on it any more.

        :raises AttachmentNotFound: it is gone
        """
        deadline = self._clock.monotonic() + self._wait_seconds
        never = threading.Event()
        while True:
            row = attachment_queries.get(self._database, attachment_id)
            busy = row.state in attachment_lifecycle.TRANSITIONAL
            if not busy or self._clock.monotonic() > deadline:
                return row
            self._clock.wait(never, _LOOK_SECONDS)
