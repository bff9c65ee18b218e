"""iSCSI sessions of this machine, which the kernel lists, and the attachments that use them."""
import pathlib
import re
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

ROOT = pathlib.Path('/sys/class')
"""Directory in which the kernel lists sessions and connections of iSCSI."""
USED, STALE, UNKNOWN = 'used', 'stale', 'unknown'
"""Uses of an iSCSI session.

`USED`: an attachment of this host uses the session. `STALE`: no attachment uses the session.
`UNKNOWN`: no attachment uses the session, and the service does not show its volume, which is
deleted, or belongs to another project or another service.
"""
_VOLUME = re.compile(r':volume-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})')
"""Pattern that finds the volume ID in a target name."""


class Session(NamedTuple):
    """iSCSI session with a target that exports a volume.

    :ivar devices: device paths by LUN
    """

    number: int
    target: str
    portal: str
    state: str
    volume_id: str
    devices: Mapping[int, str]

    def connection_info(self, lun: int) -> dict[str, Any]:
        """Return the connection information with which os-brick ends the session."""
        return {'target_iqn': self.target, 'target_portal': self.portal, 'target_lun': lun,
                'target_discovered': False, 'volume_id': self.volume_id}


def of_kernel(root: pathlib.Path = ROOT) -> list[Session]:
    """Return the sessions with targets that export volumes, in the order of their numbers.

    :param root: see `ROOT`
    """
    found = (_session(root, folder) for folder in (root / 'iscsi_session').glob('session*'))
    return sorted(session for session in found if session is not None)


def _session(root: pathlib.Path, folder: pathlib.Path) -> Session | None:
    number = int(folder.name.removeprefix('session'))
    # open-iscsi uses one connection per session.
    connection = root / 'iscsi_connection' / f'connection{number}:0'
    target = _read(folder / 'targetname')
    named = _VOLUME.search(target)
    if named is None:
        return None
    # The persistent portal is the portal of the login, by which iscsiadm finds the session.
    # A target can redirect the connection to another portal.
    address, port = (_read(connection / f'persistent_{part}') for part in ('address', 'port'))
    portal = f'[{address}]:{port}' if ':' in address else f'{address}:{port}'
    return Session(number, target, portal, _read(folder / 'state'), named[1],
                   dict(_devices(folder)))


def _devices(folder: pathlib.Path) -> Iterator[tuple[int, str]]:
    for path in folder.glob('device/target*/*:*:*:*/block/*'):
        yield int(path.parent.parent.name.rpartition(':')[2]), f'/dev/{path.name}'


def _read(path: pathlib.Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        # The session ends at this moment.
        return ''


def uses(sessions: Iterable[Session], attachments: Iterable[Mapping[str, Any]],
         is_shown: Callable[[str], bool]) -> Iterator[tuple[Session, str, list[str]]]:
    """Yield each session with its use, and with the IDs of the attachments that use it.

    :param attachments: all attachments of this host
    :param is_shown: function that returns True if the service shows the volume with an ID
    """
    ours: dict[str, list[str]] = {}
    for one in attachments:
        ours.setdefault(one['volume_id'], []).append(one['id'])
    for session in sessions:
        served = ours.get(session.volume_id, [])
        yield session, USED if served else STALE if is_shown(session.volume_id) else UNKNOWN, \
            served
