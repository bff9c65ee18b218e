"""Repeated requests with an idempotency key, which return the result of the first request."""
import functools
import threading
from collections.abc import Callable
from typing import Any
from typing import TypeVar

from blockattach.platform import idempotency
from blockattach.storage import errors
from blockattach.storage.db import idempotency as idempotency_keys
from blockattach.storage.db import storage_db
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import records

# Interval at which an attachment is read that another request is still creating.
_LOOK_SECONDS = 0.02

Made = TypeVar('Made')
_State = attachment_lifecycle.State

Within = Callable[[Any, str], None]
"""Stores the key in the transaction that creates a resource.

The arguments are the database connection and the ID of the new resource.
"""


class Undone(Exception):
    """Raised if the resource that an earlier request created has failed and must be replaced.

    :ivar in_the_way: True while the failed resource is still being removed
    """

    def __init__(self, resource_id: str, in_the_way: bool) -> None:
        super().__init__()
        self.resource_id = resource_id
        self.in_the_way = in_the_way


class Repeats:
    """Creation of resources for requests with an idempotency key.

    A repeated request returns the resource that the first one created.
    """

    def __init__(self, database: storage_db.Database, kept_seconds: float,
                 wait_seconds: float) -> None:
        """Create the object of a process.

        :param kept_seconds: seconds for which a key is remembered
        :param wait_seconds: seconds for which a repeat waits for the first request
        """
        self._database = database
        self._kept_seconds = kept_seconds
        self._wait_seconds = wait_seconds

    def once(self, request: idempotency.Request, make: Callable[[Within], Made],
             show: Callable[[str], Made]) -> Made:
        """Create a resource, or return the resource that an earlier request created.

        :param make: creates the resource, and stores the key in the same transaction
        :param show: returns the resource of an ID; raises NotFound if it is deleted, and `Undone`
            if its creation failed
        :raises IdempotencyKeyReused: the key was used with another body
        :raises IdempotencyKeyTaken: the first request is still running after the wait, or has
            failed and is being undone
        """
        undone: Undone | None = None
        found = idempotency_keys.find(self._database, request)
        while True:
            # A resource whose creation has failed is replaced and not shown again.
            if found is not None and (undone is None or found != undone.resource_id):
                try:
                    return show(found)
                except Undone as exc:
                    undone = exc
            mine: list[str | None] = [found]
            try:
                return make(functools.partial(self._remember, request, mine))
            except errors.BlockattachError as exc:
                found = idempotency_keys.find(self._database, request)
                if found not in mine:
                    # A copy of this request may have created the conflicting resource.
                    continue
                if undone is not None and undone.in_the_way and isinstance(
                        exc, errors.InvalidVolume):
                    # Only the failed attachment prevents the new one. The client is to retry.
                    raise errors.IdempotencyKeyTaken from exc
                raise

    def _remember(self, request: idempotency.Request, mine: list[str | None], connection: Any,
                  resource_id: str) -> None:
        """Store the key of a new resource, in place of an earlier resource that failed.

        :param mine: IDs that this request stored; a transaction may be repeated
        """
        idempotency_keys.remember(connection, self._database, request, resource_id,
                                  self._kept_seconds, mine[0])
        mine.append(resource_id)

    def find_volume(self, request: idempotency.Request) -> records.Volume | None:
        """Return the volume that a request created before, or None if it created none.

        :raises VolumeNotFound: the volume is deleted
        :raises IdempotencyKeyReused: the key was used with another body
        """
        found = idempotency_keys.find(self._database, request)
        return None if found is None else self.volume(found)

    def volume(self, volume_id: str) -> records.Volume:
        """Return the current state of a volume that an earlier request created.

        :raises VolumeNotFound: the volume is deleted
        """
        return volume_queries.get(self._database, volume_id)

    def attachment(self, attachment_id: str) -> records.Attachment:
        """Return an attachment that an earlier request created, after its creation has ended.

        :raises AttachmentNotFound: the attachment is deleted
        :raises Undone: the host was never connected
        :raises IdempotencyKeyTaken: the creation takes longer than the wait
        """
        deadline = self._database.clock.monotonic() + self._wait_seconds
        while _is_being_made(
                row := attachment_queries.get_even_deleted(self._database, attachment_id)):
            if self._database.clock.monotonic() > deadline:
                raise errors.IdempotencyKeyTaken
            # By the clock, which a simulation may replace. Nobody sets the event.
            self._database.clock.wait(threading.Event(), _LOOK_SECONDS)
        if _has_failed(row):
            raise Undone(attachment_id, in_the_way=row.state is _State.DISCONNECTING)
        if row.state is _State.GONE:
            raise errors.AttachmentNotFound(attachment_id=attachment_id)
        return row


def _is_being_made(row: records.Attachment) -> bool:
    """Return True if the attachment is being created with a connector.

    Its host is not connected yet, so the attachment has no former state.
    """
    return row.state is _State.CONNECTING and row.previous_state is None


def _has_failed(row: records.Attachment) -> bool:
    """Return True if the attachment failed before its host was connected.

    Such an attachment is deleted, or its deletion is running or has failed.
    """
    return (row.state in (_State.DISCONNECTING, _State.ERROR_DETACHING, _State.GONE)
            and row.connection is None and row.last_error is not None)
