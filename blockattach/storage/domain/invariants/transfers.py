"""Invariants of transfers."""
from collections.abc import Iterator

from blockattach.storage.domain import volume_lifecycle
from blockattach.storage.domain.invariants import observed

_Found = observed.Found
_Severity = observed.Severity
_AWAITING = volume_lifecycle.OwnStatus.AWAITING_TRANSFER


def _offers_are_there(facts: observed.Facts) -> Iterator[_Found]:
    for volume in facts.volumes:
        if volume.own_status == _AWAITING and not volume.offered:
            yield _Found(volume.id, None, 'is awaiting a transfer that does not exist')


INVARIANTS = (
    observed.Row('offers_are_there', 'P6', 'A volume in status awaiting-transfer has a transfer.',
                 _Severity.SERVICE, False, observed.RESET, _offers_are_there),
)
