"""Entity tags of reads, for responses with status 304 (``If-None-Match``).

A tag is a digest of all values on which a response depends: the record, the other facts of the
operation (`Operation.facts`), the microversions, the addresses in links, and the release of this
service. The tag therefore changes with any visible change, even if no generation changes. The tag
is known before the response is composed.

The tag is weak: equal tags mean equal facts, but not equal bytes. A client can therefore not use
the tag with ``If-Match`` to make a change conditional.
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
    """Return the entity tag of the response to a call.

    :returns: None if the facts cannot be encoded as JSON; the response then has no tag
    """
    try:
        facts = orjson.dumps(
            (_release(), call.version, call.extension, call.base_url, call.project, call.target,
             call.facts), default=_as_list, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        # A client may have stored a lone surrogate or an integer of more than 64 bits.
        return None
    return f'W/"{hashlib.sha256(facts).hexdigest()[:32]}"'


def has(header: str | None, current: str) -> bool:
    """Return True if a header ``If-None-Match`` matches the current tag of the response.

    :param header: None if the request has no such header
    """
    if header is None:
        return False
    return header.strip() == ANY or current.removeprefix('W/') in _TAGS.findall(header)


@functools.cache
def _release() -> str:
    return version.version_string()


def _as_list(value: Any) -> list[Any]:
    # orjson cannot encode named tuples.
    if isinstance(value, tuple):
        return list(value)
    raise TypeError(f'cannot build an ETag from a {type(value).__name__}')
