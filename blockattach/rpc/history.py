"""Which release speaks which versions, and what a pin means.

While an upgrade is under way, processes of two releases share the bus. ``[rpc] release`` names
the older one on the processes that are new already: they send no method that it does not know,
nothing at all on an interface that it does not have, and objects in the form that it knows. They
understand the newer form too. Once the last old process has gone, the pin is emptied: then the
newest is spoken.

A release that adds to an interface or changes an object gets a row here; tests compare the newest
row with the code.
"""
import dataclasses
from collections.abc import Mapping

from blockattach import errors


@dataclasses.dataclass(frozen=True, slots=True)
class Release:
    """One row: interfaces by topic, objects by name, each with its version."""

    name: str
    interfaces: Mapping[str, str]
    objects: Mapping[str, str]


# Oldest first.
RELEASES: tuple[Release, ...] = (
    Release('1.0',
            interfaces={'attachments': '1.1', 'compute': '1.2', 'compute-conductor': '1.0',
                        'process': '1.0', 'scheduler': '1.0', 'volume': '1.0'},
            objects={'Attachment': '1.0', 'AttachmentPayload': '1.0',
                     'BlockDevicePayload': '1.0', 'PoolsReport': '1.0',
                     'ServerActPayload': '1.0', 'VolumeRequest': '1.0',
                     'VolumeAttachmentPayload': '1.0'}),
)

NEWEST = ('', 'auto')
"""Names of whichever release is the last."""


def pinned(name: str, releases: tuple[Release, ...] = RELEASES) -> Release:
    """The release to speak.

    :raises ConfigurationError: there is no release of that name
    """
    if name in NEWEST:
        return releases[-1]
    for release in releases:
        if release.name == name:
            return release
    known = ', '.join(release.name for release in releases)
    raise errors.ConfigurationError(
        reason=f'unknown release {name!r} in [rpc] release: known releases are {known}')
