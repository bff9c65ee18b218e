"""Reset of the statuses of a volume by an administrator (os-reset_status).

A reset to ``detached`` deletes the attachments of the volume with their grants, so that no access
remains at the target.
"""
import dataclasses

from blockattach.platform import context
from blockattach.storage import errors
from blockattach.storage.control import attachments as attachment_control
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.db.volumes import resets
from blockattach.storage.domain import detach_rule
from blockattach.storage.domain import records
from blockattach.storage.domain import reset_rule


def reset(control: attachment_control.AttachmentControl, caller: context.RequestContext,
          volume: records.Volume, requested: reset_rule.Requested) -> None:
    """Reset the statuses of a volume for an authorized caller.

    The module `blockattach.storage.domain.reset_rule` decides whether the reset is allowed.

    :param requested: new statuses
    :raises InvalidInput: the new statuses contradict the live attachments, or are not valid
    :raises VolumeAtWork: an operation on the volume is running
    :raises AttachmentInUseByServer: Nova uses an attachment that would be deleted; nothing was
        changed
    :raises NovaUnavailable: Nova does not respond, or is not configured; nothing was changed
    :raises BackendError: an attachment could not be deleted
    """
    database = control.backend.database
    _check(volume.id, resets.reset_facts(database, volume.id, requested))
    if requested.attach_status == reset_rule.DETACHED:
        # The attachments are deleted by `remove`, which also revokes their grants at the target.
        rows = attachment_queries.of_volume(database, volume.id, with_legacy=True)
        verb = detach_rule.Verb.RESET
        # All attachments are checked before the first one is deleted, so that nothing changes if
        # the detach rule rejects one of them.
        for row in rows:
            control.rule.check(caller, row, verb)
        for row in rows:
            control.remove(caller, row, force=True, ruled=verb)
        if rows and requested.status is None:
            resets.clear(database, volume.id, volume.project_id)
    if requested.status is not None or requested.migration_status is not None:
        # The rule is checked again, because the attachments may have changed.
        _check(volume.id, resets.reset_status(
            database, volume, dataclasses.replace(requested, attach_status=None)))


def _check(volume_id: str, facts: reset_rule.Facts) -> None:
    """Raise an error if the reset rule does not allow the reset."""
    outcome = reset_rule.decide(facts).outcome
    if outcome is reset_rule.Outcome.ALLOWED:
        return
    if outcome is reset_rule.Outcome.AT_WORK:
        raise errors.VolumeAtWork(volume_id=volume_id, own_status=facts.own_status)
    raise errors.InvalidInput(reason=outcome.format(
        id=volume_id, status=facts.requested.status, now=facts.from_attachments))
