"""Invariants of snapshots, checked on the rows."""
from collections.abc import Iterator

from blockattach.storage.domain import snapshots
from blockattach.storage.domain import volume_lifecycle
from blockattach.storage.domain.invariants import observed

_Found = observed.Found
_Severity = observed.Severity
_Own = volume_lifecycle.OwnStatus
_Status = snapshots.Status


def _snapshots_have_a_volume(facts: observed.Facts) -> Iterator[_Found]:
    volumes = {volume.id: volume for volume in facts.volumes if not volume.deleted}
    for row in facts.snapshots:
        volume = volumes.get(row.volume_id)
        if volume is None:
            yield _Found(row.volume_id, None, f'is deleted but has snapshot {row.id}')
        # A volume with snapshots is not migrated, so both stay on the same pool.
        elif row.pool != volume.pool:
            yield _Found(volume.id, None,
                         f'is on {volume.pool} but snapshot {row.id} is on {row.pool}')


def _they_go_before_their_volume(facts: observed.Facts) -> Iterator[_Found]:
    going = {volume.id for volume in facts.volumes if volume.own_status == _Own.DELETING}
    for row in facts.snapshots:
        if row.volume_id in going and row.status != _Status.DELETING:
            yield _Found(row.volume_id, None,
                         f'is being deleted but snapshot {row.id} is {row.status}')


INVARIANTS = (
    observed.Row('snapshots_have_a_volume', 'P4', 'The volume of a snapshot exists on the same '
                 'pool.', _Severity.DATA, False, observed.ASK, _snapshots_have_a_volume),
    observed.Row('snapshots_go_first', 'P4', 'A volume is deleted only with all its snapshots.',
                 _Severity.SERVICE, False, observed.ASK, _they_go_before_their_volume),
)
