"""Reads that are answered 304, without a body, to a client that has the answer already.

A tag is a digest of all that an answer is composed of: the record, what the operation says of it
besides (`Operation.facts`), the versions, the addresses in links, our release. So it changes with
whatever may show, also where no generation moves, and is known before anything is composed.

It is weak: it promises equal facts and not equal bytes, and so nobody may make a change depend on
it by ``If-Match``.
"""
import functools
import hashlib
import re
from typing import Any

import orjson

from blockattach import version
from blockattach.platform.http import operation

ANY = '*'
_TAGS = re.compile(r'(?:W/)?("[^"]*")')


def tag(call: operation.Call) -> str | None:
    """The tag of the answer to a call; None: it has none, as its facts cannot be written down."""
    try:
        facts = orjson.dumps(
            (_release(), call.version, call.extension, call.base_url, call.project, call.target,
             call.facts), default=_as_list, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        # Half a character, or a number without end, within what a client has stored.
        return None
    return f'W/"{hashlib.sha256(facts).hexdigest()[:32]}"'


def has(header: str | None, current: str) -> bool:
    """Whether a client has the answer with this tag, by its ``If-None-Match``."""
    if header is None:
        return False
    return header.strip() == ANY or current.removeprefix('W/') in _TAGS.findall(header)


@functools.cache
def _release() -> str:
    return version.version_string()


def _as_list(value: Any) -> list[Any]:
    """A named tuple, which orjson does not know."""
    if isinstance(value, tuple):
        return list(value)
    raise TypeError(f'cannot build an ETag from a {type(value).__name__}')
