"""os-reset_status: an administrator says what is true. It never leaves an orphan behind."""
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
    """Set what is said of a volume, by `blockattach.storage.domain.reset_rule`; the caller is
    authorized already.

    :raises InvalidInput: what is asked for contradicts the live attachments, or has no meaning
    :raises VolumeAtWork: it is being made or removed
    :raises AttachmentInUseByServer: an attachment would go that Nova uses; nothing was changed
    :raises NovaUnavailable: nobody knows whether it does; nothing was changed
    :raises BackendError: an attachment could not be ended
    """
    database = control.backend.database
    _check(volume.id, resets.reset_facts(database, volume.id, requested))
    if requested.attach_status == reset_rule.DETACHED:
        # Each attachment goes as it always goes, its grant at the target included.
        rows = attachment_queries.of_volume(database, volume.id, with_legacy=True)
        verb = detach_rule.Verb.RESET
        for row in rows:
            control.rule.check(caller, row, verb)
        for row in rows:
            control.remove(caller, row, force=True, ruled=verb)
        if rows and requested.status is None:
            resets.clear(database, volume.id, volume.project_id)
    if requested.status is not None or requested.migration_status is not None:
        # Decided again: the attachments are removed by now, and there may be new ones.
        _check(volume.id, resets.reset_status(
            database, volume, dataclasses.replace(requested, attach_status=None)))


def _check(volume_id: str, facts: reset_rule.Facts) -> None:
    """Return if the rule allows it, else raise its error."""
    outcome = reset_rule.decide(facts).outcome
    if outcome is reset_rule.Outcome.ALLOWED:
        return
    if outcome is reset_rule.Outcome.AT_WORK:
        raise errors.VolumeAtWork(volume_id=volume_id, own_status=facts.own_status)
    raise errors.InvalidInput(reason=outcome.format(
        id=volume_id, status=facts.requested.status, now=facts.from_attachments))
