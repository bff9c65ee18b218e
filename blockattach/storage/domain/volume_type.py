"""Volume types: the extra specs and encryption settings that the service evaluates.

Extra specs are compared with the capabilities of a pool as in Cinder's CapabilitiesFilter
(``cinder.scheduler.filters.extra_specs_ops``), so that existing types keep their meaning. The
value of an extra spec has one of three forms: an operator and an operand, ``<or>`` and
alternatives, or a text that the capability must equal. Only the first word of an operand counts.
"""
import operator
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from blockattach.storage import errors
from blockattach.storage.domain import records

_MULTIATTACH = 'multiattach'
_TRUE_WORDS = frozenset({'true', '1', 't', 'yes', 'y', 'on'})
_FALSE_WORDS = frozenset({'false', '0', 'f', 'no', 'n', 'off'})

_CACHEABLE = 'cacheable'
_ZONES = 'RESKEY:availability_zones'
USER_VISIBLE_SPECS = frozenset({_MULTIATTACH, 'replication_enabled', _ZONES})
"""Extra specs that callers without administrator rights may see.

The list is that of ``cinder.policies.type_extra_specs``.
"""
LISTS = frozenset({_ZONES})
"""Extra specs whose value is a list of names. Lists of types can be filtered by one of the names.
"""


def is_multiattach(extra_specs: Mapping[str, str]) -> bool:
    """Return True if the extra spec ``multiattach`` of a type is true (see `is_true`).

    Cinder's API accepts only the exact text ``<is> True``, but its scheduler accepts other
    spellings too. In Cinder, a type with another spelling creates volumes without multiattach.
    """
    return is_true(extra_specs.get(_MULTIATTACH))


def is_true(value: str | None) -> bool:
    """Return True if the value of an extra spec is a true word, such as ``True`` or ``<is> True``.

    Case is ignored. None and unknown words are false, as in `bool_from_string` of oslo.utils,
    which Cinder uses.
    """
    return _operand(value) in _TRUE_WORDS


def _operand(value: str | None) -> str | None:
    words = (value or '').split()
    if words[:1] == ['<is>']:
        words = words[1:]
    return words[0].lower() if len(words) == 1 else None


BOOLEANS = (_MULTIATTACH, _CACHEABLE)
"""Extra specs whose values the service evaluates as booleans."""


def is_boolean(value: str) -> bool:
    """Return True if the value of an extra spec is a true or a false word (see `is_true`)."""
    return _operand(value) in _TRUE_WORDS | _FALSE_WORDS


MODE = 'mode'
ONE_WRITER = 'RO'
ALL_WRITE = 'RW'
MODES = frozenset({ONE_WRITER, ALL_WRITE})


def is_single_writer(extra_specs: Mapping[str, str]) -> bool:
    """Return True if volumes of a type allow one writer at a time (extra spec ``mode`` is RO).

    All other attachments of such a volume are read-only.
    """
    return extra_specs.get(MODE) == ONE_WRITER


FRONT_END = 'front-end'
BACK_END = 'back-end'
CONTROL_LOCATIONS = (FRONT_END, BACK_END)
"""Values of ``control_location``: the consumer encrypts (front-end), or the storage (back-end)."""


def check_specs(extra_specs: Mapping[str, str]) -> None:
    """Check that the extra specs of a type do not contradict each other.

    Cinder has the same rule in ``cinder.api.contrib.types_extra_specs``.

    :raises InvalidInput: if multiattach and cacheable are both set. Hosts that share a volume must
        not cache its data.
    """
    if is_multiattach(extra_specs) and is_true(extra_specs.get(_CACHEABLE)):
        raise errors.InvalidInput('cacheable cannot be set with multiattach.')


def check_usable(kind: records.VolumeType) -> None:
    """Check that the service can create volumes of a type.

    Several hosts cannot share an encrypted volume. If the consumer encrypts, the volume needs a
    key, and this service has no key manager. Without a key, the consumer would write plain data.

    :raises EncryptedMultiattach: if the type is both encrypted and multiattach
    :raises KeyManagerMissing: if the type requires encryption by the consumer
    """
    if kind.encryption is not None and is_multiattach(kind.extra_specs):
        raise errors.EncryptedMultiattach
    if kind.encryption is not None and kind.encryption.control_location == FRONT_END:
        raise errors.KeyManagerMissing(volume_type=kind.name)


_SCOPE = 'capabilities'

# The service itself enforces `mode` when a volume is attached, and pools do not report it.
_NOT_CAPABILITIES = frozenset({MODE})

_YES = '<is> True'


def lacking(capabilities: Mapping[str, Any], extra_specs: Mapping[str, str]) -> str | None:
    """Return the reason why a pool does not satisfy extra specs, or None if it does.

    The reason names the extra spec and the reported value.
    """
    for key, wanted in extra_specs.items():
        path = _path(key)
        if path is None or key in _NOT_CAPABILITIES:
            continue
        if key == _MULTIATTACH and is_true(wanted):
            # The value is normalized as in `is_multiattach`. Otherwise the service would create a
            # multiattach volume that no pool accepts.
            wanted = _YES
        found = _look_up(capabilities, path)
        if found is None:
            return f'capability {":".join(path)} is not reported (required: {wanted})'
        if not any(matches(value, wanted) for value in _alternatives(found)):
            return f'capability {":".join(path)} is {found} (required: {wanted})'
    return None


def matches(value: Any, required: str) -> bool:
    """Return True if a value reported by a pool satisfies the value of an extra spec.

    :param value: reported value; one item if the pool reports a list
    :param required: value of the extra spec
    """
    words = required.split()
    if words[:1] == ['<or>']:
        return value in words[1::2]
    compare = _OPERATORS.get(words[0]) if words else None
    if compare is None:
        return bool(value == required)
    if len(words) < 2:
        return False
    try:
        return compare(value, words[1])
    except (TypeError, ValueError):
        # A value that cannot be compared does not match. Cinder catches only ValueError.
        return False


def _path(key: str) -> list[str] | None:
    """Return the path of capability names in the key of an extra spec.

    :returns: None for a key with another scope than ``capabilities``
    """
    scope, *inner = key.split(':')
    if not inner:
        return [scope]
    return inner if scope == _SCOPE else None


def _look_up(capabilities: Mapping[str, Any], path: list[str]) -> Any:
    found: Any = capabilities
    for name in path:
        if not isinstance(found, Mapping):
            return None
        found = found.get(name)
    return found


def _alternatives(reported: Any) -> list[Any]:
    return reported if isinstance(reported, list) else [reported]


def _numbers(compare: Callable[[float, float], bool]) -> Callable[[Any, str], bool]:
    return lambda value, operand: compare(float(value), float(operand))


def _same_boolean(value: Any, operand: str) -> bool:
    return _boolean(value) is _boolean(operand)


def _boolean(value: Any) -> bool:
    # Text that does not mean true is false.
    return value if isinstance(value, bool) else is_true(str(value))


_OPERATORS: Mapping[str, Callable[[Any, str], bool]] = {
    # In Cinder, `=` means "at least".
    '=': _numbers(operator.ge),
    '==': _numbers(operator.eq),
    '!=': _numbers(operator.ne),
    '>=': _numbers(operator.ge),
    '<=': _numbers(operator.le),
    's==': operator.eq,
    's!=': operator.ne,
    's<': operator.lt,
    's<=': operator.le,
    's>': operator.gt,
    's>=': operator.ge,
    '<in>': operator.contains,
    '<is>': _same_boolean,
}
