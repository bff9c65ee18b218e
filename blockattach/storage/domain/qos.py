"""QoS specs: limits that apply to the volumes of a type, and the consumers that enforce them.

The consumers are those of ``cinder.volume.qos_specs``. A limit per GiB is multiplied by the size
of the volume as in ``cinder.volume.manager`` (`_parse_connection_options`).
"""
from collections.abc import Mapping

from blockattach.platform import errors

FRONT_END = 'front-end'
BACK_END = 'back-end'
BOTH = 'both'
CONSUMERS = (FRONT_END, BACK_END, BOTH)
"""Consumers that enforce the limits: the hypervisor, the storage, or both."""

# Limits that may be given per GiB of the volume (``tune_opts`` in Cinder).
_TUNED = tuple(f'{kind}_{what}_sec' for what in ('iops', 'bytes')
               for kind in ('read', 'write', 'total'))
_PARTS = ('_per_gb', '_per_gb_min', '_max')
_DIGITS = 18


def check(specs: Mapping[str, str | None]) -> None:
    """Check QoS specs before they are stored.

    Cinder stores any text. A limit that is not a number then fails when the volume is attached.

    :raises InvalidInput: if a limit per GiB, its minimum or its maximum is negative, is not an
        integer, or has more than 18 digits
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
    """Return the limits that the hypervisor enforces for a volume.

    ``<limit>_per_gb`` is multiplied by the size. The product is raised to ``<limit>_per_gb_min``
    and then lowered to ``<limit>_max``.

    :param consumer: consumer of the QoS specs, one of `CONSUMERS`
    :param size_gb: size of the volume in GiB
    :returns: None if the hypervisor is not the consumer
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
