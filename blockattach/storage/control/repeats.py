"""Idempotency keys: a request that is repeated shows what the first one made."""
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

_LOOK_SECONDS = 0.02

Made = TypeVar('Made')
_State = attachment_lifecycle.State

Within = Callable[[Any, str], None]
"""What is written in the transaction that makes something: with its connection and the new id."""


class Undone(Exception):
    """What the request made before has failed: a repeat makes it again.

    ``in_the_way``: its remains are still being removed.
    """

    def __init__(self, resource_id: str, in_the_way: bool) -> None:
        super().__init__()
        self.resource_id = resource_id
        self.in_the_way = in_the_way


class Repeats:
    """Makes something for a request, or finds what the request made before."""

    def __init__(self, database: storage_db.Database, kept_seconds: float,
                 wait_seconds: float) -> None:
        """
        :param kept_seconds: how long a key is remembered
        :param wait_seconds: how long a repeat waits for the first to end
        """
        self._database = database
        self._kept_seconds = kept_seconds
        self._wait_seconds = wait_seconds

    def once(self, request: idempotency.Request, make: Callable[[Within], Made],
             show: Callable[[str], Made]) -> Made:
        """Make it, unless it was made.

        :param make: makes it, and writes the key in the same transaction
        :param show: what was made before, by its id; raises NotFound if it is deleted, `Undone` if
            it failed
        :raises IdempotencyKeyReused: the key was used with another body
        :raises IdempotencyKeyTaken: the first is still under way, and was waited for; or it has
            failed, and is being undone
        """
        undone: Undone | None = None
        found = idempotency_keys.find(self._database, request)
        while True:
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
                    # A copy of this request may have made what was in the way.
                    continue
                if undone is not None and undone.in_the_way and isinstance(
                        exc, errors.InvalidVolume):
                    raise errors.IdempotencyKeyTaken from exc
                raise

    def _remember(self, request: idempotency.Request, mine: list[str | None], connection: Any,
                  resource_id: str) -> None:
        """Store the key of what is made now, instead of what was made first and failed.

        :param mine: what this very request has made; a transaction may be repeated
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
        """A volume made before, as it is now.

        :raises VolumeNotFound: it is deleted
        """
        return volume_queries.get(self._database, volume_id)

    def attachment(self, attachment_id: str) -> records.Attachment:
        """An attachment made before, as soon as its making has ended.

        :raises AttachmentNotFound: it is deleted
        :raises Undone: its host was never connected
        :raises IdempotencyKeyTaken: its making takes too long
        """
        deadline = self._database.clock.monotonic() + self._wait_seconds
        while _is_being_made(
                row := attachment_queries.get_even_deleted(self._database, attachment_id)):
            if self._database.clock.monotonic() > deadline:
                raise errors.IdempotencyKeyTaken
            self._database.clock.wait(threading.Event(), _LOOK_SECONDS)
        if _has_failed(row):
            raise Undone(attachment_id, in_the_way=row.state is _State.DISCONNECTING)
        if row.state is _State.GONE:
            raise errors.AttachmentNotFound(attachment_id=attachment_id)
        return row


def _is_being_made(row: records.Attachment) -> bool:
    """It was made with a connector, and its host is not connected yet: it has no former state."""
    return row.state is _State.CONNECTING and row.previous_state is None


def _has_failed(row: records.Attachment) -> bool:
    """It ends, or has ended, with an error and before its host was connected."""
    return (row.state in (_State.DISCONNECTING, _State.ERROR_DETACHING, _State.GONE)
            and row.connection is None and row.last_error is not None)
