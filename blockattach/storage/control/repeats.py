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

# Interval between reads of an attachment that another request is still creating.
_LOOK_SECONDS = 0.02

Made = TypeVar('Made')
_State = attachment_lifecycle.State

Within = Callable[[Any, str], None]
"""Function that stores the idempotency key in the transaction that creates a resource.

The arguments are the database connection and the ID of the new resource.
"""


class Undone(Exception):
    """Raised if the creation of a resource by an earlier request has failed.

    The repeated request must create a new resource.

    :ivar resource_id: ID of the failed resource
    :ivar in_the_way: True if the failed resource is still being removed
    """

    def __init__(self, resource_id: str, in_the_way: bool) -> None:
        super().__init__()
        self.resource_id = resource_id
        self.in_the_way = in_the_way


class Repeats:
    """Creation of resources by requests with an idempotency key.

    A repeated request returns the resource that the first request has created.
    """

    def __init__(self, database: storage_db.Database, kept_seconds: float,
                 wait_seconds: float) -> None:
        """
        :param kept_seconds: seconds after which a stored key expires
        :param wait_seconds: seconds for which a repeated request waits for the first request
        """
        self._database = database
        self._kept_seconds = kept_seconds
        self._wait_seconds = wait_seconds

    def once(self, request: idempotency.Request, make: Callable[[Within], Made],
             show: Callable[[str], Made]) -> Made:
        """Create a resource, or return the resource that an earlier request has created.

        :param make: function that creates the resource. It calls its argument in the transaction
            of the creation
        :param show: function that returns a resource by its ID. It raises NotFound if the resource
            is deleted, and `Undone` if its creation has failed
        :raises IdempotencyKeyReused: the key was used with another request body
        :raises IdempotencyKeyTaken: the first request is still running after the wait, or its
            failed resource is still being removed
        """
        undone: Undone | None = None
        found = idempotency_keys.find(self._database, request)
        while True:
            # A resource whose creation has failed is not shown again, but replaced.
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
                    # A repetition of this request may have created the conflicting resource.
                    continue
                if undone is not None and undone.in_the_way and isinstance(
                        exc, errors.InvalidVolume):
                    # Only the failed attachment prevents the new one, so the client should retry.
                    raise errors.IdempotencyKeyTaken from exc
                raise

    def _remember(self, request: idempotency.Request, mine: list[str | None], connection: Any,
                  resource_id: str) -> None:
        """Store the idempotency key with the ID of a new resource.

        :param mine: ID of the failed resource that is replaced, or None, followed by the IDs that
            this request has stored. There may be several, because a transaction may be repeated
        """
        idempotency_keys.remember(connection, self._database, request, resource_id,
                                  self._kept_seconds, mine[0])
        mine.append(resource_id)

    def find_volume(self, request: idempotency.Request) -> records.Volume | None:
        """Return the volume that an earlier request with the same idempotency key has created.

        :returns: None if no volume was created
        :raises VolumeNotFound: the volume is deleted
        :raises IdempotencyKeyReused: the key was used with another request body
        """
        found = idempotency_keys.find(self._database, request)
        return None if found is None else self.volume(found)

    def volume(self, volume_id: str) -> records.Volume:
        """Return a volume that an earlier request has created, in its current state.

        :raises VolumeNotFound: the volume is deleted
        """
        return volume_queries.get(self._database, volume_id)

    def attachment(self, attachment_id: str) -> records.Attachment:
        """Wait for the creation of an attachment by an earlier request, and return the attachment.

        :raises AttachmentNotFound: the attachment is deleted
        :raises Undone: the creation has failed, because the host could not be connected
        :raises IdempotencyKeyTaken: the creation has not ended within ``wait_seconds``
        """
        deadline = self._database.clock.monotonic() + self._wait_seconds
        while _is_being_made(
                row := attachment_queries.get_even_deleted(self._database, attachment_id)):
            if self._database.clock.monotonic() > deadline:
                raise errors.IdempotencyKeyTaken
            # The clock can be replaced by a simulation. The event is never set.
            self._database.clock.wait(threading.Event(), _LOOK_SECONDS)
        if _has_failed(row):
            raise Undone(attachment_id, in_the_way=row.state is _State.DISCONNECTING)
        if row.state is _State.GONE:
            raise errors.AttachmentNotFound(attachment_id=attachment_id)
        return row


def _is_being_made(row: records.Attachment) -> bool:
    """Return True if an attachment is being created with a connector.

    Its first connection has not ended yet, so it has no previous state.
    """
    return row.state is _State.CONNECTING and row.previous_state is None


def _has_failed(row: records.Attachment) -> bool:
    """Return True if the creation of an attachment failed before its host was connected.

    Such an attachment is deleted, or its deletion is running or has failed.
    """
    return (row.state in (_State.DISCONNECTING, _State.ERROR_DETACHING, _State.GONE)
            and row.connection is None and row.last_error is not None)
