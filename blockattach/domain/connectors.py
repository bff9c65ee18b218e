"""Bounds on connectors: what a host may say of itself, at each entry.

Names that are stored, shown to others or given to a target have a grammar. Anything else in a
connector is the host's own business, and only bounded.
"""
import json
import re
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from blockattach import errors

MOST_KEYS = 64
LONGEST_KEY = 64
LONGEST_NAME = 255
LONGEST_TEXT = 4096
LARGEST = 16384
"""Bytes of JSON, of the whole."""

NO_INITIATOR = 'fake'
"""What Nova's fake driver sends instead of a name: no host logs in by it."""

_DATED = r'[0-9]{4}-(0[1-9]|1[0-2])\.[A-Za-z0-9][A-Za-z0-9.-]*(:[A-Za-z0-9.:_-]*)?'
# RFC 7143, 4.2.7, of the characters that initiators use in fact: targets take no others, and split
# their commands at some of them.
_INITIATOR = re.compile(
    rf'(?=.{{1,223}}\Z)(iqn\.{_DATED}|eui\.[0-9A-Fa-f]{{16}}|naa\.([0-9A-Fa-f]{{16}}){{1,2}})',
    re.ASCII)
# NVM Express Base Specification, 4.5.
_NQN = re.compile(rf'(?=.{{1,223}}\Z)nqn\.{_DATED}', re.ASCII)
# A World Wide Name, as FC writes it: 8 or 16 bytes.
_WWN = re.compile(r'(0x)?([0-9A-Fa-f]{2}:?){7}[0-9A-Fa-f]{2}(:?([0-9A-Fa-f]{2}:?){7}'
                  r'[0-9A-Fa-f]{2})?', re.ASCII)
_GRAMMARS = {'nqn': _NQN, 'wwpns': _WWN, 'wwnns': _WWN}
_NAMES = ('host', 'mountpoint', 'initiator')
_MODES = (None, '', 'rw', 'ro')


def check(connector: Mapping[str, Any]) -> None:
    """Return if a connector is within bounds.

    :raises InvalidInput: it is not; the text says which one
    :raises ConnectorUnusable: its initiator or its host is none
    """
    if len(connector) > MOST_KEYS:
        raise _wrong(f'it has more than {MOST_KEYS} keys')
    for key, value in _all(connector):
        if len(key) > LONGEST_KEY:
            raise _wrong(f'a key is longer than {LONGEST_KEY} characters')
        if isinstance(value, str) and len(value) > LONGEST_TEXT:
            raise _wrong(f'{key} is longer than {LONGEST_TEXT} characters')
    written = json.dumps(connector)
    if len(written) > LARGEST:
        raise _wrong(f'it is larger than {LARGEST} bytes')
    # No column takes a zero character, and after `json.dumps` there is none.
    if '\\u0000' in written and any(
            '\0' in text for pair in _all(connector) for text in pair if isinstance(text, str)):
        raise _wrong('it has a zero character')
    _check_names(connector)


def is_initiator(name: object) -> bool:
    """Whether an iSCSI node can have this name: iqn, eui or naa; or Nova's fake one."""
    return isinstance(name, str) and (_INITIATOR.fullmatch(name) is not None
                                      or name == NO_INITIATOR)


def _check_names(connector: Mapping[str, Any]) -> None:
    for name in _NAMES:
        value = connector.get(name)
        if value is not None and (not isinstance(value, str) or len(value) > LONGEST_NAME):
            raise _wrong(f'{name} must be a text of at most {LONGEST_NAME} characters')
    if 'host' in connector and not _is_name(connector['host']):
        raise errors.ConnectorUnusable(missing='host')
    if 'initiator' in connector and not is_initiator(connector['initiator']):
        raise errors.ConnectorUnusable(missing='initiator')
    if connector.get('mode') not in _MODES:
        raise _wrong('mode must be rw or ro')
    for name, grammar in _GRAMMARS.items():
        value = connector.get(name)
        for one in value if isinstance(value, list) else [value]:
            if one is not None and not (isinstance(one, str) and (
                    not one or grammar.fullmatch(one))):
                raise _wrong(f'{name} has no such form')


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and value.isprintable()


def _all(value: Any, key: str = '') -> Iterator[tuple[str, Any]]:
    """Each value with the key that it stands under, at any depth."""
    yield key, value
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _all(inner, str(name))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _all(inner, key)


def _wrong(reason: str) -> errors.InvalidInput:
    return errors.InvalidInput(reason=f'Invalid input received: connector: {reason}.')
