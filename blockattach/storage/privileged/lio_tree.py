"""Read access to the volumes of this service in the configfs tree of LIO.

The cost of a read does not grow with the number of volumes, except for functions that list all
volumes.

The target and the backstore of a volume have the same name, ``<prefix>volume-<uuid>``. A target
has one target portal group, one logical unit, and one ACL per initiator::

    core/iblock_<number>/<name>                         the backstore
    iscsi/<name>/tpgt_1/lun/lun_0/<link>                link to the backstore
    iscsi/<name>/tpgt_1/acls/<initiator>/lun_0/<link>   link to the logical unit

A file or folder that vanishes between two reads counts as absent.
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

# Attributes of the portal groups of this service. Initiators without an ACL can neither log in nor
# discover the target, and a new mapping is read-only until it is made writable.
ATTRIBUTES: Mapping[str, str] = {
    'authentication': '1',
    'generate_node_acls': '0',
    'demo_mode_discovery': '0',
    'prod_mode_write_protect': '1',
}

# Attributes of a backstore with a read-only grant, which disable WRITE SAME. LIO 6.1 accepts this
# command on a read-only mapping if the command claims to read.
READER_ATTRIBUTES: Mapping[str, str] = {'max_write_same_len': '0', 'emulate_tpws': '0'}

_NUMBER = re.compile(r'Major: (\d+) Minor: (\d+)')
# rtslib assigns smaller numbers.
_FIRST_HBA = 2 ** 20


@dataclasses.dataclass(frozen=True, slots=True)
class Acl:
    """ACL of an initiator on a volume.

    :ivar mapped: True if the ACL maps the logical unit of the volume and no other
    :ivar account: CHAP user name of the initiator, or empty
    :ivar mutual_account: CHAP user name of the target for mutual CHAP, or empty
    :ivar requires_chap: True if a login requires the credential
    :ivar in_session: True if the initiator has at least one session
    """

    initiator: str
    mapped: bool
    read_only: bool
    account: str
    mutual_account: str
    requires_chap: bool
    in_session: bool


def root() -> str:
    """Return the path of the configfs tree of LIO, according to rtslib."""
    return str(node.CFSNode.configfs_dir)


def fabric() -> str:
    """Return the path of the folder of all iSCSI targets."""
    return f'{root()}/iscsi'


def target(name: str) -> str:
    """Return the path of the target of a volume."""
    return f'{fabric()}/{name}'


def group(name: str) -> str:
    """Return the path of the portal group of a volume."""
    return f'{target(name)}/{GROUP}'


def acl_path(name: str, initiator: str) -> str:
    """Return the path of the ACL of an initiator on a volume."""
    return f'{group(name)}/acls/{initiator}'


def backstore(name: str) -> str:
    """Return the path at which the backstore of a volume is created.

    The number of its host bus adapter is a hash of the name, so that no search is needed. Two
    volumes may have the same number.
    """
    number = _FIRST_HBA + zlib.crc32(name.encode()) % (2 ** 32 - _FIRST_HBA)
    return f'{root()}/core/iblock_{number}/{name}'


def read(path: str) -> str | None:
    """Return the stripped content of a file, or None if the file cannot be read."""
    try:
        with open(path, encoding='utf-8', errors='replace') as file:
            return file.read().strip()
    except OSError:
        return None


def names(path: str) -> list[str]:
    """Return the sorted names in a folder, or an empty list if the folder cannot be read."""
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def link(folder: str) -> str | None:
    """Return the target of the only symbolic link in a folder.

    :returns: None if the folder does not exist, or has no link or several links
    """
    try:
        with os.scandir(folder) as entries:
            links = [entry.path for entry in entries if entry.is_symlink()]
        return os.readlink(links[0]) if len(links) == 1 else None
    except OSError:
        return None


def linked_backstore(name: str) -> str | None:
    """Return the path of the backstore behind the logical unit of a volume.

    Another program may have created this backstore.

    :returns: None if the volume has no logical unit
    """
    leads = link(f'{group(name)}/lun/{UNIT}')
    if leads is None:
        return None
    *_, core, hba, store = leads.split('/')
    return f'{root()}/{core}/{hba}/{store}'


def backstores(name: str) -> list[str]:
    """Return the paths of all backstores with the name of a volume.

    The function lists all backstores of the host and is therefore for repairs only.
    """
    return [path for path in _backstores() if os.path.basename(path) == name]


def leads_to(store: str, device: str) -> bool:
    """Return True if a backstore is backed by a device.

    Device numbers are compared, because a device may have several paths.
    """
    match = _NUMBER.search(read(f'{store}/info') or '')
    return match is not None and number_of(device) == (int(match[1]), int(match[2]))


def number_of(device: str) -> tuple[int, int] | None:
    """Return the major and minor number of a block device, or None for any other path."""
    try:
        status = os.stat(device)
    except OSError:
        return None
    if not stat.S_ISBLK(status.st_mode):
        return None
    return os.major(status.st_rdev), os.minor(status.st_rdev)


def has_attributes(path: str, attributes: Mapping[str, str]) -> bool:
    """Return True if the attributes of a portal group or a backstore have the given values."""
    return all(read(f'{path}/attrib/{name}') == value for name, value in attributes.items())


def is_whole(name: str, portals: list[str]) -> bool:
    """Return True if a volume is completely exported, at exactly the given portals.

    The ACLs are not checked.
    """
    path = group(name)
    store = linked_backstore(name)
    return (store is not None and os.path.basename(store) == name
            and [part for part in names(target(name)) if part.startswith('tpgt_')] == [GROUP]
            and read(f'{path}/enable') == '1' and has_attributes(path, ATTRIBUTES)
            and not read(f'{path}/dynamic_sessions')
            and names(f'{path}/np') == sorted(portals))


def acl(name: str, initiator: str) -> Acl | None:
    """Return the ACL of an initiator on a volume, or None if the initiator has no ACL."""
    path = acl_path(name, initiator)
    entries = names(path)
    if not entries:
        return None
    account, password, mutual = (
        read(f'{path}/auth/{field}') or '' for field in ('userid', 'password', 'userid_mutual'))
    leads = link(f'{path}/{UNIT}') or ''
    return Acl(
        initiator,
        mapped=([entry for entry in entries if entry.startswith('lun_')] == [UNIT]
                and leads.endswith(f'/iscsi/{name}/{GROUP}/lun/{UNIT}')),
        read_only=read(f'{path}/{UNIT}/write_protect') == '1',
        account=_unset(account), mutual_account=_unset(mutual),
        requires_chap=bool(_unset(password)) and read(f'{path}/attrib/authentication') != '0',
        # The kernel reports one session even if there are several.
        in_session=not (read(f'{path}/info') or 'No active').startswith('No active'))


def acls(name: str) -> list[Acl]:
    """Return all ACLs of a volume."""
    listed = (acl(name, initiator) for initiator in names(f'{group(name)}/acls'))
    return [entry for entry in listed if entry is not None]


def volumes(ours: re.Pattern[str]) -> list[str]:
    """Return the names of all volumes that have a target or a backstore.

    :param ours: pattern of the names
    """
    present = set(names(fabric())) | {os.path.basename(path) for path in _backstores()}
    return sorted(name for name in present if ours.fullmatch(name))


def _backstores() -> Iterator[str]:
    for hba in names(f'{root()}/core'):
        if hba.startswith('iblock_'):
            folder = f'{root()}/core/{hba}'
            for name in names(folder):
                yield f'{folder}/{name}'


def _unset(text: str) -> str:
    # LIO shows an unset user name or password as NULL.
    return '' if text == 'NULL' else text
