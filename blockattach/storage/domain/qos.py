"""QoS specs: named limits of volume types, and what enforces them."""
from collections.abc import Mapping

from blockattach.platform import errors

FRONT_END = 'front-end'
BACK_END = 'back-end'
BOTH = 'both'
CONSUMERS = (FRONT_END, BACK_END, BOTH)
"""What enforces the limits: the consumer (a hypervisor), the storage, or each of them."""

_TUNED = tuple(f'{kind}_{what}_sec' for what in ('iops', 'bytes')
               for kind in ('read', 'write', 'total'))
_PARTS = ('_per_gb', '_per_gb_min', '_max')
_DIGITS = 18


def check(specs: Mapping[str, str | None]) -> None:
    """Check specs before they are written: one that cannot be multiplied would fail an attach.

    :raises InvalidInput: a value that its key cannot have
    """
    for limit in _TUNED:
        for part in _PARTS:
            value = specs.get(f'{limit}{part}')
            if f'{limit}{part}' in specs and _number(value) is None:
                raise errors.InvalidInput(
                    f'Invalid qos specs: {limit}{part} must be a non-negative integer, not '
                    f'{value}.')


def for_consumer(consumer: str, specs: Mapping[str, str | None],
                 size_gb: int) -> dict[str, str | int | None] | None:
    """The limits that the consumer of a volume enforces; None: there are none.

    A limit per GiB is multiplied by the size; it is not less than
    ``<limit>_per_gb_min`` then, and not more than ``<limit>_max``, which wins.
    """
    if consumer not in (FRONT_END, BOTH):
        return None
    limits: dict[str, str | int | None] = dict(specs)
    for limit in _TUNED:
        per_gb, least, most = (_number(specs.get(f'{limit}{part}')) for part in _PARTS)
        if per_gb is None:
            continue
        value = max(per_gb * size_gb, least or 0)
        limits[limit] = value if most is None else min(value, most)
        for part in _PARTS:
            limits.pop(f'{limit}{part}', None)
    return limits


def _number(text: str | None) -> int | None:
    if text is None or not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        return None
    return int(text)
