"""The manager of one backend: what other processes ask of it, and what it resumes by itself.

The intent is in a row before the backend is touched, always. An act on an attachment brings the
row's pairs to what all their rows want (`blockattach.storage.volume.converge`); work on a volume
is handed to the runner, and goes on after the answer.
"""
import dataclasses
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from oslo_log import log as oslo_log

from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.platform import log
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.db.attachments import attachments
from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import records
from blockattach.storage.rpc import volume as volume_rpc
from blockattach.storage.volume import converge
from blockattach.storage.work import recover
from blockattach.storage.work import runner

LOG = oslo_log.getLogger(__name__)

_Event = attachment_lifecycle.Event
_State = attachment_lifecycle.State
_UNKNOWN = ('the request that created the attachment was interrupted, so no client received its '
            'connection')


class VolumeManager(volume_rpc.VolumeInterface):
    """The volumes and attachments of one ``host@backend``."""

    def __init__(self, host: str, converger: converge.Converger, runner: runner.Runner,
                 lease_seconds: float, reconcile: Callable[[bool], Sequence[Any]]) -> None:
        """
        :param lease_seconds: how long the backend may take for a row that is resumed
        :param reconcile: `blockattach.storage.volume.repair.OneShot.run` of this backend
        """
        self.host = host
        self.backend = converger.backend
        self.leases = converger.leases
        self._database = converger.database
        self._converger = converger
        self._runner = runner
        self._lease_seconds = lease_seconds
        self._reconcile = reconcile

    def accept_work(self, ctxt: context.RequestContext, noun: str, verb: str, resource_id: str,
                    generation: int) -> bool:
        """Take work on; False when it has gone elsewhere meanwhile."""
        return self._runner.accept(ctxt, noun, verb, resource_id, generation)

    def start_work(self, ctxt: context.RequestContext, noun: str, verb: str, resource_id: str,
                   generation: int) -> None:
        """Take work on, unless it is at work already."""
        self._runner.accept(ctxt, noun, verb, resource_id, generation)

    def connect(self, ctxt: context.RequestContext, volume_id: str, initiator: str,
                attachment_id: str, generation: int) -> Mapping[str, Any]:
        """Grant an attachment's initiator; returns what is in its row then.

        :raises BackendRefused: final; the row is back where it came from, or failed
        :raises BackendUncertain: the row keeps connecting, with its deadline
        :raises StaleGeneration: another process goes on with the row; nothing was changed
        :raises AttachmentNotFound: it has gone
        """
        row = self._connect(
            converge.Intent(ctxt, attachment_id, generation, _State.CONNECTING), volume_id,
            initiator)
        assert row.attached_at is not None
        return {'connection': row.connection, 'at': row.attached_at.isoformat()}

    def disconnect(self, ctxt: context.RequestContext, volume_id: str, initiators: Sequence[str],
                   attachment_id: str, generation: int) -> bool:
        """Revoke a row's initiators, unless another row wants them, and end the row.

        A row that was to go once more meanwhile is still to go: it is ended here.

        :param initiators: as the row had them when it was to go
        :returns: whether it was the last one of its volume
        :raises BackendRefused: final; the row is back where it came from, or failed
        :raises BackendUncertain: the row keeps disconnecting, with its deadline
        :raises StaleGeneration: it is not to go any more; nothing was changed
        :raises AttachmentNotFound: it has gone
        """
        return self._disconnect(
            converge.Intent(ctxt, attachment_id, generation, _State.DISCONNECTING), volume_id,
            initiators).was_last

    def host_reservation(self, ctxt: context.RequestContext, volume_id: str,
                         initiator: str) -> str | None:
        """What an initiator holds of a volume."""
        return self.backend.host_reservation(volume_id, initiator)

    def actual_grants(self, ctxt: context.RequestContext, volume_id: str) -> Mapping[str, Any]:
        """What the target says of a volume."""
        found = self.backend.actual_export(volume_id)
        return {'exported': found is not None, 'grants': [
            {'initiator': one.initiator, 'mode': one.mode.value, 'sessions': one.sessions,
             'intact': one.intact} for one in (found.grants if found else ())]}

    def reconcile(self, ctxt: context.RequestContext,
                  dry_run: bool) -> Sequence[Mapping[str, Any]]:
        """What differs between rows and target, and what came of it."""
        return [dataclasses.asdict(one) for one in self._reconcile(dry_run)]

    def list_manageable(self, ctxt: context.RequestContext,
                        noun: str) -> Sequence[Mapping[str, Any]]:
        """What lies on the backend that could be managed."""
        return [dataclasses.asdict(one) for one in self.backend.manageable(noun)]

    def ping(self, ctxt: context.RequestContext) -> bool:
        """Whether the manager is there."""
        return True

    def sources(self, settle_seconds: float) -> list[recover.Source]:
        """Where interrupted attachments are found: each row is its own work.

        :param settle_seconds: see `recover.Source`
        """
        return [
            recover.Source(
                lambda **start: attachment_queries.of_deleted_volumes(
                    self._database, self.host, **start),
                lambda row: self._case(row, _Event.RELEASE if row.state is _State.RESERVED
                                       else _Event.DISCONNECT, 'its volume was deleted')),
            recover.Source(
                lambda **start: attachment_queries.interrupted(
                    self._database, self.host, **start),
                lambda row: self._case(row, _onward(row), 'its deadline has passed'),
                settle_seconds)]

    def _case(self, row: records.Attachment, event: attachment_lifecycle.Event,
              why: str) -> recover.Case:
        return recover.Case(
            'attachment', f'the attachment is {row.state} and {why}',
            'connect the host' if event is _Event.CONNECT else 'delete the attachment',
            lambda: self._resume(row, event), row.volume_id, row.id, row.initiator)

    def _resume(self, row: records.Attachment, event: attachment_lifecycle.Event) -> None:
        """Take an interrupted row over and go on with it, forward or back, as the event says.

        :raises Busy: a thread of this process works on its initiator
        :raises StaleGeneration: another process has taken it over
        :raises AttachmentNotFound: it is gone
        """
        if row.initiator is not None and self.leases.is_held(row.volume_id, row.initiator):
            raise recover.Busy
        caller = context.admin_context()
        # Its caller sees by the reason that it never had the connection.
        error = _UNKNOWN if event is _Event.DISCONNECT and row.state is _State.CONNECTING else None
        taken = self._converger.move(caller, row, event, attachments.Facts(
            connector=row.connector, lease_seconds=self._lease_seconds, error=error)).new
        LOG.warning('Resuming interrupted attachment%s', log.fields(
            attachment_id=row.id, volume_id=row.volume_id, state=row.state, event=event))
        self.go_on(caller, taken)

    def abandon(self, caller: context.RequestContext, row: records.Attachment,
                event: attachment_lifecycle.Event) -> records.Attachment:
        """The consumer of a row never came back: it goes, by `go_on`.

        :raises StaleGeneration: another process has taken it over
        :raises AttachmentNotFound: it is gone
        """
        new = self._converger.move(caller, row, event, attachments.Facts(
            lease_seconds=self._lease_seconds)).new
        self._converger.notify.abandoned(caller, new)
        return new

    def go_on(self, caller: context.RequestContext, row: records.Attachment) -> None:
        """Connect or disconnect a row, as its state says, for which no caller waits any more."""
        intent = converge.Intent(caller, row.id, row.generation, row.state, awaited=False)
        if row.state is _State.DISCONNECTING:
            self._disconnect(intent, row.volume_id, _initiators(row))
        elif row.state is _State.CONNECTING:
            if row.initiator is None:
                raise converge.stale(intent)
            self._connect(intent, row.volume_id, row.initiator)

    def has_session(self, row: records.Attachment) -> bool:
        """Whether the row's initiator is logged in; raises BackendError: unknown."""
        return any(grant.is_of(row.initiator) and grant.sessions
                   for export in self.backend.target.exports()
                   if export.volume_id == row.volume_id for grant in export.grants)

    def _connect(self, intent: converge.Intent, volume_id: str,
                 initiator: str) -> records.Attachment:
        """Grant the initiator of a row and store the connection; the row as it is then."""
        try:
            with self.leases.pair(volume_id, initiator, intent.caller) as lease:
                failpoints.point('volume.attachments.before_grant')
                moved = self._converger.converge(lease, intent)
        except errors.StaleGeneration:
            attachment_queries.get(self._database, intent.attachment_id)
            raise
        assert moved is not None
        previous = moved.old.previous_initiator
        if previous is not None and previous != initiator:
            self._revoke_previous(intent.caller, volume_id, previous)
        return moved.new

    def _disconnect(self, intent: converge.Intent, volume_id: str,
                    initiators: Sequence[str]) -> attachments.Moved:
        while True:
            failpoints.point('volume.attachments.before_revoke')
            try:
                return self._disconnect_once(intent, volume_id, initiators)
            except errors.StaleGeneration:
                row = self._leaving(intent)
                initiators = _initiators(row)
                intent = dataclasses.replace(intent, generation=row.generation)

    def _disconnect_once(self, intent: converge.Intent, volume_id: str,
                         initiators: Sequence[str]) -> attachments.Moved:
        """One pair after the other; the last one ends the row."""
        ended = None
        for number, initiator in enumerate(initiators, 1):
            with self.leases.pair(volume_id, initiator, intent.caller) as lease:
                ended = self._converger.converge(lease, intent, ends=number == len(initiators))
        return ended or self._converger.done(intent, self._leaving(intent))

    def _revoke_previous(self, caller: context.RequestContext, volume_id: str,
                         initiator: str) -> None:
        """The initiator that the row has no more; what fails, the next comparison finds."""
        try:
            with self.leases.pair(volume_id, initiator, caller) as lease:
                self._converger.converge(lease)
        except errors.BackendError as exc:
            LOG.warning('Failed to revoke access of replaced initiator, will retry%s',
                        log.fields(volume_id=volume_id, initiator=initiator, reason=exc))

    def _leaving(self, intent: converge.Intent) -> records.Attachment:
        """The row as it is now, to go in the intent's generation or a later one.

        :raises StaleGeneration: it is not
        :raises AttachmentNotFound: it has gone
        """
        row = attachment_queries.get(self._database, intent.attachment_id)
        if row.generation < intent.generation or row.state is not _State.DISCONNECTING:
            raise converge.stale(intent)
        return row


def _onward(row: records.Attachment) -> attachment_lifecycle.Event:
    """Forward or back: an attachment that no client can know is ended, any other goes on."""
    if row.state is _State.DISCONNECTING or row.previous_state is None:
        return _Event.DISCONNECT
    return _Event.CONNECT


def _initiators(row: records.Attachment) -> tuple[str, ...]:
    return tuple(sorted({*filter(None, (row.initiator, row.previous_initiator))}))
