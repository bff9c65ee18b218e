"""Pagination of lists."""
from collections.abc import Sequence
from typing import Any

from blockattach.compute import errors
from blockattach.platform.http import operation

_MOST = 1000


def limit(call: operation.Call) -> int:
    """Return the page size of a request, at most 1000.

    :raises ServerRequestInvalid: the query parameter ``limit`` is not a number
    """
    text = call.query.get('limit', str(_MOST))
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise errors.ServerRequestInvalid(reason='limit param must be an integer')
    return min(int(text) or _MOST, _MOST)


def page(call: operation.Call, key: str, shown: Sequence[dict[str, Any]], marker: str,
         links: str) -> dict[str, Any]:
    """Return the body of a page, with a link to the next page if there is one.

    :param shown: items of the page, and one more if there is a next page
    :param marker: key of an item whose value is the marker of the next page
    :param links: key of the link in the body
    """
    most = limit(call)
    found: dict[str, Any] = {key: shown[:most]}
    if len(shown) > most:
        found[links] = [{'rel': 'next', 'href': call.next_link(shown[most - 1][marker])}]
    return found
