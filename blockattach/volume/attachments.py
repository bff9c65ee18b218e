"""Connect and disconnect: what the manager does for the row of an attachment.

The intent is in the row before the backend is touched, always. The act brings the row's pairs to
what all their rows want (`blockattach.volume.converge`).
"""
from collections.abc import Sequence

from oslo_log import log as oslo_log

from blockattach import context
from blockattach import errors
from blockattach import failpoints
from blockattach import log
from blockattach.db import attachment_queries
from blockattach.db import engine
from blockattach.domain import attachment_lifecycle
from blockattach.domain import records
from blockattach.volume import attachment_outcomes
from blockattach.volume import converge

LOG = oslo_log.getLogger(__name__)

_State = attachment_lifecycle.State


class AttachmentManager:
    """The attachments of one backend."""

    def __init__(self, database: engine.Database, converger: converge.Converger,
                 outcome: attachment_outcomes.AttachmentOutcomes) -> None:
        self._database = database
        self._converger = converger
        self._leases = converger.leases
        self.outcome = outcome
        """Where it is recorded how an act ended."""

    def resume_connect(self, caller: context.RequestContext, attachment_id: str,
                       generation: int) -> None:
        """`connect` once more, for a row whose caller does not wait any more."""
        row = attachment_queries.get(self._database, attachment_id)
        if row.initiator is None:
            raise _stale(attachment_id, generation)
        self.connect(caller, row.volume_id, row.initiator, attachment_id, generation,
                     awaited=False)

    def connect(self, caller: context.RequestContext, volume_id: str, initiator: str,
                attachment_id: str, generation: int, awaited: bool = True) -> records.Attachment:
        """Grant the initiator of a row and store the connection.

        :param awaited: a caller waits for the answer; see `attachment_lifecycle.refusal`
        :returns: the row as it is then
        :raises BackendRefused: final; the row is back where it came from, or failed
        :raises BackendUncertain: the row keeps connecting, with its deadline
        :raises StaleGeneration: another process goes on with the row; nothing was changed
        :raises AttachmentNotFound: it has gone
        """
        intent = converge.Intent(caller, attachment_id, generation, _State.CONNECTING, awaited)
        try:
            with self._leases.pair(volume_id, initiator, caller) as lease:
                failpoints.point('volume.attachments.before_grant')
                moved = self._converger.converge(lease, intent)
        except errors.StaleGeneration:
            attachment_queries.get(self._database, attachment_id)
            raise
        assert moved is not None
        previous = moved.old.previous_initiator
        if previous is not None and previous != initiator:
            self._revoke_previous(caller, volume_id, previous)
        return moved.new

    def resume_disconnect(self, caller: context.RequestContext, attachment_id: str,
                          generation: int) -> None:
        """`disconnect` once more, for a row whose caller does not wait any more."""
        row = self._leaving(attachment_id, generation)
        self.disconnect(caller, row.volume_id, _initiators(row), attachment_id, generation,
                        awaited=False)

    def disconnect(self, caller: context.RequestContext, volume_id: str,
                   initiators: Sequence[str], attachment_id: str, generation: int,
                   awaited: bool = True) -> None:
        """Revoke a row's initiators, unless another row wants them, and end the row.

        A row that was to go once more meanwhile is still to go: it is ended here.

        :param initiators: as the row had them when it was to go
        :param awaited: as in `connect`
        :raises BackendRefused: final; the row is back where it came from, or failed
        :raises BackendUncertain: the row keeps disconnecting, with its deadline
        :raises StaleGeneration: it is not to go any more; nothing was changed
        :raises AttachmentNotFound: it has gone
        """
        while True:
            failpoints.point('volume.attachments.before_revoke')
            intent = converge.Intent(caller, attachment_id, generation, _State.DISCONNECTING,
                                     awaited)
            try:
                self._disconnect(intent, volume_id, initiators)
                return
            except errors.StaleGeneration:
                row = self._leaving(attachment_id, generation)
                initiators, generation = _initiators(row), row.generation

    def is_at_work(self, row: records.Attachment) -> bool:
        """Whether a thread of this process works on the row's initiator: it ends what it does."""
        return row.initiator is not None and self._leases.is_held(row.volume_id, row.initiator)

    def has_session(self, row: records.Attachment) -> bool:
        """Whether the row's initiator is logged in; raises BackendError: unknown."""
        return any(grant.initiator == row.initiator and grant.sessions
                   for export in self._converger.target.exports()
                   if export.volume_id == row.volume_id for grant in export.grants)

    def _disconnect(self, intent: converge.Intent, volume_id: str,
                    initiators: Sequence[str]) -> None:
        """One pair after the other; the last one ends the row."""
        for number, initiator in enumerate(initiators, 1):
            with self._leases.pair(volume_id, initiator, intent.caller) as lease:
                self._converger.converge(lease, intent, ends=number == len(initiators))
        if not initiators:
            self.outcome.done(intent, self._leaving(intent.attachment_id, intent.generation), None)

    def _revoke_previous(self, caller: context.RequestContext, volume_id: str,
                         initiator: str) -> None:
        """The initiator that the row has no more; what fails, the next comparison finds."""
        try:
            with self._leases.pair(volume_id, initiator, caller) as lease:
                self._converger.converge(lease)
        except errors.BackendError as exc:
            LOG.warning('Cannot revoke an initiator that was replaced; it is tried again%s',
                        log.fields(volume_id=volume_id, initiator=initiator, reason=exc))

    def _leaving(self, attachment_id: str, generation: int) -> records.Attachment:
        """The row as it is now, to go in this generation or a later one.

        :raises StaleGeneration: it is not
        :raises AttachmentNotFound: it has gone
        """
        row = attachment_queries.get(self._database, attachment_id)
        if row.generation < generation or row.state is not _State.DISCONNECTING:
            raise _stale(attachment_id, generation)
        return row


def _initiators(row: records.Attachment) -> tuple[str, ...]:
    return tuple(sorted({*filter(None, (row.initiator, row.previous_initiator))}))


def _stale(attachment_id: str, generation: int) -> errors.StaleGeneration:
    return errors.StaleGeneration(noun='attachment', id=attachment_id, generation=generation)
