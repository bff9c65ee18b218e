"""Volume manager of a backend, which serves RPC calls and resumes interrupted attachments.

The intent of a change is written to the database before the backend is called. An operation on an
attachment converges the pairs of the attachment (`blockattach.storage.volume.converge`). Work on a
volume is executed by the runner, which continues after the RPC call has returned.
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
    """Manager of the volumes and attachments of one ``host@backend``."""

    def __init__(self, host: str, converger: converge.Converger, runner: runner.Runner,
                 lease_seconds: float, reconcile: Callable[[bool], Sequence[Any]]) -> None:
        """Create the manager of a backend.

        :param lease_seconds: time in seconds that the backend may take for a resumed attachment
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
        """Claim a work item, and execute the item in a thread of the runner.

        :returns: False if another process has claimed the item, or the item has changed
        """
        return self._runner.accept(ctxt, noun, verb, resource_id, generation)

    def start_work(self, ctxt: context.RequestContext, noun: str, verb: str, resource_id: str,
                   generation: int) -> None:
        """Claim and execute a work item like `accept_work`, without a result."""
        self._runner.accept(ctxt, noun, verb, resource_id, generation)

    def connect(self, ctxt: context.RequestContext, volume_id: str, initiator: str,
                attachment_id: str, generation: int) -> Mapping[str, Any]:
        """Grant the initiator of an attachment access to its volume.

        :returns: the stored ``connection``, and ``at``, the time of the attachment (ISO 8601)
        :raises BackendRefused: if the backend refused; the attachment returns to its former state,
            or fails
        :raises BackendUncertain: if the result is unknown; the attachment remains connecting until
            its deadline
        :raises StaleGeneration: if the attachment has changed; this call has recorded nothing
        :raises AttachmentNotFound: if the attachment was deleted
        """
        row = self._connect(
            converge.Intent(ctxt, attachment_id, generation, _State.CONNECTING), volume_id,
            initiator)
        assert row.attached_at is not None
        return {'connection': row.connection, 'at': row.attached_at.isoformat()}

    def disconnect(self, ctxt: context.RequestContext, volume_id: str, initiators: Sequence[str],
                   attachment_id: str, generation: int) -> bool:
        """Revoke the access of the initiators of an attachment, and delete the attachment.

        Access that another attachment needs remains. If the disconnection was requested again
        meanwhile, the call continues with the new generation.

        :param initiators: initiators of the attachment when the disconnection was requested
        :returns: True if the attachment was the last one of its volume
        :raises BackendRefused: if the backend refused; the attachment returns to its former state,
            or fails
        :raises BackendUncertain: if the result is unknown; the attachment remains disconnecting
            until its deadline
        :raises StaleGeneration: if the attachment is no longer disconnecting
        :raises AttachmentNotFound: if the attachment was deleted
        """
        return self._disconnect(
            converge.Intent(ctxt, attachment_id, generation, _State.DISCONNECTING), volume_id,
            initiators).was_last

    def host_reservation(self, ctxt: context.RequestContext, volume_id: str,
                         initiator: str) -> str | None:
        """Return the role of an initiator in the persistent reservations of a volume.

        :returns: value of `connection.HostReservation`, or None if the role is unknown
        """
        return self.backend.host_reservation(volume_id, initiator)

    def actual_grants(self, ctxt: context.RequestContext, volume_id: str) -> Mapping[str, Any]:
        """Return the export of a volume as reported by the target.

        :returns: ``exported``, True if the target exports the volume; ``grants``, its grants
        """
        export = self.backend.actual_export(volume_id)
        return {'exported': export is not None, 'grants': [
            {'initiator': grant.initiator, 'mode': grant.mode.value, 'sessions': grant.sessions,
             'intact': grant.intact} for grant in (export.grants if export else ())]}

    def reconcile(self, ctxt: context.RequestContext,
                  dry_run: bool) -> Sequence[Mapping[str, Any]]:
        """Reconcile the target with the rows, and return each difference with its outcome.

        :param dry_run: True to report the differences without repairing them
        """
        return [dataclasses.asdict(finding) for finding in self._reconcile(dry_run)]

    def list_manageable(self, ctxt: context.RequestContext,
                        noun: str) -> Sequence[Mapping[str, Any]]:
        """Return the volumes or snapshots on the backend, including those already managed.

        :param noun: ``volume`` or ``snapshot``
        """
        return [dataclasses.asdict(item) for item in self.backend.manageable(noun)]

    def ping(self, ctxt: context.RequestContext) -> bool:
        """Return True. The response shows that the manager serves calls."""
        return True

    def sources(self, settle_seconds: float) -> list[recover.Source]:
        """Return the sources from which the recovery reads interrupted attachments.

        The sources are attachments of deleted volumes, and attachments whose deadline has passed.

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
        """Take over an interrupted attachment, and connect or disconnect it.

        :param event: event that starts the connection or the disconnection
        :raises Busy: if a thread of this process works on the pair
        :raises StaleGeneration: if another process has taken over the attachment
        :raises AttachmentNotFound: if the attachment was deleted
        """
        if row.initiator is not None and self.leases.is_held(row.volume_id, row.initiator):
            raise recover.Busy
        caller = context.admin_context()
        # The client that created the attachment reads in this error why it got no connection.
        error = _UNKNOWN if event is _Event.DISCONNECT and row.state is _State.CONNECTING else None
        taken = self._converger.move(caller, row, event, attachments.Facts(
            connector=row.connector, lease_seconds=self._lease_seconds, error=error)).new
        identifiers = log.fields(
            attachment_id=row.id, volume_id=row.volume_id, state=row.state, event=event)
        if event is _Event.CONNECT:
            LOG.warning('Connecting interrupted attachment%s', identifiers)
        else:
            LOG.warning('Disconnecting interrupted attachment%s', identifiers)
        self.go_on(caller, taken)

    def abandon(self, caller: context.RequestContext, row: records.Attachment,
                event: attachment_lifecycle.Event) -> records.Attachment:
        """Start to delete an expired attachment. The caller then calls `go_on`.

        :param event: event that starts the deletion
        :returns: the attachment after the event
        :raises StaleGeneration: if another process has taken over the attachment
        :raises AttachmentNotFound: if the attachment was deleted
        """
        new = self._converger.move(caller, row, event, attachments.Facts(
            lease_seconds=self._lease_seconds)).new
        self._converger.notify.abandoned(caller, new)
        return new

    def go_on(self, caller: context.RequestContext, row: records.Attachment) -> None:
        """Continue to connect or disconnect an attachment for which no RPC caller waits.

        Does nothing if the attachment is in any other state.
        """
        intent = converge.Intent(caller, row.id, row.generation, row.state, awaited=False)
        if row.state is _State.DISCONNECTING:
            self._disconnect(intent, row.volume_id, _initiators(row))
        elif row.state is _State.CONNECTING:
            if row.initiator is None:
                raise converge.stale(intent)
            self._connect(intent, row.volume_id, row.initiator)

    def has_session(self, row: records.Attachment) -> bool:
        """Return True if the initiator of an attachment is logged in to the volume.

        :raises BackendError: if the target does not report its sessions
        """
        return any(grant.is_of(row.initiator) and grant.sessions
                   for export in self.backend.target.exports()
                   if export.volume_id == row.volume_id for grant in export.grants)

    def _connect(self, intent: converge.Intent, volume_id: str,
                 initiator: str) -> records.Attachment:
        try:
            with self.leases.pair(volume_id, initiator, intent.caller) as lease:
                failpoints.point('volume.attachments.before_grant')
                moved = self._converger.converge(lease, intent)
        except errors.StaleGeneration:
            # Raises AttachmentNotFound if the attachment was deleted, as `connect` documents.
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
                # Another request for the disconnection may have incremented the generation.
                row = self._leaving(intent)
                initiators = _initiators(row)
                intent = dataclasses.replace(intent, generation=row.generation)

    def _disconnect_once(self, intent: converge.Intent, volume_id: str,
                         initiators: Sequence[str]) -> attachments.Moved:
        """Converge the pairs of an attachment one by one, and record the end of the attachment."""
        ended = None
        for number, initiator in enumerate(initiators, 1):
            with self.leases.pair(volume_id, initiator, intent.caller) as lease:
                ended = self._converger.converge(lease, intent, ends=number == len(initiators))
        # An attachment without initiators has no access to be revoked.
        return ended or self._converger.done(intent, self._leaving(intent))

    def _revoke_previous(self, caller: context.RequestContext, volume_id: str,
                         initiator: str) -> None:
        try:
            with self.leases.pair(volume_id, initiator, caller) as lease:
                self._converger.converge(lease)
        except errors.BackendError as exc:
            # The next repair pass retries the revocation.
            LOG.warning('Failed to revoke access of replaced initiator, will retry%s',
                        log.fields(volume_id=volume_id, initiator=initiator, reason=exc))

    def _leaving(self, intent: converge.Intent) -> records.Attachment:
        """Return the attachment of a disconnection as it is now in the database.

        :raises StaleGeneration: if the attachment is no longer disconnecting
        :raises AttachmentNotFound: if the attachment was deleted
        """
        row = attachment_queries.get(self._database, intent.attachment_id)
        if row.generation < intent.generation or row.state is not _State.DISCONNECTING:
            raise converge.stale(intent)
        return row


def _onward(row: records.Attachment) -> attachment_lifecycle.Event:
    """Return the event that resumes an interrupted attachment.

    An attachment that is being disconnected, or was not yet returned to a client, is deleted. Any
    other attachment is connected.
    """
    if row.state is _State.DISCONNECTING or row.previous_state is None:
        return _Event.DISCONNECT
    return _Event.CONNECT


def _initiators(row: records.Attachment) -> tuple[str, ...]:
    return tuple(sorted({*filter(None, (row.initiator, row.previous_initiator))}))
