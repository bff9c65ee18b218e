"""Convergence of the target to the attachments of a pair, which is a volume and an initiator.

`Converger.converge` is the only caller of ``ExportTarget.grant`` and ``ExportTarget.revoke``. It
holds the lease of the pair, reads the desired state from the attachments, and checks that the
intent is still valid. It then grants or revokes access, and records the result in the attachment.
It also sends the notification, and after a refusal by the backend creates a message to the user. A
convergence may be repeated at any time.
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
    """Planned connection or disconnection of an attachment.

    :ivar generation: generation of the attachment when the intent was read from its row
    :ivar state: state of the attachment when the intent was read, connecting or disconnecting
    :ivar awaited: True if the caller waits for the result; see `attachment_lifecycle.refusal`
    """

    caller: context.RequestContext
    attachment_id: str
    generation: int
    state: attachment_lifecycle.State
    awaited: bool = True


def stale(intent: Intent) -> errors.StaleGeneration:
    """Return the error for an intent whose attachment has changed since the intent was read."""
    return errors.StaleGeneration(noun='attachment', id=intent.attachment_id,
                                  generation=intent.generation)


class Converger:
    """Convergence of the grants at the target of a backend to the desired state of each pair."""

    def __init__(self, database: storage_db.Database, backend: backends.KeptBackend,
                 leases: lease.Leases, notify: attachment_notices.AttachmentNotifications,
                 pool: futures.Executor) -> None:
        """Create a converger.

        :param pool: threads that converge enqueued pairs
        """
        self.backend = backend
        self.leases = leases
        self.notify = notify
        self.database = database
        self._target = backend.target
        self._pool = pool

    def converge(self, lease: lease.Lease, intent: Intent | None = None,
                 ends: bool = True) -> attachments.Moved | None:
        """Converge a pair to the desired state that its attachments require.

        If the lease expires meanwhile, the pair is enqueued to be converged again.

        :param lease: lease of the pair
        :param intent: intent of the attachment that requires the convergence; None for a repair
        :param ends: True to record the result in the attachment; False if another pair of the
            attachment must be converged first
        :returns: the attachment before and after the record, or None if nothing was recorded
        :raises BackendRefused: if the backend refused without an effect; the intent is given up
        :raises BackendUncertain: if the result is unknown, also after any unexpected error
        :raises StaleGeneration: if the attachment has changed, or belongs to another pair now
        :raises AttachmentNotFound: if the attachment was deleted during the call of the backend
        """
        try:
            state = self._desired(lease)
            row = None if intent is None else self._row_of(lease, intent, state)
            try:
                connection = self._act(lease, state)
                if intent is not None and row is not None and ends:
                    return self._record(lease, intent, row, connection)
                # Nothing is recorded, so no statement would notice that the lease was lost.
                lease.check()
            except errors.BackendRefused as exc:
                if intent is not None and row is not None:
                    self._give_up(lease, intent, row, exc)
                raise
            except (errors.StaleGeneration, errors.AttachmentNotFound):
                # The call may have undone a grant or a revocation that another process has made
                # meanwhile.
                self._once_more(lease)
                raise
            return None
        finally:
            # Another process may have acted since the lease ended. Without a lease, this process
            # must not act again.
            if lease.is_late():
                self.enqueue(lease.volume_id, lease.initiator)

    def enqueue(self, volume_id: str, initiator: str) -> None:
        """Converge a pair soon, in another thread and under another lease.

        Does nothing while the process is stopping.
        """
        # A pool that is shut down raises RuntimeError. The next process that serves the backend
        # compares rows and target at its start.
        with contextlib.suppress(RuntimeError):
            self._pool.submit(self._converge_queued, volume_id, initiator)

    def _converge_queued(self, volume_id: str, initiator: str) -> None:
        try:
            with self.leases.pair(volume_id, initiator) as lease:
                self.converge(lease)
        except Exception as exc:
            LOG.warning('Failed to repair grant, will retry%s', log.fields(
                volume_id=volume_id, initiator=initiator, reason=exc),
                exc_info=not errors.is_known(exc))

    def move(self, caller: context.RequestContext, row: records.Attachment,
             event: attachment_lifecycle.Event, facts: attachments.Facts,
             held: lease.Lease | None = None) -> attachments.Moved:
        """Apply an event to an attachment, and send the notification of the new state.

        :param row: attachment as last read from the database
        :param held: lease under which the backend was called; released in the same transaction
        :raises StaleGeneration: if the attachment has changed since ``row`` was read
        :raises AttachmentNotFound: if the attachment was deleted
        :raises BackendUncertain: if the lease was lost meanwhile
        """
        moved = attachments.move(self.database, row.volume_id, row.id, event, facts,
                                 row.generation,
                                 None if held is None else held.giving_back, row, caller)
        self.notify.moved(caller, moved.old, moved.new)
        return moved

    def done(self, intent: Intent, row: records.Attachment,
             connection: Mapping[str, Any] | None = None,
             held: lease.Lease | None = None) -> attachments.Moved:
        """Record in an attachment that the backend has granted or revoked access.

        The errors are those of `move`.

        :param connection: connection of a grant, which is stored; None after a revocation
        :param held: see `move`
        """
        if row.state is _State.DISCONNECTING:
            failpoints.point('volume.attachments.after_revoke')
            return self.move(intent.caller, row, _Event.DISCONNECTED, attachments.Facts(), held)
        failpoints.point('volume.attachments.after_grant')
        # Access was revoked instead, for instance because the volume was deleted meanwhile.
        if connection is None:
            raise stale(intent)
        return self.move(intent.caller, row, _Event.CONNECTED,
                         attachments.Facts(connection=connection), held)

    def _desired(self, lease: lease.Lease, also: str | None = None) -> lease.DesiredState:
        """Return the desired state of a pair.

        :param also: id of an attachment that needs a grant, whatever its state
        :raises BackendUncertain: if the database cannot be read
        """
        with _uncertain(lease):
            return self.leases.desired_state(lease, also)

    def _row_of(self, lease: lease.Lease, intent: Intent,
                state: lease.DesiredState) -> records.Attachment:
        """Return the attachment of an intent from the attachments of its pair.

        :raises StaleGeneration: if the attachment has changed since the intent was read
        """
        row = next((row for row in state.rows if row.id == intent.attachment_id), None)
        if row is None and intent.state is _State.CONNECTING:
            # The attachment has another connector now. An earlier call may have granted access to
            # the initiator of the former connector.
            self._once_more(lease)
        if row is None or row.generation != intent.generation or row.state is not intent.state:
            raise stale(intent)
        return row

    def _act(self, lease: lease.Lease, state: lease.DesiredState) -> dict[str, Any] | None:
        """Grant or revoke the access of a pair at the target.

        :returns: connection of a grant, as a dictionary to be stored; None after a revocation
        """
        telemetry = self.backend.telemetry
        with _uncertain(lease):
            if state.volume is not None and state.grant is not None:
                with telemetry.attaching('export'):
                    export = self.backend.export_of(state.volume)
                # The store may have run a command to find the device, which takes time.
                lease.check()
                with telemetry.attaching('grant'):
                    reported = self._target.grant(export, state.grant)
                log.step(LOG, 'Initiator access granted', volume_id=lease.volume_id,
                         initiator=lease.initiator, mode=state.grant.mode)
                return self.backend.for_consumer(reported, export, state.volume).to_dict()
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
            # The transaction also releases the lease, and fails if the lease was lost.
            lease.lost = True
            raise
        lease.released = True
        return moved

    def _give_up(self, lease: lease.Lease, intent: Intent, row: records.Attachment,
                 refusal: errors.BackendRefused) -> None:
        """Record that the backend refused, and converge the pair to its state without the intent.

        Another process may have acted on the intent meanwhile. Its grant or revocation is undone.

        :raises BackendUncertain: if access of the host could not be restored
        """
        # If the attachment returns to a state with a grant, the grant must exist first. Consumers
        # rely on the state, and another process may have revoked the access meanwhile.
        if _stays(intent, row) and not self._once_more(lease, row.id):
            raise errors.BackendUncertain(
                reason=f'{refusal}; access of the host could not be restored') from refusal
        self._record_refusal(intent, row, refusal)
        self._once_more(lease)

    def _record_refusal(self, intent: Intent, row: records.Attachment,
                        refusal: errors.BackendRefused) -> None:
        """Record that the backend refused, in the attachment and in a message to the user.

        Nothing is recorded if the attachment has changed.
        """
        of_refusal = log.fields(
            attachment_id=row.id, volume_id=row.volume_id, initiator=row.initiator,
            generation=row.generation, reason=refusal)
        if row.state is _State.CONNECTING:
            LOG.warning('Failed to connect attachment%s', of_refusal)
        else:
            LOG.warning('Failed to disconnect attachment%s', of_refusal)
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
        """Converge a pair again under a lease that is held, and return True on success.

        A failed pair is retried by the next repair pass.
        """
        try:
            self._act(lease, self._desired(lease, also))
            lease.check()
        except errors.BackendError as exc:
            LOG.warning('Failed to repair grant, will retry%s', log.fields(
                volume_id=lease.volume_id, initiator=lease.initiator, reason=exc), exc_info=True)
            return False
        return True


def _stays(intent: Intent, row: records.Attachment) -> bool:
    """Return True if a refused disconnection returns the attachment to a state with a grant."""
    return row.state is _State.DISCONNECTING and attachment_lifecycle.next_state(
        row.state, _refusal(intent, row), row.previous_state) in attachment_lifecycle.GRANTED


def _refusal(intent: Intent, row: records.Attachment) -> attachment_lifecycle.Event:
    # Lists do not show a legacy reservation, so no client would see that it has failed. It returns
    # to the former state instead.
    return attachment_lifecycle.refusal(row.state, row.previous_state,
                                        intent.awaited or row.legacy_reservation)


@contextlib.contextmanager
def _uncertain(lease: lease.Lease) -> Iterator[None]:
    """Convert every error that is not a BackendError to BackendUncertain.

    After such an error, it is unknown how much of the call was carried out.
    """
    try:
        yield
    except errors.BackendError:
        raise
    except Exception as exc:
        if not isinstance(exc, errors.DatabaseUnavailable):
            LOG.error('Failed to determine outcome of backend call%s', log.fields(
                volume_id=lease.volume_id, initiator=lease.initiator), exc_info=exc)
        raise errors.BackendUncertain(reason=str(exc)) from exc
