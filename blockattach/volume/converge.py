"""One way to act on a pair, an initiator of a volume: `Converger.converge`.

Under its lease: read what all live rows of the pair want, check that the intent still stands,
grant or revoke, record. It may be repeated at any time. The only caller of ``ExportTarget.grant``
and ``.revoke``.
"""
import contextlib
from collections.abc import Iterator
from concurrent import futures
from typing import Any

from oslo_log import log as oslo_log

from blockattach import errors
from blockattach import log
from blockattach.db import attachments
from blockattach.db import desired_state
from blockattach.db import engine
from blockattach.domain import attachment_lifecycle
from blockattach.domain import records
from blockattach.volume import attachment_outcomes
from blockattach.volume import backends
from blockattach.volume import lease

LOG = oslo_log.getLogger(__name__)

_State = attachment_lifecycle.State
Intent = attachment_outcomes.Intent


class Converger:
    """Brings the target of one backend to what the rows want, pair by pair."""

    def __init__(self, database: engine.Database, backend: backends.KeptBackend,
                 leases: lease.Leases, outcome: attachment_outcomes.AttachmentOutcomes,
                 pool: futures.Executor) -> None:
        """
        :param pool: threads in which pairs that were enqueued are converged
        """
        self.leases = leases
        self.target = backend.target
        self._database = database
        self._backend = backend
        self._outcome = outcome
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
            LOG.warning('Cannot converge a pair; it is tried again%s', log.fields(
                volume_id=volume_id, initiator=initiator, reason=exc),
                exc_info=not errors.is_known(exc))

    def _desired(self, lease: lease.Lease, also: str | None = None) -> desired_state.DesiredState:
        """What the rows want now, once no other process has a lease where this one stores none.

        The intent is in the row already, and a process that stores a lease looks for intents then:
        at least one of the two sees the other.

        :param also: a row that wants its host granted, whatever its state says
        """
        with _uncertain(lease):
            while True:
                state = desired_state.get(
                    self._database, lease.volume_id, lease.initiator, also)
                if lease.stored is not None or state.leased_by is None:
                    return state
                lease.wait()

    def _row_of(self, lease: lease.Lease, intent: Intent,
                state: desired_state.DesiredState) -> records.Attachment:
        """The row of an intent that still stands, among those of its pair.

        :raises StaleGeneration: it has moved on
        """
        row = next((row for row in state.rows if row.id == intent.attachment_id), None)
        if row is None and intent.state is _State.CONNECTING:
            # It connects another host by now, and an earlier call may have granted this one.
            self._once_more(lease)
        if row is None or row.generation != intent.generation or row.state is not intent.state:
            raise errors.StaleGeneration(noun='attachment', id=intent.attachment_id,
                                         generation=intent.generation)
        return row

    def _act(self, lease: lease.Lease, state: desired_state.DesiredState) -> dict[str, Any] | None:
        """Grant or revoke; the connection of a grant, as it is stored."""
        telemetry = self._backend.telemetry
        with _uncertain(lease):
            if state.volume is not None and state.grant is not None:
                with telemetry.attaching('export'):
                    export = self._backend.export_of(state.volume)
                lease.check()
                with telemetry.attaching('grant'):
                    made = self.target.grant(export, state.grant)
                return self._backend.for_consumer(made, export, state.volume).to_dict()
            lease.check()
            with telemetry.detaching('revoke'):
                self.target.revoke(lease.volume_id, lease.initiator)
            return None

    def _record(self, lease: lease.Lease, intent: Intent, row: records.Attachment,
                connection: dict[str, Any] | None) -> attachments.Moved:
        telemetry = self._backend.telemetry
        recording = (telemetry.attaching if row.state is _State.CONNECTING
                     else telemetry.detaching)
        try:
            with recording('record'):
                moved = self._outcome.done(intent, row, connection, lease.stored)
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
        if self._outcome.stays(intent, row) and not self._once_more(lease, row.id):
            raise errors.BackendUncertain(
                reason=f'{refusal}; and its host cannot be granted again') from refusal
        self._outcome.refused(intent, row, refusal)
        self._once_more(lease)

    def _once_more(self, lease: lease.Lease, also: str | None = None) -> bool:
        """Whether it was done; what cannot be done is left to the next comparison."""
        try:
            self._act(lease, self._desired(lease, also))
            lease.check()
        except errors.BackendError:
            LOG.warning('Cannot put a grant right; it is tried again%s', log.fields(
                volume_id=lease.volume_id, initiator=lease.initiator), exc_info=True)
            return False
        return True


@contextlib.contextmanager
def _uncertain(lease: lease.Lease) -> Iterator[None]:
    """Any error but the backend's own leaves open how far it came."""
    try:
        yield
    except errors.BackendError:
        raise
    except Exception as exc:
        if not isinstance(exc, errors.DatabaseUnavailable):
            LOG.error('Cannot find out how far the backend came%s', log.fields(
                volume_id=lease.volume_id, initiator=lease.initiator), exc_info=exc)
        raise errors.BackendUncertain(reason=str(exc)) from exc
