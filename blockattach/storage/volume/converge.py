"""One way to act on a pair, an initiator of a volume: `Converger.converge`.

Under its lease: read what all live rows of the pair want, check that the intent still stands,
grant or revoke, record: the row, its notification, the user's message. It may be repeated at any
time. The only caller of ``ExportTarget.grant`` and ``.revoke``.
"""
import contextlib
import dataclasses
import logging
from collections.abc import Iterator
from collections.abc import Mapping
from concurrent import futures
from typing import Any

from blockattach.platform import context
from blockattach.platform import failpoints
from blockattach.platform import log
from blockattach.storage import errors
from blockattach.storage.db import messages
from blockattach.storage.db import storage_db
from blockattach.storage.db.attachments import attachments
from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import records
from blockattach.storage.rpc import attachment_notices
from blockattach.storage.volume import backends
from blockattach.storage.volume import lease

LOG = logging.getLogger(__name__)

_Event = attachment_lifecycle.Event
_State = attachment_lifecycle.State


@dataclasses.dataclass(frozen=True, slots=True)
class Intent:
    """What a row says that it wants done: in ``state``, as of ``generation``.

    :ivar awaited: the caller waits for the answer; see `attachment_lifecycle.refusal`
    """

    caller: context.RequestContext
    attachment_id: str
    generation: int
    state: attachment_lifecycle.State
    awaited: bool = True


def stale(intent: Intent) -> errors.StaleGeneration:
    """Its row has moved on."""
    return errors.StaleGeneration(noun='attachment', id=intent.attachment_id,
                                  generation=intent.generation)


class Converger:
    """Brings the target of one backend to what the rows want, pair by pair."""

    def __init__(self, database: storage_db.Database, backend: backends.KeptBackend,
                 leases: lease.Leases, notify: attachment_notices.AttachmentNotifications,
                 pool: futures.Executor) -> None:
        """
        :param pool: threads in which pairs that were enqueued are converged
        """
        self.backend = backend
        self.leases = leases
        self.notify = notify
        self.database = database
        self._target = backend.target
        self._pool = pool

    def converge(self, lease: lease.Lease, intent: Intent | None = None,
                 ends: bool = True) -> attachments.Moved | None:
        """Bring a pair to what its rows want; if the lease expires meanwhile, enqueue it again.

        :param intent: on account of which row; None: of none, it is a repair
        :param ends: what is done fulfils the intent: it is recorded
        :returns: the row before and after, if it was recorded
        :raises BackendRefused: final; nothing was done, and the intent is given up
        :raises BackendUncertain: also for any unexpected error
        :raises StaleGeneration: the row has moved on, or is of another pair by now
        :raises AttachmentNotFound: it has gone while the backend was asked
        """
        try:
            state = self._desired(lease)
            row = None if intent is None else self._row_of(lease, intent, state)
            try:
                connection = self._act(lease, state)
                if intent is not None and row is not None and ends:
                    return self._record(lease, intent, row, connection)
                # No record finds out that the lease was lost.
                lease.check()
            except errors.BackendRefused as exc:
                if intent is not None and row is not None:
                    self._give_up(lease, intent, row, exc)
                raise
            except (errors.StaleGeneration, errors.AttachmentNotFound):
                # What was done on its account may have hit what others have begun meanwhile.
                self._once_more(lease)
                raise
            return None
        finally:
            if lease.is_late():
                self.enqueue(lease.volume_id, lease.initiator)

    def enqueue(self, volume_id: str, initiator: str) -> None:
        """Converge a pair soon, by a thread of its own, under a lease of its own."""
        # Where the process ends, the next one to serve compares.
        with contextlib.suppress(RuntimeError):
            self._pool.submit(self._converge_queued, volume_id, initiator)

    def _converge_queued(self, volume_id: str, initiator: str) -> None:
        try:
            with self.leases.pair(volume_id, initiator) as lease:
                self.converge(lease)
        except Exception as exc:
            LOG.warning('Failed to converge grant, will retry%s', log.fields(
                volume_id=volume_id, initiator=initiator, reason=exc),
                exc_info=not errors.is_known(exc))

    def move(self, caller: context.RequestContext, row: records.Attachment,
             event: attachment_lifecycle.Event, facts: attachments.Facts,
             held: lease.Lease | None = None) -> attachments.Moved:
        """Apply an event to a row that was read just before, and notify.

        :param held: the lease under which the backend acted, given back in the same transaction
        :raises StaleGeneration: the row has moved on
        :raises AttachmentNotFound: it is gone
        :raises BackendUncertain: the lease was lost meanwhile
        """
        moved = attachments.move(self.database, row.volume_id, row.id, event, facts,
                                 row.generation,
                                 None if held is None else held.giving_back, row, caller)
        self.notify.moved(caller, moved.old, moved.new)
        return moved

    def done(self, intent: Intent, row: records.Attachment,
             connection: Mapping[str, Any] | None = None,
             held: lease.Lease | None = None) -> attachments.Moved:
        """The backend has granted or revoked; what it reported of a grant is stored.

        For the lease and errors see `move`.
        """
        if row.state is _State.DISCONNECTING:
            failpoints.point('volume.attachments.after_revoke')
            return self.move(intent.caller, row, _Event.DISCONNECTED, attachments.Facts(), held)
        failpoints.point('volume.attachments.after_grant')
        if connection is None:
            raise stale(intent)
        return self.move(intent.caller, row, _Event.CONNECTED,
                         attachments.Facts(connection=connection), held)

    def _desired(self, lease: lease.Lease, also: str | None = None) -> lease.DesiredState:
        """What the rows want now.

        :param also: a row that wants its host granted, whatever its state says
        """
        with _uncertain(lease):
            return self.leases.desired_state(lease, also)

    def _row_of(self, lease: lease.Lease, intent: Intent,
                state: lease.DesiredState) -> records.Attachment:
        """The row of an intent that still stands, among those of its pair.

        :raises StaleGeneration: it has moved on
        """
        row = next((row for row in state.rows if row.id == intent.attachment_id), None)
        if row is None and intent.state is _State.CONNECTING:
            # It connects another host by now, and an earlier call may have granted this one.
            self._once_more(lease)
        if row is None or row.generation != intent.generation or row.state is not intent.state:
            raise stale(intent)
        return row

    def _act(self, lease: lease.Lease, state: lease.DesiredState) -> dict[str, Any] | None:
        """Grant or revoke; the connection of a grant, as it is stored."""
        telemetry = self.backend.telemetry
        with _uncertain(lease):
            if state.volume is not None and state.grant is not None:
                with telemetry.attaching('export'):
                    export = self.backend.export_of(state.volume)
                lease.check()
                with telemetry.attaching('grant'):
                    made = self._target.grant(export, state.grant)
                log.step(LOG, 'Initiator access granted', volume_id=lease.volume_id,
                         initiator=lease.initiator, mode=state.grant.mode)
                return self.backend.for_consumer(made, export, state.volume).to_dict()
            lease.check()
            with telemetry.detaching('revoke'):
                self._target.revoke(lease.volume_id, lease.initiator)
            log.step(LOG, 'Initiator access revoked', volume_id=lease.volume_id,
                     initiator=lease.initiator)
            return None

    def _record(self, lease: lease.Lease, intent: Intent, row: records.Attachment,
                connection: dict[str, Any] | None) -> attachments.Moved:
        telemetry = self.backend.telemetry
        recording = (telemetry.attaching if row.state is _State.CONNECTING
                     else telemetry.detaching)
        try:
            with recording('record'):
                moved = self.done(intent, row, connection, lease)
        except errors.BackendUncertain:
            lease.lost = True
            raise
        lease.released = True
        return moved

    def _give_up(self, lease: lease.Lease, intent: Intent, row: records.Attachment,
                 refusal: errors.BackendRefused) -> None:
        """Record a refusal, and undo what others have done on account of the intent meanwhile.

        :raises BackendUncertain: the row cannot say again that its host is granted
        """
        # It would be taken at its word, and others may have revoked its host.
        if _stays(intent, row) and not self._once_more(lease, row.id):
            raise errors.BackendUncertain(
                reason=f'{refusal}; access of the host could not be restored') from refusal
        self._record_refusal(intent, row, refusal)
        self._once_more(lease)

    def _record_refusal(self, intent: Intent, row: records.Attachment,
                        refusal: errors.BackendRefused) -> None:
        """In the row, and as a message to the user; one that has moved on is left alone."""
        LOG.warning('Failed to connect or disconnect attachment, backend refused%s', log.fields(
            attachment_id=row.id, volume_id=row.volume_id, initiator=row.initiator,
            generation=row.generation))
        try:
            self.move(intent.caller, row, _refusal(intent, row),
                      attachments.Facts(error=str(refusal)))
        except (errors.StaleGeneration, errors.AttachmentNotFound):
            log.step(LOG, 'Attachment changed concurrently, skipping', attachment_id=row.id,
                     volume_id=row.volume_id)
            return
        messages.create(self.database, row.project_id, intent.caller.request_id,
                        attachment_lifecycle.FAILURES[row.state], row.volume_id, str(refusal))

    def _once_more(self, lease: lease.Lease, also: str | None = None) -> bool:
        """Whether it was done; what cannot be done is left to the next comparison."""
        try:
            self._act(lease, self._desired(lease, also))
            lease.check()
        except errors.BackendError:
            LOG.warning('Failed to repair grant, will retry%s', log.fields(
                volume_id=lease.volume_id, initiator=lease.initiator), exc_info=True)
            return False
        return True


def _stays(intent: Intent, row: records.Attachment) -> bool:
    """Whether a row that is refused to go will say again that its host is granted."""
    return row.state is _State.DISCONNECTING and attachment_lifecycle.next_state(
        row.state, _refusal(intent, row), row.previous_state) in attachment_lifecycle.GRANTED


def _refusal(intent: Intent, row: records.Attachment) -> attachment_lifecycle.Event:
    # Nothing would show that a reservation has failed: it stays as it is.
    return attachment_lifecycle.refusal(row.state, row.previous_state,
                                        intent.awaited or row.legacy_reservation)


@contextlib.contextmanager
def _uncertain(lease: lease.Lease) -> Iterator[None]:
    """Any error but the backend's own leaves open how far it came."""
    try:
        yield
    except errors.BackendError:
        raise
    except Exception as exc:
        if not isinstance(exc, errors.DatabaseUnavailable):
            LOG.error('Failed to determine outcome of backend call%s', log.fields(
                volume_id=lease.volume_id, initiator=lease.initiator), exc_info=exc)
        raise errors.BackendUncertain(reason=str(exc)) from exc
