"""Invariants of targets, checked against the rows."""
from collections.abc import Iterator

from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import connection
from blockattach.storage.domain.invariants import observed

_Found = observed.Found
_Severity = observed.Severity
_State = attachment_lifecycle.State
_RW = connection.AccessMode.RW
# Unlike `attachment_lifecycle.GRANTED`, the set does not contain connecting, because the grant of
# a connecting attachment may not exist yet.
_GRANTED = frozenset({_State.CONNECTED, _State.ATTACHED})


def _on_target(facts: observed.Facts) -> Iterator[tuple[observed.VolumeFact, observed.TargetFact]]:
    """Yield each live volume whose target was read, together with the target."""
    targets = {target.host: target for target in facts.targets}
    for volume in facts.volumes:
        if volume.host in targets and not volume.deleted:
            yield volume, targets[volume.host]


def _actual(facts: observed.Facts) -> dict[tuple[str, str], connection.ActualGrant]:
    return {(grant.volume_id, grant.initiator): grant
            for target in facts.targets for grant in target.grants}


def _every_user_is_granted(facts: observed.Facts) -> Iterator[_Found]:
    asked = {volume.id for volume, _ in _on_target(facts)}
    actual = _actual(facts)
    for row in facts.attachments:
        if row.deleted or row.state not in _GRANTED or row.initiator is None \
                or row.volume_id not in asked:
            continue
        if (row.volume_id, row.initiator) not in actual:
            yield _Found(row.volume_id, row.id,
                         f'is {row.state} but {row.initiator} has no grant at the target')


def _nobody_else_is_granted(facts: observed.Facts) -> Iterator[_Found]:
    wanted = facts.wanted()
    for pair, grant in sorted(_actual(facts).items()):
        if pair not in wanted and pair not in facts.busy:
            yield _Found(grant.volume_id, None,
                         f'{grant.initiator} has a grant at the target ({grant.mode}) but no '
                         f'attachment')


def _modes_are_enforced(facts: observed.Facts) -> Iterator[_Found]:
    actual = _actual(facts)
    accounts = {(grant.volume_id, grant.initiator): grant.account for grant in facts.grants}
    for pair, mode in sorted(facts.wanted().items()):
        grant = actual.get(pair)
        if grant is None or pair in facts.busy:
            continue
        if grant.mode != mode:
            yield _Found(grant.volume_id, None, f'the grant of {grant.initiator} is {grant.mode} '
                         f'but the attachments require {mode}')
        elif not grant.intact or grant.account not in (None, accounts.get(pair)):
            yield _Found(grant.volume_id, None, f'the grant of {grant.initiator} is incomplete or '
                         f'has another credential')


def _one_host_writes(facts: observed.Facts) -> Iterator[_Found]:
    """Yield each volume without multiattach that several hosts can write to.

    Several hosts are allowed if the live attachments of the volume contain the initiators of all
    these hosts, as during the migration of a server.
    """
    live = facts.live()
    writers: dict[str, set[str]] = {}
    for (volume_id, initiator), grant in _actual(facts).items():
        if grant.mode is _RW and (volume_id, initiator) not in facts.busy:
            writers.setdefault(volume_id, set()).add(initiator)
    for volume in facts.volumes:
        found = writers.get(volume.id, set())
        declared = {name for row in live.get(volume.id, ()) for name in row.initiators}
        if not volume.multiattach and len(found) > 1 and not found <= declared:
            yield _Found(volume.id, None, 'is not multiattach but several hosts can write: '
                         + ', '.join(sorted(found)))


def _nothing_deleted_is_exported(facts: observed.Facts) -> Iterator[_Found]:
    known = {volume.id for volume in facts.volumes if not volume.deleted}
    for target in facts.targets:
        for volume_id in sorted(target.exported - known):
            yield _Found(volume_id, None, f'the target of {target.host} exports a deleted volume')


INVARIANTS = (
    observed.Row('one_host_writes', 'P3', 'A volume without multiattach has one host with write '
                 'access at the target, or two during a migration of the server.',
                 _Severity.DATA, True, observed.RECONCILE, _one_host_writes),
    observed.Row('nobody_else_is_granted', 'P7', 'Each grant at the target has an attachment.',
                 _Severity.DATA, True, observed.RECONCILE, _nobody_else_is_granted),
    observed.Row('modes_are_enforced', 'P5', 'Each grant at the target has the mode of its '
                 'attachments and its own credential.',
                 _Severity.DATA, True, observed.RECONCILE, _modes_are_enforced),
    observed.Row('every_user_is_granted', 'P4', 'Each connected or attached attachment has '
                 'a grant.',
                 _Severity.SERVICE, False, observed.RECONCILE, _every_user_is_granted),
    observed.Row('nothing_deleted_is_exported', 'P7', 'A target exports no deleted volume.',
                 _Severity.ACCOUNT, True, observed.RECONCILE, _nothing_deleted_is_exported),
)
