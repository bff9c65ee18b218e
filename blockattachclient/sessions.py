"""The iSCSI sessions of this machine as its kernel lists them, and whose they are."""
import pathlib
import re
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

ROOT = pathlib.Path('/sys/class')
"""Where the kernel lists them: ``iscsi_session``, ``iscsi_connection``."""
USED, STALE, UNKNOWN = 'used', 'stale', 'unknown'
"""An attachment of this host is served by a session; none is; the service does not show its
volume, which is deleted or of another project.
"""
_VOLUME = re.compile(r':volume-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})')
"""In the name of a target: whose volume it offers."""


class Session(NamedTuple):
    """A session to a target that offers a volume.

    :ivar devices: of the kernel, by their unit number
    """

    number: int
    target: str
    portal: str
    state: str
    volume_id: str
    devices: Mapping[int, str]

    def connection_info(self, lun: int) -> dict[str, Any]:
        """What os-brick needs to end it."""
        return {'target_iqn': self.target, 'target_portal': self.portal, 'target_lun': lun,
                'target_discovered': False, 'volume_id': self.volume_id}


def of_kernel(root: pathlib.Path = ROOT) -> list[Session]:
    """The sessions with targets that offer volumes, by number; others are somebody else's."""
    found = (_session(root, folder) for folder in (root / 'iscsi_session').glob('session*'))
    return sorted(session for session in found if session is not None)


def _session(root: pathlib.Path, folder: pathlib.Path) -> Session | None:
    number = int(folder.name.removeprefix('session'))
    connection = root / 'iscsi_connection' / f'connection{number}:0'
    target = _read(folder / 'targetname')
    named = _VOLUME.search(target)
    if named is None:
        return None
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
        # It ends at this moment.
        return ''


def uses(sessions: Iterable[Session], attachments: Iterable[Mapping[str, Any]],
         is_shown: Callable[[str], bool]) -> Iterator[tuple[Session, str, list[str]]]:
    """Each session with its use, and the attachments that it serves.

    :param attachments: all of this host
    :param is_shown: whether the service shows a volume
    """
    ours: dict[str, list[str]] = {}
    for one in attachments:
        ours.setdefault(one['volume_id'], []).append(one['id'])
    for session in sessions:
        served = ours.get(session.volume_id, [])
        yield session, USED if served else STALE if is_shown(session.volume_id) else UNKNOWN, \
            served
