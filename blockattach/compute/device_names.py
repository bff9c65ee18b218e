"""Names of the devices of a server, as ``/dev/vdb``. The last letters are the place of a disk:
``sdb`` and ``vdb`` are one.
"""
import re
from collections.abc import Iterable

from blockattach.compute import errors

_LETTERS = 'abcdefghijklmnopqrstuvwxyz'
_NAME = re.compile(r'(/dev/)?(?P<name>(vd|sd|xvd|hd)(?P<place>[a-z]{1,3})[0-9]{0,3})')
MOST = len(_LETTERS)
"""Volumes of one server."""


def chosen(wanted: str | None, taken: Iterable[str]) -> str:
    """The name of another device: the wanted one, else the next that is free.

    :param taken: names of those that the server has
    :raises ServerRequestInvalid: it is no name, or in use, or the server has all that it may have
    """
    places = {found['place'] for one in taken if (found := _NAME.fullmatch(one))}
    if len(places) >= MOST:
        raise errors.ServerRequestInvalid(
            reason=f'the server already has {MOST} volumes, which is the maximum')
    if not wanted:
        free = next(letter for letter in _LETTERS if letter not in places)
        return f'/dev/vd{free}'
    asked = _NAME.fullmatch(wanted)
    if asked is None:
        raise errors.ServerRequestInvalid(
            reason=f'The supplied device path ({errors.shortened(wanted)}) is invalid.')
    if asked['place'] in places:
        raise errors.ServerRequestInvalid(
            reason=f'The supplied device path ({wanted}) is in use.')
    return f'/dev/{asked["name"]}'
