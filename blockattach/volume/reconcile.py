"""Finish what was interrupted on one backend: work of volumes, and attachments.

Runs in the background at start and then periodically. Everything it does repeats a verb that may
be repeated at any time; nothing here can do what the ordinary path could not.
"""
from collections.abc import Callable

from oslo_log import log as oslo_log

from blockattach import log
from blockattach.db import attachment_queries
from blockattach.db import engine
from blockattach.domain import attachment_lifecycle
from blockattach.domain import records
from blockattach.volume import manager as managers
from blockattach.volume import repair as repairs
from blockattach.work import recover

LOG = oslo_log.getLogger(__name__)

_Event = attachment_lifecycle.Event
_State = attachment_lifecycle.State
_REMEDIES = {_Event.CONNECT: 'its host is connected', _Event.DISCONNECT: 'it is ended',
             _Event.RELEASE: 'it is ended'}


class Reconciler:
    """One backend's interrupted rows."""

    def __init__(self, database: engine.Database, manager: managers.VolumeManager,
                 recovery: recover.Recovery, repairer: repairs.Repairer,
                 settle_seconds: float = 0,
                 monotonic: Callable[[], float] = lambda: 0.0) -> None:
        """
        :param recovery: of the work of volumes
        :param settle_seconds: how long after the start a call may still come on whose account an
            attachment is being connected; callers send it again to the next process that serves
        """
        self._database = database
        self._manager = manager
        self._recovery = recovery
        self._repairer = repairer
        self._settle_seconds = settle_seconds
        self._monotonic = monotonic
        self._orphans: list[records.Attachment] = []
        self._of_deleted: list[records.Attachment] = []
        self._settled_at = 0.0

    def remember_orphans(self, others_live: bool = False) -> None:
        """Note what an earlier process instance had begun, for the first pass.

        To be called before anything new is taken on. A process alone takes every interrupted row,
        whatever its deadline; beside others, only what its own earlier instances had begun.

        :param others_live: other processes that serve this backend send heartbeats
        """
        owner = self._manager.leases.owner
        self._manager.leases.sweep()
        self._recovery.remember(others_live)
        self._orphans = attachment_queries.interrupted(
            self._database, self._manager.host, everything=not others_live,
            owner=owner if others_live else None)
        self._of_deleted = attachment_queries.of_deleted_volumes(
            self._database, self._manager.host)
        self._settled_at = self._monotonic() + self._settle_seconds

    def repair(self) -> int:
        """One pass; returns how many were repaired."""
        rows = self._orphans
        settled = self._monotonic() >= self._settled_at
        if settled:
            rows = self._untouched(rows)
        # One whose pair a thread is at work on is left to the next pass.
        self._orphans = rows
        of_deleted, self._of_deleted = self._of_deleted, []
        overdue = attachment_queries.interrupted(self._database, self._manager.host)
        due = {row.id: row for row in [*overdue, *(rows if settled else [])]}
        return self._repairer.repair(self._cases(list(due.values()), of_deleted))

    def cases(self) -> list[repairs.Case]:
        """Every row whose deadline has passed, and orphaned rows of deleted volumes.

        For a process beside the managers of the backend; nothing is changed.
        """
        host = self._manager.host
        return self._cases(attachment_queries.interrupted(self._database, host),
                           attachment_queries.of_deleted_volumes(self._database, host))

    def _cases(self, rows: list[records.Attachment],
               of_deleted: list[records.Attachment]) -> list[repairs.Case]:
        gone = {row.id for row in of_deleted}
        return [*map(self._work, self._recovery.due()), *map(self._orphaned, of_deleted),
                *(self._attachment(row) for row in rows if row.id not in gone)]

    def _untouched(self, rows: list[records.Attachment]) -> list[records.Attachment]:
        """Those that have not moved since they were read."""
        if not rows:
            return rows
        now = {row.id: row.generation for row in attachment_queries.interrupted(
            self._database, self._manager.host, everything=True)}
        return [row for row in rows if now.get(row.id) == row.generation]

    def _work(self, found: records.Work) -> repairs.Case:
        return repairs.Case('volume', f'{found.claim.name} has not ended, and its time is over',
                            'it is resumed', lambda: self._recovery.resume(found),
                            found.resource_id.partition('@')[0])

    def _attachment(self, row: records.Attachment) -> repairs.Case:
        """Forward or back: an attachment that no client can know is ended, any other goes on."""
        event = _Event.CONNECT
        if row.state is _State.DISCONNECTING or row.previous_state is None:
            event = _Event.DISCONNECT
        return self._case(row, event, f'the attachment is {row.state}, and its time is over')

    def _orphaned(self, row: records.Attachment) -> repairs.Case:
        event = _Event.RELEASE if row.state is _State.RESERVED else _Event.DISCONNECT
        return self._case(row, event, f'the attachment is {row.state}, and its volume is gone')

    def _case(self, row: records.Attachment, event: attachment_lifecycle.Event,
              said: str) -> repairs.Case:
        return repairs.Case('attachment', said, _REMEDIES[event],
                            lambda: self._resume(row, event), row.volume_id, row.id,
                            row.initiator)

    def _resume(self, row: records.Attachment, event: attachment_lifecycle.Event) -> bool:
        if self._manager.is_at_work(row):
            return False
        LOG.warning('Attachment was interrupted and is resumed%s', log.fields(
            attachment_id=row.id, volume_id=row.volume_id, state=row.state, event=event))
        self._manager.resume(row, event)
        return True
