"""Comparison of the extra specs of a volume type with the capabilities of a pool.

The comparison is Cinder's, so that types keep their meaning. A value is an operator and an
operand, of which only the first word counts, or ``<or>`` and alternatives, or a text that must be
equal.
"""
import operator
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from blockattach.storage.domain import volume_type

_SCOPE = 'capabilities'

# Enforced by the service itself under the lock of the volume; pools do not report it.
_NOT_CAPABILITIES = frozenset({volume_type.MODE})

_YES = '<is> True'


def lacking(capabilities: Mapping[str, Any], extra_specs: Mapping[str, str]) -> str | None:
    """Return the reason why the capabilities do not satisfy the extra specs, or None if they do.

    The reason names the extra spec and the reported value.
    """
    for key, wanted in extra_specs.items():
        path = _path(key)
        if path is None or key in _NOT_CAPABILITIES:
            continue
        if key == volume_type.MULTIATTACH and volume_type.is_true(wanted):
            # Normalized like in `volume_type.is_multiattach`. Otherwise the service would create
            # a multiattach volume that no pool accepts.
            wanted = _YES
        found = _look_up(capabilities, path)
        if found is None:
            return f'capability {":".join(path)} is not reported (required: {wanted})'
        if not any(matches(value, wanted) for value in _alternatives(found)):
            return f'capability {":".join(path)} is {found} (required: {wanted})'
    return None


def matches(value: Any, required: str) -> bool:
    """Return True if a value reported by a pool satisfies the value of an extra spec."""
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
        # A value that cannot be compared does not match.
        return False


def _path(key: str) -> list[str] | None:
    """Return the nested capability names of a key, or None for a key of another scope."""
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
    """Return the boolean of a value. Text that does not mean true is false."""
    return value if isinstance(value, bool) else volume_type.is_true(str(value))


_OPERATORS: Mapping[str, Callable[[Any, str], bool]] = {
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
