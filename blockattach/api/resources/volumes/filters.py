"""From the query string of a list of volumes to what the database is asked."""
import dataclasses
from typing import Any

from blockattach import errors
from blockattach.api import listing
from blockattach.db import volume_queries
from blockattach.http import operation
from blockattach.http.operation import V

_TIMES = frozenset(('created_at', 'updated_at'))
_BOOLEANS = frozenset(('bootable', 'multiattach'))
# Keys that no volume has a value for: whatever is asked for, nothing has it.
_UNHELD = frozenset(('migration_status', 'group_id'))
_TEXTS = frozenset(('id', 'name', 'display_name', 'status', 'availability_zone', 'host',
                    'project_id', 'user_id', 'volume_type_id', 'attach_status'))
_FALSE_WORDS = frozenset(('False', 'false', 'FALSE'))
_STRICT_BOOLEANS = V(3, 2)
_GROUPS = V(3, 10)

_RULES = listing.FilterRules(
    known=frozenset(('name', 'status', 'metadata', 'size', 'availability_zone',
                     'consumes_quota', *_TIMES, *_UNHELD, 'bootable')),
    more=frozenset(volume_queries.SORT_COLUMNS),
    since={'consumes_quota': V(3, 65)})


def read(call: operation.Call) -> volume_queries.Filters | None:
    """What shall be listed; None: nothing can match.

    :raises InvalidFilter: a filter is unknown, see `listing.asked`
    :raises InvalidInput: a value is malformed
    """
    asked = listing.asked(call, _rules(call.version))
    nothing = asked.nothing or not asked.like.keys() <= _TEXTS
    equal: dict[str, Any] = {}
    metadata: dict[str, str] = {}
    compared: list[tuple[str, str, Any]] = []
    for key, text in asked.equal.items():
        if key == 'metadata':
            metadata = listing.structure(key, text)
        elif key in _TIMES:
            compared += listing.comparisons(key, text)
        elif key in _BOOLEANS:
            equal[key] = _boolean(call.version, key, text)
        elif key == 'consumes_quota':
            nothing |= not _boolean(call.version, key, text)
        elif key == 'size' and text.isascii() and text.isdigit() and len(text) < 10:
            equal[key] = int(text)
        elif key == 'size' or key in _UNHELD:
            nothing = True
        else:
            equal[key] = text
    if nothing:
        return None
    project_id = None if asked.all_projects else call.context.project_id
    return volume_queries.Filters(project_id, equal, asked.like, metadata, compared)


def _rules(version: V) -> listing.FilterRules:
    """The filters at a version: some are not refused below theirs but mean nothing there."""
    own: set[str] = set()
    if version < _GROUPS:
        own.add('group_id')
    if version < listing.STRICT_FILTERS:
        # Documented from 3.60 on; clients use them since filters are strict.
        own |= _TIMES
    if version >= listing.COUNTED:
        own.add('with_count')
    return dataclasses.replace(_RULES, own=frozenset(own))


def _boolean(version: V, key: str, text: str) -> bool:
    if version < _STRICT_BOOLEANS:
        return text not in _FALSE_WORDS
    value = listing.boolean(text)
    if value is None:
        raise errors.InvalidInput(f"Invalid input received: '{key} = {text}'")
    return value
