"""Lists in pages."""
from collections.abc import Sequence
from typing import Any

from blockattach.compute import errors
from blockattach.platform.http import operation

_MOST = 1000


def limit(call: operation.Call) -> int:
    """How much a page has.

    :raises ServerRequestInvalid: the client says it by no number
    """
    text = call.query.get('limit', str(_MOST))
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise errors.ServerRequestInvalid(reason='limit param must be an integer')
    return min(int(text) or _MOST, _MOST)


def page(call: operation.Call, key: str, shown: Sequence[dict[str, Any]], marker: str,
         links: str) -> dict[str, Any]:
    """A page, with a link to the next one.

    :param shown: one more than a page, if there are more
    :param marker: what of the last one the next page begins behind
    :param links: the key of the link
    """
    most = limit(call)
    found: dict[str, Any] = {key: shown[:most]}
    if len(shown) > most:
        found[links] = [{'rel': 'next', 'href': call.next_link(shown[most - 1][marker])}]
    return found
