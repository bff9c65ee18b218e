"""What must be true of transfers."""
from collections.abc import Iterator

from blockattach.domain import volume_lifecycle
from blockattach.domain.invariants import observed

_Found = observed.Found
_Severity = observed.Severity
_AWAITING = volume_lifecycle.OwnStatus.AWAITING_TRANSFER


def _offers_are_there(facts: observed.Facts) -> Iterator[_Found]:
    for volume in facts.volumes:
        if volume.own_status == _AWAITING and not volume.offered:
            yield _Found(volume.id, None, 'awaits a transfer, and is not offered')


INVARIANTS = (
    observed.Row('offers_are_there', 'P6', 'A volume that awaits a transfer is offered.',
                 _Severity.SERVICE, False, observed.RESET, _offers_are_there),
)
