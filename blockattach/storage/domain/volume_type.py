"""What a volume type means to the service itself: its extra specs, and its encryption."""
from collections.abc import Mapping

from blockattach.storage import errors
from blockattach.storage.domain import records

MULTIATTACH = 'multiattach'
_TRUE_WORDS = frozenset({'true', '1', 't', 'yes', 'y', 'on'})
_FALSE_WORDS = frozenset({'false', '0', 'f', 'no', 'n', 'off'})

_CACHEABLE = 'cacheable'
_ZONES = 'RESKEY:availability_zones'
USER_VISIBLE_SPECS = frozenset({MULTIATTACH, 'replication_enabled', _ZONES})
"""The extra specs of a type that other callers than administrators may see."""
LISTS = frozenset({_ZONES})
"""Extra specs whose value is a list of names: a filter asks for one of them."""


def is_multiattach(extra_specs: Mapping[str, str]) -> bool:
    """Whether volumes of this type may be attached more than once: ``<is> True``, in any case.

    Cinder takes only the exact text; a type that its scheduler honours would otherwise make a
    volume that cannot be shared.
    """
    return is_true(extra_specs.get(MULTIATTACH))


def is_true(value: str | None) -> bool:
    """The boolean of an extra spec: ``<is> X`` or plain ``X``."""
    return _operand(value) in _TRUE_WORDS


def _operand(value: str | None) -> str | None:
    words = (value or '').split()
    if words[:1] == ['<is>']:
        words = words[1:]
    return words[0].lower() if len(words) == 1 else None


BOOLEANS = (MULTIATTACH, _CACHEABLE)
"""Extra specs that the service itself reads as booleans."""


def is_boolean(value: str) -> bool:
    """Return True if `is_true` understands the value of an extra spec."""
    return _operand(value) in _TRUE_WORDS | _FALSE_WORDS


MODE = 'mode'
ONE_WRITER = 'RO'
ALL_WRITE = 'RW'
MODES = frozenset({ONE_WRITER, ALL_WRITE})


def is_single_writer(extra_specs: Mapping[str, str]) -> bool:
    """Whether volumes of this type have one writer at a time (``mode: RO``); others read."""
    return extra_specs.get(MODE) == ONE_WRITER


FRONT_END = 'front-end'
BACK_END = 'back-end'
CONTROL_LOCATIONS = (FRONT_END, BACK_END)
"""What encrypts: the consumer, with a key that it fetches, or the storage, which has its own."""


def check_specs(extra_specs: Mapping[str, str]) -> None:
    """Check what the extra specs of a type say together.

    :raises InvalidInput: several hosts would share what one of them may keep in a cache
    """
    if is_multiattach(extra_specs) and is_true(extra_specs.get(_CACHEABLE)):
        raise errors.InvalidInput('cacheable cannot be set with multiattach.')


def check_usable(kind: records.VolumeType) -> None:
    """Check whether a volume can be made of a type.

    Several hosts cannot share what is encrypted. A consumer takes a volume without a key for a
    plain one, and would write in the clear to what is called encrypted.

    :raises EncryptedMultiattach: the type says both of its volumes
    :raises KeyManagerMissing: consumers would need keys, which nobody keeps
    """
    if kind.encryption is not None and is_multiattach(kind.extra_specs):
        raise errors.EncryptedMultiattach
    if kind.encryption is not None and kind.encryption.control_location == FRONT_END:
        raise errors.KeyManagerMissing(volume_type=kind.name)
