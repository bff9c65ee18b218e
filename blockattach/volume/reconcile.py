"""Finish what was interrupted: overdue volumes and attachments, then the target's own list.

Runs in the background at start and then periodically. Everything it does repeats a verb that may
be repeated at any time; nothing here can do what the ordinary path could not.
"""
from oslo_log import log as oslo_log

from blockattach import context
from blockattach import log
from blockattach.db import attachment_queries
from blockattach.db import engine
from blockattach.db import volume_queries
from blockattach.domain import attachment_lifecycle
from blockattach.domain import records
from blockattach.domain import volume_lifecycle
from blockattach.volume import attachment_outcomes
from blockattach.volume import attachments as volume_attachments
from blockattach.volume import mending
from blockattach.volume import volumes

LOG = oslo_log.getLogger(__name__)

_Event = attachment_lifecycle.Event
_State = attachment_lifecycle.State


class Reconciler:
    """One backend's interrupted rows."""

    def __init__(self, database: engine.Database, keeper: volumes.VolumeKeeper,
                 attachment_keeper: volume_attachments.AttachmentKeeper,
                 outcome: attachment_outcomes.AttachmentOutcomes,
                 menders: mending.Menders, lease_seconds: float) -> None:
        self._database = database
        self._keeper = keeper
        self._attachments = attachment_keeper
        self._outcome = outcome
        self._menders = menders
        self._lease_seconds = lease_seconds
        self._orphans: tuple[list[records.Volume], list[records.Attachment]] | None = None

    def remember_orphans(self, owner: str) -> None:
        """Note what an earlier life of this service had begun, for the first pass.

        To be called before anything new is taken on: from then on every interrupted row is an
        orphan, whatever its deadline.

        :param owner: the name of this life of the service
        """
        self._orphans = (
            volume_queries.interrupted(self._database, self._keeper.host, owner),
            attachment_queries.interrupted(self._database, self._keeper.host, everything=True))

    def mend(self) -> int:
        """One pass; returns how many rows were gone on with."""
        found, rows = self._orphans or (
            volume_queries.interrupted(self._database, self._keeper.host),
            attachment_queries.interrupted(self._database, self._keeper.host))
        self._orphans = None
        mended = self._menders.each(self._finish_volume, [(volume,) for volume in found])
        return mended + self._menders.each(self._finish_attachment, [(row,) for row in rows])

    def _finish_volume(self, volume: records.Volume) -> None:
        LOG.warning('Volume was left half done and is gone on with%s', log.fields(
            volume_id=volume.id, own_status=volume.own_status))
        act = (self._keeper.create if volume.own_status == volume_lifecycle.OwnStatus.CREATING
               else self._keeper.delete)
        act(context.admin_context(), volume.id, volume.generation)

    def _finish_attachment(self, row: records.Attachment) -> None:
        """Forward or back: an attachment that nobody can know goes, any other goes on."""
        event = _Event.CONNECT
        if row.state is _State.DISCONNECTING or row.previous_state is None:
            event = _Event.DISCONNECT
        LOG.warning('Attachment was left half done and is gone on with%s', log.fields(
            attachment_id=row.id, volume_id=row.volume_id, state=row.state, event=event))
        caller = context.admin_context()
        generation = self._outcome.taken_on(caller, row, event, self._keeper.host,
                                            self._lease_seconds)
        act = (self._attachments.connect if event is _Event.CONNECT
               else self._attachments.disconnect)
        act(caller, row.id, generation, awaited=False)
