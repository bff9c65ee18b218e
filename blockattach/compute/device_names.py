"""Device names of a server's volumes, for example ``/dev/vdb``.

The letters after the prefix are the position of the disk. Therefore ``sdb`` and ``vdb`` conflict.
"""
import re
from collections.abc import Iterable

from blockattach.compute import errors

_LETTERS = 'abcdefghijklmnopqrstuvwxyz'
_NAME = re.compile(r'(/dev/)?(?P<name>(vd|sd|xvd|hd)(?P<place>[a-z]{1,3})[0-9]{0,3})')
MOST = len(_LETTERS)
"""Maximum number of volumes of a server."""


def chosen(requested: str | None, taken: Iterable[str]) -> str:
    """Return the requested device name, or the next free device name.

    :param requested: requested device name; None or empty for the next free device name
    :param taken: device names that are in use on the server
    :raises ServerRequestInvalid: the name is invalid or in use, or the server has the maximum
        number of volumes
    """
    places = {found['place'] for one in taken if (found := _NAME.fullmatch(one))}
    if len(places) >= MOST:
        raise errors.ServerRequestInvalid(
            reason=f'the server already has {MOST} volumes, which is the maximum')
    if not requested:
        free = next(letter for letter in _LETTERS if letter not in places)
        return f'/dev/vd{free}'
    asked = _NAME.fullmatch(requested)
    if asked is None:
        raise errors.ServerRequestInvalid(
            reason=f'The supplied device path ({errors.shortened(requested)}) is invalid.')
    if asked['place'] in places:
        raise errors.ServerRequestInvalid(
            reason=f'The supplied device path ({requested}) is in use.')
    return f'/dev/{asked["name"]}'
