"""Volume types: the extra specs and encryption settings that the service evaluates."""
from collections.abc import Mapping

from blockattach.storage import errors
from blockattach.storage.domain import records

MULTIATTACH = 'multiattach'
_TRUE_WORDS = frozenset({'true', '1', 't', 'yes', 'y', 'on'})
_FALSE_WORDS = frozenset({'false', '0', 'f', 'no', 'n', 'off'})

_CACHEABLE = 'cacheable'
_ZONES = 'RESKEY:availability_zones'
USER_VISIBLE_SPECS = frozenset({MULTIATTACH, 'replication_enabled', _ZONES})
"""Extra specs that callers without administrator rights may see."""
LISTS = frozenset({_ZONES})
"""Extra specs whose value is a list of names. A filter matches one of the names."""


def is_multiattach(extra_specs: Mapping[str, str]) -> bool:
    """Return True if the volumes of a type are multiattach: ``<is> True``, ignoring case.

    Cinder accepts only the exact text. A type in another spelling, which Cinder's scheduler
    accepts, would otherwise create a volume that cannot be shared.
    """
    return is_true(extra_specs.get(MULTIATTACH))


def is_true(value: str | None) -> bool:
    """Return the boolean of an extra spec: ``<is> X`` or plain ``X``.

    None and unknown words are false.
    """
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
    """Return True if volumes of a type have one writer at a time (``mode: RO``).

    Other attachments are read-only.
    """
    return extra_specs.get(MODE) == ONE_WRITER


FRONT_END = 'front-end'
BACK_END = 'back-end'
CONTROL_LOCATIONS = (FRONT_END, BACK_END)
"""Places of the encryption: the consumer with a key that it fetches, or the storage itself."""


def check_specs(extra_specs: Mapping[str, str]) -> None:
    """Check that the extra specs of a type do not contradict each other.

    :raises InvalidInput: if multiattach and cacheable are both set. Hosts that share a volume must
        not cache its data.
    """
    if is_multiattach(extra_specs) and is_true(extra_specs.get(_CACHEABLE)):
        raise errors.InvalidInput('cacheable cannot be set with multiattach.')


def check_usable(kind: records.VolumeType) -> None:
    """Check that a volume of a type can be created.

    Several hosts cannot share an encrypted volume. A consumer treats a volume without a key as not
    encrypted, and would write plain data to a volume of an encrypted type.

    :raises EncryptedMultiattach: if the type is both encrypted and multiattach
    :raises KeyManagerMissing: if the consumer needs a key, because there is no key manager
    """
    if kind.encryption is not None and is_multiattach(kind.extra_specs):
        raise errors.EncryptedMultiattach
    if kind.encryption is not None and kind.encryption.control_location == FRONT_END:
        raise errors.KeyManagerMissing(volume_type=kind.name)
