"""Initiators, access modes, credentials, grants, reservations, connections and connectors.

Connector values that are stored, shown to users or passed to a target must match a grammar. All
other connector values are only limited in size.
"""
import dataclasses
import enum
import json
import re
import secrets
import string
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from blockattach.storage import errors


class AccessMode(enum.StrEnum):
    """Access mode of an attachment."""

    RW = 'rw'
    RO = 'ro'


Pair = tuple[str, str]
"""Volume id and initiator name."""

MASKED = '***'
"""Text shown in place of a secret."""

MOST_KEYS = 64
LONGEST_KEY = 64
LONGEST_NAME = 255
LONGEST_TEXT = 4096
LARGEST = 16384
"""Maximum size of a connector as JSON text, in bytes."""

_ALPHABET = string.ascii_letters + string.digits
# CHAP names and secrets of the length that Cinder's iSCSI drivers make; initiators on Windows
# refuse secrets of more than 16 characters.
_USERNAME_LENGTH = 20
_PASSWORD_LENGTH = 16

NO_INITIATOR = 'fake'
"""Initiator name that Nova's fake driver sends. No host logs in with the name."""

_DATED = r'[0-9]{4}-(0[1-9]|1[0-2])\.[A-Za-z0-9][A-Za-z0-9.-]*(:[A-Za-z0-9.:_-]*)?'
# RFC 7143, 4.2.7, restricted to the characters that initiators use. Targets accept no other
# characters, and split their commands at some of these other characters.
_NODE_NAME = re.compile(
    rf'(?=.{{1,223}}\Z)(iqn\.{_DATED}|eui\.[0-9a-f]{{16}}|naa\.([0-9a-f]{{16}}){{1,2}})',
    re.ASCII | re.IGNORECASE)
# NVM Express Base Specification, 4.5.
_NQN = re.compile(rf'(?=.{{1,223}}\Z)nqn\.{_DATED}', re.ASCII)
# A World Wide Name of Fibre Channel: 8 or 16 bytes, with or without colons.
_WWN = re.compile(r'(0x)?([0-9A-Fa-f]{2}:?){7}[0-9A-Fa-f]{2}(:?([0-9A-Fa-f]{2}:?){7}'
                  r'[0-9A-Fa-f]{2})?', re.ASCII)
_GRAMMARS = {'nqn': _NQN, 'wwpns': _WWN, 'wwnns': _WWN}
_NAMES = ('host', 'mountpoint', 'initiator')
_MODES = (None, '', 'rw', 'ro')

# A connector may have any keys, so secrets can only be recognized by the name of their key.
_SECRET = re.compile(r'pass|secret|auth|chap|token|key|credential', re.IGNORECASE)


def masked(connector: Any) -> Any:
    """Return a connector in which `MASKED` replaces all values that may be secrets."""
    if isinstance(connector, Mapping):
        return {key: MASKED if _SECRET.search(key) else masked(value)
                for key, value in connector.items()}
    if isinstance(connector, list):
        return [masked(value) for value in connector]
    return connector


def canonical_name(initiator: str) -> str:
    """Return the lower-case form of an iSCSI node name, which is stored and compared.

    Node names are case-insensitive (RFC 7143, 4.2.7.1, and RFC 3722). Initiator names in
    connectors may only contain ASCII letters, for which RFC 3722 requires nothing beyond lower
    case.
    """
    return initiator.lower()


def is_same_node(name: str | None, other: str | None) -> bool:
    """Return True if both names denote the same node. None denotes no node."""
    return name is not None and other is not None and (
        canonical_name(name) == canonical_name(other))


def spellings(initiator: str,
              connectors: Iterable[Mapping[str, Any] | None]) -> frozenset[str]:
    """Return all given spellings of an initiator name, except its canonical form.

    :param initiator: initiator name in any spelling
    :param connectors: connectors that may contain the name in other spellings; connectors with
        other names are ignored
    """
    sent = {initiator, *(one['initiator'] for one in connectors
                         if one and isinstance(one.get('initiator'), str))}
    return frozenset(name for name in sent if is_same_node(name, initiator)
                     and name != canonical_name(initiator))


def widest(modes: Iterable[AccessMode]) -> AccessMode:
    """Return the mode of a grant that several attachments share: rw if any of them needs rw."""
    # The host has one session for all these attachments. If one of them writes, the session needs
    # write access.
    return AccessMode.RW if AccessMode.RW in set(modes) else AccessMode.RO


@dataclasses.dataclass(frozen=True, slots=True)
class Credential:
    """CHAP credential of an initiator. The password is excluded from the representation."""

    username: str
    password: str = dataclasses.field(repr=False)


def new_credential() -> Credential:
    """Return a random CHAP credential for one (volume, initiator) pair.

    The user name starts with a letter, because LIO reads 0x and 0b as the start of a number.
    """
    return Credential(secrets.choice(string.ascii_letters) + _random(_USERNAME_LENGTH - 1),
                      _random(_PASSWORD_LENGTH))


def _random(length: int) -> str:
    # Drawing one number asks the kernel once, and each text is equally likely.
    number = secrets.randbelow(len(_ALPHABET) ** length)
    text = ''
    for _ in range(length):
        number, position = divmod(number, len(_ALPHABET))
        text += _ALPHABET[position]
    return text


@dataclasses.dataclass(frozen=True, slots=True)
class Export:
    """Volume as exported by a target. ``device`` is a path on the storage host."""

    volume_id: str
    name: str
    device: str
    size_gb: int


@dataclasses.dataclass(frozen=True, slots=True)
class Grant:
    """Access of one initiator to one volume.

    :ivar initiator: initiator name in lower case. The rows of an earlier release may contain
        another spelling until the online migration.
    :ivar alias: suffix of the target name on backends that need one target per initiator. It is
        empty for the first initiator of a volume, and does not change while the grant exists.
    :ivar adopted: True if another service has created the target. All initiators of the volume
        share such a target and its credential. The grant has no alias, and is kept with its
        sessions.
    :ivar spellings: other spellings of the initiator name that hosts have sent. A target that
        compares names byte by byte must admit all of them.
    """

    volume_id: str
    initiator: str
    mode: AccessMode
    credential: Credential
    alias: str = ''
    adopted: bool = False
    spellings: frozenset[str] = frozenset()

    @property
    def admitted(self) -> tuple[str, ...]:
        """Accepted spellings of the initiator name, starting with the canonical name."""
        return canonical_name(self.initiator), *sorted(self.spellings)


@dataclasses.dataclass(frozen=True, slots=True)
class BlockSizes:
    """Logical and physical block size of a device, in bytes."""

    logical: int
    physical: int


@dataclasses.dataclass(frozen=True, slots=True)
class Connection:
    """Address of a grant at the target: portals, target name and LUN, without the credential.

    The target driver leaves the last three fields empty, and the volume service sets them.

    :ivar discard: True if the consumer may discard blocks
    :ivar block_sizes: None for the usual logical block size
    :ivar limits: QoS limits that the consumer enforces; None if there are none
    """

    driver_volume_type: str
    portals: tuple[str, ...]
    target_name: str
    lun: int
    discard: bool = False
    block_sizes: BlockSizes | None = None
    limits: Mapping[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the connection info in the keys that the Block Storage API uses for iSCSI."""
        info: dict[str, Any] = {
            'driver_volume_type': self.driver_volume_type,
            'target_discovered': False,
            'target_portal': self.portals[0],
            'target_iqn': self.target_name,
            'target_lun': self.lun,
        }
        if len(self.portals) > 1:
            info['target_portals'] = list(self.portals)
            info['target_iqns'] = [self.target_name] * len(self.portals)
            info['target_luns'] = [self.lun] * len(self.portals)
        if self.discard:
            info['discard'] = True
        if self.block_sizes is not None:
            # As in Cinder, the sizes are texts.
            info['logical_block_size'] = str(self.block_sizes.logical)
            info['physical_block_size'] = str(self.block_sizes.physical)
        if self.limits is not None:
            info['qos_specs'] = dict(self.limits)
        return info


@dataclasses.dataclass(frozen=True, slots=True)
class ActualGrant:
    """Grant as reported by the target, for comparison with the desired state.

    :ivar initiator: initiator name in lower case
    :ivar sessions: number of sessions of the initiator, under all spellings of its name
    :ivar intact: False if the grant is partial or was modified (no credential required, several
        initiators on one target, ...). Such a grant is either granted again or revoked.
    :ivar account: user name of the credential; None if the target does not report the user name
    :ivar shared: True if the target grants other initiators access with the same credential
    :ivar spellings: other accepted spellings of the initiator name; None if the target ignores
        case
    """

    volume_id: str
    initiator: str
    mode: AccessMode
    sessions: int = 0
    intact: bool = True
    account: str | None = None
    shared: bool = False
    spellings: frozenset[str] | None = None

    def is_of(self, initiator: str | None) -> bool:
        """Return True if the grant belongs to the initiator, given in any spelling."""
        return is_same_node(self.initiator, initiator)


def difference(desired: Iterable[Grant],
               actual: Iterable[ActualGrant]) -> tuple[set[Pair], set[Pair]]:
    """Compare the desired grants with the grants at a target.

    Initiator names are compared without case.

    :returns: the pairs whose grant is missing or differs, with the names as in ``desired``, and
        the pairs whose grant is not desired, with the names as in ``actual``
    """
    found: dict[Pair, list[ActualGrant]] = {}
    for item in actual:
        found.setdefault((item.volume_id, canonical_name(item.initiator)), []).append(item)
    expected, missing = set(), set()
    for grant in desired:
        pair = grant.volume_id, canonical_name(grant.initiator)
        expected.add(pair)
        if not any(_as_wanted(item, grant) for item in found.get(pair, ())):
            missing.add((grant.volume_id, grant.initiator))
    return missing, {(item.volume_id, item.initiator) for pair, items in found.items()
                     if pair not in expected for item in items}


def _as_wanted(actual: ActualGrant, desired: Grant) -> bool:
    # Only adopted grants may share a credential with other initiators.
    return (actual.intact and actual.mode == desired.mode
            and desired.adopted >= actual.shared
            and (actual.spellings is None or desired.spellings <= actual.spellings)
            and actual.account in (None, desired.credential.username))


# The characters that targets accept. Targets split their commands at some other characters. The
# full grammar is checked when a connector is received (`check_connector`).
_INITIATOR = re.compile(r'[A-Za-z0-9][A-Za-z0-9.:_-]{0,222}')


def initiator_of(connector: Mapping[str, Any]) -> str:
    """Return the canonical initiator name in a connector.

    :raises ConnectorUnusable: if the initiator is missing or has characters that targets refuse
    """
    initiator = connector.get('initiator')
    if not isinstance(initiator, str) or not _INITIATOR.fullmatch(initiator):
        raise errors.ConnectorUnusable(missing='initiator')
    return canonical_name(initiator)


def check_connector(connector: Mapping[str, Any]) -> None:
    """Check the size of a connector and the grammar of its values.

    :raises InvalidInput: if a limit or a grammar is violated
    :raises ConnectorUnusable: if the initiator or the host is present but empty. The text is that
        of Cinder's iSCSI drivers
    """
    if len(connector) > MOST_KEYS:
        raise _wrong(f'more than {MOST_KEYS} keys')
    for key, value in _all(connector):
        if len(key) > LONGEST_KEY:
            raise _wrong(f'a key is longer than {LONGEST_KEY} characters')
        if isinstance(value, str) and len(value) > LONGEST_TEXT:
            raise _wrong(f'{key} is longer than {LONGEST_TEXT} characters')
    written = json.dumps(connector)
    if len(written) > LARGEST:
        raise _wrong(f'larger than {LARGEST} bytes')
    # No database column accepts NUL. `json.dumps` escapes it, so most connectors need no scan.
    if '\\u0000' in written and any(
            '\0' in text for pair in _all(connector) for text in pair if isinstance(text, str)):
        raise _wrong('contains a NUL character')
    _check_names(connector)


def is_initiator(name: object) -> bool:
    """Return True if the name is an iSCSI node name (iqn, eui or naa) or `NO_INITIATOR`."""
    return isinstance(name, str) and (_NODE_NAME.fullmatch(name) is not None
                                      or name == NO_INITIATOR)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and value.isprintable()


_FORMS = (
    ('host', _is_name, 'a non-empty string of printable characters'),
    ('initiator', is_initiator, 'an iSCSI node name (iqn., eui. or naa., RFC 7143)'),
)
"""Keys of a connector whose values must be valid names.

Each item is a key, a function that checks its value, and the expected form for the error text.
"""


def _check_names(connector: Mapping[str, Any]) -> None:
    for name in _NAMES:
        value = connector.get(name)
        if value is not None and (not isinstance(value, str) or len(value) > LONGEST_NAME):
            raise _wrong(f'{name} must be a string of at most {LONGEST_NAME} characters')
    for name, is_valid, form in _FORMS:
        if name not in connector or is_valid(connector[name]):
            continue
        if not (connector[name] or '').strip():
            raise errors.ConnectorUnusable(missing=name)
        raise _wrong(f'{name} must be {form}')
    if connector.get('mode') not in _MODES:
        raise _wrong('mode must be rw or ro')
    for name, grammar in _GRAMMARS.items():
        value = connector.get(name)
        for one in value if isinstance(value, list) else [value]:
            if one is not None and not (isinstance(one, str) and (
                    not one or grammar.fullmatch(one))):
                raise _wrong(f'{name} has an invalid format')


def _all(value: Any, key: str = '') -> Iterator[tuple[str, Any]]:
    """Yield (key, value) of a value and of all values nested in it.

    The items of a list have the key of the list.
    """
    yield key, value
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _all(inner, str(name))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _all(inner, key)


def _wrong(reason: str) -> errors.InvalidInput:
    return errors.InvalidInput(reason=f'Invalid input received: connector: {reason}.')


class HostReservation(enum.StrEnum):
    """State of one host with regard to the SCSI-3 persistent reservation of a volume."""

    NONE = 'none'
    REGISTERED = 'registered'
    HOLDER = 'holder'


@dataclasses.dataclass(frozen=True, slots=True)
class Reservations:
    """SCSI-3 persistent reservation of a volume, as reported by the target.

    :ivar registered: names of the initiators that have registered a key
    :ivar holders: names of the initiators that hold the reservation
    :ivar complete: False if there are more registrations than the target can report
    """

    registered: frozenset[str] = frozenset()
    holders: frozenset[str] = frozenset()
    complete: bool = True

    def of(self, initiator: str) -> HostReservation | None:
        """Return the state of an initiator with regard to the reservation.

        :returns: None if the initiator is not in the report, and the report is incomplete
        """
        if any(is_same_node(name, initiator) for name in self.holders):
            return HostReservation.HOLDER
        if any(is_same_node(name, initiator) for name in self.registered):
            return HostReservation.REGISTERED
        return HostReservation.NONE if self.complete else None
