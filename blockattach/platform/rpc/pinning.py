"""Releases: the versions of interfaces and objects that each release knows, and the pin.

While an upgrade is in progress, processes of two releases share the bus. ``[rpc] release`` names
the older release in the processes of the newer one. These processes then call no method that the
older release does not know, and send objects in a form that the older release knows. They accept
the newer form as well. When the last old process has stopped, the operator clears the option, and
the newest versions are used.
"""
import dataclasses
from collections.abc import Mapping
from collections.abc import Sequence

from blockattach.platform import errors

NEWEST = ('', 'auto')
"""Values of ``[rpc] release`` that select the newest release."""


@dataclasses.dataclass(frozen=True, slots=True)
class Release:
    """Versions of interfaces by topic, and of objects by name."""

    name: str
    interfaces: Mapping[str, str]
    objects: Mapping[str, str]


def find_release(name: str, releases: Sequence[Release]) -> Release:
    """Return the release to use, by its name.

    :param releases: all releases, oldest first
    :raises ConfigurationError: the name is unknown
    """
    if name in NEWEST:
        return releases[-1]
    for release in releases:
        if release.name == name:
            return release
    known = ', '.join(release.name for release in releases)
    raise errors.ConfigurationError(
        reason=f'unknown release {name!r} in [rpc] release: known releases are {known}')
