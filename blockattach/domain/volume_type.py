"""What the extra specs of a volume type mean to the service itself."""
from collections.abc import Mapping

MULTIATTACH = 'multiattach'
_TRUE_WORDS = frozenset({'true', '1', 't', 'yes', 'y', 'on'})

USER_VISIBLE_SPECS = frozenset({MULTIATTACH, 'replication_enabled', 'RESKEY:availability_zones'})
"""What is shown of a type's extra specs to a caller who is no administrator."""


def is_multiattach(extra_specs: Mapping[str, str]) -> bool:
    """Whether volumes of this type may be attached more than once: ``<is> True``, in any case.

    Cinder takes only the exact text; a type that its scheduler honours would otherwise make a
    volume that cannot be shared.
    """
    return is_true(extra_specs.get(MULTIATTACH))


def is_true(value: str | None) -> bool:
    """The boolean of an extra spec: ``<is> X`` or plain ``X``."""
    words = (value or '').split()
    if words[:1] == ['<is>']:
        words = words[1:]
    return len(words) == 1 and words[0].lower() in _TRUE_WORDS


MODE = 'mode'
ONE_WRITER = 'RO'
ALL_WRITE = 'RW'
MODES = frozenset({ONE_WRITER, ALL_WRITE})


def is_single_writer(extra_specs: Mapping[str, str]) -> bool:
    """Whether volumes of this type have one writer at a time (``mode: RO``); others read."""
    return extra_specs.get(MODE) == ONE_WRITER
