"""What LIO's tree in configfs says of our volumes. Reads only; each look costs the same however
many volumes there are, except the lists of all.

A volume has one name for its target and for its backstore, ``<prefix>volume-<uuid>``, one portal
group, one logical unit, and an entry per initiator::

    core/iblock_<number>/<name>                    the backstore
    iscsi/<name>/tpgt_1/lun/lun_0/<link>           to the backstore
    iscsi/<name>/tpgt_1/acls/<initiator>/lun_0/<link>   to the logical unit

Anything may vanish between two reads: then it is not there.
"""
import dataclasses
import os
import re
import stat
import zlib
from collections.abc import Iterator
from collections.abc import Mapping

from rtslib_fb import node

GROUP = 'tpgt_1'
UNIT = 'lun_0'

UUID = r'[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}'

# What makes a portal group ours: strangers are not let in, and do not see it in a discovery; what
# is mapped anew cannot be written to until it is said otherwise.
ATTRIBUTES: Mapping[str, str] = {
    'authentication': '1',
    'generate_node_acls': '0',
    'demo_mode_discovery': '0',
    'prod_mode_write_protect': '1',
}

# LIO 6.1 takes WRITE SAME from who may only read, if the command says that it reads. So a volume
# that somebody may only read knows no such command.
READER_ATTRIBUTES: Mapping[str, str] = {'max_write_same_len': '0', 'emulate_tpws': '0'}

_NUMBER = re.compile(r'Major: (\d+) Minor: (\d+)')
# rtslib gives out smaller numbers.
_FIRST_HBA = 2 ** 20


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """An initiator's entry at a volume.

    ``mapped``: it leads to the logical unit, and nowhere else. ``asks``: whoever logs in by it
    must prove who he is.
    """

    initiator: str
    mapped: bool
    read_only: bool
    account: str
    mutual_account: str
    asks: bool
    in_session: bool


def root() -> str:
    """Where LIO's tree is: rtslib's own word."""
    return str(node.CFSNode.configfs_dir)


def fabric() -> str:
    """Where the iSCSI targets are."""
    return f'{root()}/iscsi'


def target(name: str) -> str:
    """Where the target of a volume is."""
    return f'{fabric()}/{name}'


def group(name: str) -> str:
    """Where the portal group of a volume is."""
    return f'{target(name)}/{GROUP}'


def entry_path(name: str, initiator: str) -> str:
    """Where an initiator's entry is."""
    return f'{group(name)}/acls/{initiator}'


def backstore(name: str) -> str:
    """Where the backstore of a volume is made: at a number that follows from the name, so that
    none has to be looked for. Two volumes may share a number.
    """
    number = _FIRST_HBA + zlib.crc32(name.encode()) % (2 ** 32 - _FIRST_HBA)
    return f'{root()}/core/iblock_{number}/{name}'


def read(path: str) -> str | None:
    """What a file says; None where there is none."""
    try:
        with open(path, encoding='utf-8', errors='replace') as file:
            return file.read().strip()
    except OSError:
        return None


def names(path: str) -> list[str]:
    """What is in a folder, in order; nothing where there is none."""
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def link(folder: str) -> str | None:
    """Where the one link in a folder leads, as written there; None where there is not one."""
    try:
        with os.scandir(folder) as entries:
            found = [entry.path for entry in entries if entry.is_symlink()]
        return os.readlink(found[0]) if len(found) == 1 else None
    except OSError:
        return None


def linked_backstore(name: str) -> str | None:
    """The backstore that the volume's logical unit leads to, by whoever made it."""
    leads = link(f'{group(name)}/lun/{UNIT}')
    if leads is None:
        return None
    *_, core, hba, store = leads.split('/')
    return f'{root()}/{core}/{hba}/{store}'


def backstores(name: str) -> list[str]:
    """Every backstore of this name. Looks through all: for repairs only."""
    return [path for path in _backstores() if os.path.basename(path) == name]


def offers(store: str, device: str) -> bool:
    """Whether a backstore gives the bytes of a device, whatever either is called."""
    said = _NUMBER.search(read(f'{store}/info') or '')
    return said is not None and number_of(device) == (int(said[1]), int(said[2]))


def number_of(device: str) -> tuple[int, int] | None:
    """The kernel's number of a block device, by which it is the same under every name."""
    try:
        found = os.stat(device)
    except OSError:
        return None
    if not stat.S_ISBLK(found.st_mode):
        return None
    return os.major(found.st_rdev), os.minor(found.st_rdev)


def has_attributes(path: str, wanted: Mapping[str, str]) -> bool:
    """Whether the attributes of a node are as they should be."""
    return all(read(f'{path}/attrib/{name}') == value for name, value in wanted.items())


def is_whole(name: str, portals: list[str]) -> bool:
    """Whether a volume is offered as it should be, at these portals, whoever is let in."""
    path = group(name)
    store = linked_backstore(name)
    return (store is not None and os.path.basename(store) == name
            and [part for part in names(target(name)) if part.startswith('tpgt_')] == [GROUP]
            and read(f'{path}/enable') == '1' and has_attributes(path, ATTRIBUTES)
            and not read(f'{path}/dynamic_sessions')
            and names(f'{path}/np') == sorted(portals))


def entry(name: str, initiator: str) -> Entry | None:
    """An initiator's entry, if there is one."""
    path = entry_path(name, initiator)
    found = names(path)
    if not found:
        return None
    account, password, mutual = (
        read(f'{path}/auth/{field}') or '' for field in ('userid', 'password', 'userid_mutual'))
    leads = link(f'{path}/{UNIT}') or ''
    return Entry(
        initiator,
        mapped=([part for part in found if part.startswith('lun_')] == [UNIT]
                and leads.endswith(f'/iscsi/{name}/{GROUP}/lun/{UNIT}')),
        read_only=read(f'{path}/{UNIT}/write_protect') == '1',
        account=_unset(account), mutual_account=_unset(mutual),
        asks=bool(_unset(password)) and read(f'{path}/attrib/authentication') != '0',
        # The kernel tells of one session, however many there are.
        in_session=not (read(f'{path}/info') or 'No active').startswith('No active'))


def entries(name: str) -> list[Entry]:
    """Every initiator's entry at a volume."""
    found = (entry(name, initiator) for initiator in names(f'{group(name)}/acls'))
    return [one for one in found if one is not None]


def volumes(ours: re.Pattern[str]) -> list[str]:
    """The names of all volumes that have a target or a backstore."""
    found = set(names(fabric())) | {os.path.basename(path) for path in _backstores()}
    return sorted(name for name in found if ours.fullmatch(name))


def _backstores() -> Iterator[str]:
    for hba in names(f'{root()}/core'):
        if hba.startswith('iblock_'):
            folder = f'{root()}/core/{hba}'
            for name in names(folder):
                yield f'{folder}/{name}'


def _unset(text: str) -> str:
    """What LIO says where nothing is set is not a name."""
    return '' if text == 'NULL' else text
