"""Which version a client gets: ``OpenStack-API-Version: volume 3.71, blockattach 1.0``.

The header is a list of services. ``volume`` is the API that all clients know; ``blockattach`` is
what goes beyond it, with a version history of its own, for clients that ask for it.
"""
import re
from typing import NamedTuple

from blockattach import errors
from blockattach.http import operation

HEADER = 'OpenStack-API-Version'
VOLUME = 'volume'
EXTENSION = 'blockattach'
OFFER_HEADER = 'Blockattach-API-Versions'
"""Sent with the version documents, whose bodies clients check against strict schemas."""
LATEST = 'latest'

_VERSION = re.compile(r'([1-9]\d{0,8})\.(0|[1-9]\d{0,8})')


class Range(NamedTuple):
    """What is offered, both ends included."""

    minimum: operation.V
    maximum: operation.V


class Negotiated(NamedTuple):
    """The negotiated versions; ``header`` is their header of the answer."""

    version: operation.V
    extension: operation.V | None
    header: str


class Negotiator:
    """Reads the header against what is offered."""

    def __init__(self, volume: Range, extension: Range) -> None:
        """Offer these versions."""
        self._volume = volume
        self._extension = extension

    def negotiate(self, header: str | None) -> Negotiated:
        """The versions that a request gets; the lowest where it names none.

        :raises VersionInvalid: an item of ours is malformed
        :raises VersionNotAcceptable: an item of ours is outside of what is offered
        """
        version: operation.V | None = None
        extension: operation.V | None = None
        for item in (header or '').split(','):
            service, asked = (*item.split(None, 1), '', '')[:2]
            if service == VOLUME and version is None:
                version = _choose(asked.strip(), self._volume)
            elif service == EXTENSION and extension is None:
                extension = _choose(asked.strip(), self._extension)
        if version is None:
            version = self._volume.minimum
        header = f'{VOLUME} {version}'
        if extension is not None:
            header = f'{header}, {EXTENSION} {extension}'
        return Negotiated(version, extension, header)


def _choose(asked: str, offered: Range) -> operation.V:
    if asked == LATEST:
        return offered.maximum
    match = _VERSION.fullmatch(asked)
    if match is None:
        raise errors.VersionInvalid(version=asked)
    version = operation.V(int(match[1]), int(match[2]))
    if not offered.minimum <= version <= offered.maximum:
        raise errors.VersionNotAcceptable(requested=version, minimum=offered.minimum,
                                          maximum=offered.maximum)
    return version
