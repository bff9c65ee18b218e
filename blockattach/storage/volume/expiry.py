"""Expiry of attachments whose consumers did not return in time.

The volume manager runs the expiry. One process at a time decides whether an attachment expires. An
expired attachment is deleted as by a delete request. If an attachment has changed since the
decision, for instance because its consumer has sent the connector after all, it is kept.
"""
import dataclasses
from collections.abc import Callable

from oslo_log import log as oslo_log

from blockattach.platform import context
from blockattach.platform import log
from blockattach.platform.telemetry import acts
from blockattach.storage import errors
from blockattach.storage.db import messages
from blockattach.storage.db import storage_db
from blockattach.storage.db.attachments import detaches
from blockattach.storage.db.attachments import waits
from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import expiry_rule
from blockattach.storage.domain import records
from blockattach.storage.volume import manager as managers

LOG = oslo_log.getLogger(__name__)

Ask = Callable[[str, str], expiry_rule.Server]
"""Function that returns Nova's answer about a server and a volume, by their ids. It raises
NovaUnavailable if Nova does not answer."""

_Event = attachment_lifecycle.Event
_Outcome = expiry_rule.Outcome
# Maximum numbers of attachments per pass: those whose waits are recorded or forgotten, and those
# that are examined. The next pass handles further attachments.
_NOTED = 1000
_JUDGED = 100
# Delay of the next check of an attachment if Nova or the target did not answer.
_AGAIN_SECONDS = 60.0
# Consecutive failures after which a pass ends, because Nova or the target is probably down.
_FAILURES = 3
_MOVED_ON = (errors.StaleGeneration, errors.NotFound, errors.InvalidTransition)


class Expirer:
    """Expiry of the waiting attachments of one backend."""

    def __init__(self, database: storage_db.Database, manager: managers.VolumeManager,
                 limits: waits.Limits, ask: Ask | None,
                 telemetry: acts.Telemetry | None = None, *,
                 nova: expiry_rule.Nova = expiry_rule.Nova.NONE,
                 detach_seconds: float = 0) -> None:
        """Create the expiry of one backend.

        :param limits: maximum waits by state; if empty, attachments never expire
        :param ask: function that asks Nova; None if this process has no access to Nova
        :param nova: whether Nova may use the volumes; ignored unless ``ask`` is None
        :param detach_seconds: seconds within which an announced detach must start; 0 for no limit
        """
        self._telemetry = telemetry or acts.Telemetry()
        self._database = database
        self._host = manager.host
        self._manager = manager
        self._limits = limits
        self._ask = ask
        self._nova = expiry_rule.Nova.ASKED if ask is not None else nova
        self._detach_seconds = detach_seconds

    def look(self) -> int:
        """Run one pass of the expiry, and return the number of deleted attachments.

        The pass also rolls back announced detaches that have not started in time.
        """
        if self._detach_seconds:
            for volume_id in detaches.lapse(self._database, self._host, self._detach_seconds):
                LOG.warning('Detaching status rolled back%s', log.fields(
                    volume_id=volume_id, reason='detach not started in time'))
        return self._end_abandoned() if self._limits else 0

    def _end_abandoned(self) -> int:
        waits.note(self._database, self._host, self._limits, _NOTED)
        abandoned, failures = [], 0
        for row in waits.overdue(self._database, self._host, self._limits, _JUDGED):
            # Another process of the cluster may have claimed the attachment first.
            if not waits.take(self._database, row, self._limits):
                continue
            try:
                if self._is_abandoned(row):
                    abandoned.append(row)
                failures = 0
            except (errors.NovaUnavailable, errors.BackendError) as exc:
                LOG.warning('Cannot determine whether attachment expired, keeping attachment%s',
                            _fields(row, reason=exc))
                waits.put_off(self._database, row, self._limits, _AGAIN_SECONDS)
                failures += 1
                if failures == _FAILURES:
                    break
        waits.forget(self._database, self._limits, _NOTED)
        self._telemetry.drift('abandoned', detected=len(abandoned))
        ended = sum(self._is_ended(row) for row in abandoned)
        self._telemetry.drift('abandoned', repaired=ended)
        return ended

    def _is_abandoned(self, row: records.Attachment) -> bool:
        """Return True if an attachment has expired by the expiry rule.

        :raises NovaUnavailable: if the rule depends on Nova, and Nova does not answer
        :raises BackendError: if the target does not report its sessions
        """
        facts = expiry_rule.Facts(
            row.id, row.instance_uuid, self._nova,
            has_session=not row.instance_uuid and row.initiator is not None
            and self._manager.has_session(row))
        decided = expiry_rule.decide(facts)
        if decided.outcome is _Outcome.ASK_NOVA:
            assert self._ask is not None and row.instance_uuid is not None
            facts = dataclasses.replace(facts, server=self._ask(row.instance_uuid, row.volume_id))
            decided = expiry_rule.decide(facts)
        return decided.outcome is _Outcome.ABANDONED

    def _is_ended(self, row: records.Attachment) -> bool:
        """Delete an expired attachment, and return True on success.

        A failed deletion is retried after the maximum wait has passed once more.
        """
        try:
            self._end(row)
        except _MOVED_ON:
            LOG.info('Attachment changed concurrently, skipping expiry%s', _fields(row))
            return False
        except Exception as exc:
            LOG.error('Failed to delete expired attachment%s',
                      _fields(row, reason=exc), exc_info=not errors.is_known(exc))
            return False
        return True

    def _end(self, row: records.Attachment) -> None:
        caller, ending = context.admin_context(), expiry_rule.ENDINGS[row.state]
        ended = self._manager.abandon(caller, row, ending.event)
        # Reported only now, because `abandon` fails if the attachment has changed meanwhile.
        LOG.warning('Deleting expired attachment%s', _fields(row))
        messages.create(self._database, row.project_id, caller.request_id, ending.text,
                        row.volume_id, words=f'Attachment {row.id}.')
        self._manager.go_on(caller, ended)


def _fields(row: records.Attachment, reason: Exception | None = None) -> log.Fields:
    return log.fields(attachment_id=row.id, volume_id=row.volume_id, state=row.state,
                      instance_uuid=row.instance_uuid, generation=row.generation, reason=reason)
