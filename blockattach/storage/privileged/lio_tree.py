"""Our volumes in LIO's configfs tree. Reads only; the cost of a read does not grow with the number
of volumes, except for the lists of all.

A volume has one name for its target and for its backstore, ``<prefix>volume-<uuid>``, one portal
group, one logical unit, and an ACL per initiator::

    core/iblock_<number>/<name>                    the backstore
    iscsi/<name>/tpgt_1/lun/lun_0/<link>           to the backstore
    iscsi/<name>/tpgt_1/acls/<initiator>/lun_0/<link>   to the logical unit

What vanishes between two reads counts as absent.
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

# What makes a portal group ours: initiators without an ACL cannot log in or discover it, and a new
# mapping is read-only until it is made writable.
ATTRIBUTES: Mapping[str, str] = {
    'authentication': '1',
    'generate_node_acls': '0',
    'demo_mode_discovery': '0',
    'prod_mode_write_protect': '1',
}

# LIO 6.1 accepts WRITE SAME on a read-only mapping if the command claims to read. So a volume with
# a read-only grant does not support that command.
READER_ATTRIBUTES: Mapping[str, str] = {'max_write_same_len': '0', 'emulate_tpws': '0'}

_NUMBER = re.compile(r'Major: (\d+) Minor: (\d+)')
# rtslib gives out smaller numbers.
_FIRST_HBA = 2 ** 20


@dataclasses.dataclass(frozen=True, slots=True)
class Acl:
    """An initiator's ACL of a volume.

    ``mapped``: it leads to the logical unit, and nowhere else. ``requires_chap``: a login needs
    the credential.
    """

    initiator: str
    mapped: bool
    read_only: bool
    account: str
    mutual_account: str
    requires_chap: bool
    in_session: bool


def root() -> str:
    """Where LIO's tree is, according to rtslib."""
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


def acl_path(name: str, initiator: str) -> str:
    """Where an initiator's ACL is."""
    return f'{group(name)}/acls/{initiator}'


def backstore(name: str) -> str:
    """Where the backstore of a volume is made: at a number derived from the name, so that no
    search is needed. Two volumes may share a number.
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
        with os.scandir(folder) as inside:
            found = [one.path for one in inside if one.is_symlink()]
        return os.readlink(found[0]) if len(found) == 1 else None
    except OSError:
        return None


def linked_backstore(name: str) -> str | None:
    """The backstore that the volume's logical unit leads to, whichever program made it."""
    leads = link(f'{group(name)}/lun/{UNIT}')
    if leads is None:
        return None
    *_, core, hba, store = leads.split('/')
    return f'{root()}/{core}/{hba}/{store}'


def backstores(name: str) -> list[str]:
    """Every backstore of this name. Reads all of them: for repairs only."""
    return [path for path in _backstores() if os.path.basename(path) == name]


def leads_to(store: str, device: str) -> bool:
    """Whether a backstore is backed by a device; compares device numbers, not paths."""
    found = _NUMBER.search(read(f'{store}/info') or '')
    return found is not None and number_of(device) == (int(found[1]), int(found[2]))


def number_of(device: str) -> tuple[int, int] | None:
    """The kernel's number of a block device, which is the same under every path."""
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
    """Whether a volume is exported as it should be, at these portals; ACLs aside."""
    path = group(name)
    store = linked_backstore(name)
    return (store is not None and os.path.basename(store) == name
            and [part for part in names(target(name)) if part.startswith('tpgt_')] == [GROUP]
            and read(f'{path}/enable') == '1' and has_attributes(path, ATTRIBUTES)
            and not read(f'{path}/dynamic_sessions')
            and names(f'{path}/np') == sorted(portals))


def acl(name: str, initiator: str) -> Acl | None:
    """An initiator's ACL, if there is one."""
    path = acl_path(name, initiator)
    found = names(path)
    if not found:
        return None
    account, password, mutual = (
        read(f'{path}/auth/{field}') or '' for field in ('userid', 'password', 'userid_mutual'))
    leads = link(f'{path}/{UNIT}') or ''
    return Acl(
        initiator,
        mapped=([part for part in found if part.startswith('lun_')] == [UNIT]
                and leads.endswith(f'/iscsi/{name}/{GROUP}/lun/{UNIT}')),
        read_only=read(f'{path}/{UNIT}/write_protect') == '1',
        account=_unset(account), mutual_account=_unset(mutual),
        requires_chap=bool(_unset(password)) and read(f'{path}/attrib/authentication') != '0',
        # The kernel reports one session, however many there are.
        in_session=not (read(f'{path}/info') or 'No active').startswith('No active'))


def acls(name: str) -> list[Acl]:
    """Every ACL of a volume."""
    found = (acl(name, initiator) for initiator in names(f'{group(name)}/acls'))
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
    """LIO's text for an unset name, as an empty one."""
    return '' if text == 'NULL' else text
