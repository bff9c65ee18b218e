"""Initiators, modes, credentials, grants and connections."""
import dataclasses
import enum
import re
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from blockattach import errors


class AccessMode(enum.StrEnum):
    """What an attachment may do."""

    RW = 'rw'
    RO = 'ro'


Pair = tuple[str, str]
"""A volume's id and an initiator."""

MASKED = '***'
"""Shown instead of a secret."""

# A connector is whatever a host says of itself: what may be a secret is known by its name only.
_SECRET = re.compile(r'pass|secret|auth|chap|token|key|credential', re.IGNORECASE)


def masked(connector: Any) -> Any:
    """The connector without what may be a secret: so it is stored and shown."""
    if connector is None or isinstance(connector, str | int | float):
        return connector
    if isinstance(connector, Mapping):
        return {key: MASKED if _SECRET.search(key) else masked(value)
                for key, value in connector.items()}
    if isinstance(connector, list):
        return [masked(value) for value in connector]
    return connector


def widest(modes: Iterable[AccessMode]) -> AccessMode:
    """The mode of a grant that several attachments of one initiator share."""
    return AccessMode.RW if AccessMode.RW in set(modes) else AccessMode.RO


@dataclasses.dataclass(frozen=True, slots=True)
class Credential:
    """What the initiator must prove (CHAP). Never printed."""

    username: str
    password: str = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Export:
    """A volume as a target offers it. ``device`` is a path on the storage host."""

    volume_id: str
    name: str
    device: str
    size_gb: int


@dataclasses.dataclass(frozen=True, slots=True)
class Grant:
    """The access of one initiator to one volume.

    ``alias`` is empty for the volume's first initiator and distinguishes later ones on backends
    that need one target per initiator; it does not change while the grant exists.
    """

    volume_id: str
    initiator: str
    mode: AccessMode
    credential: Credential
    alias: str = ''


@dataclasses.dataclass(frozen=True, slots=True)
class BlockSizes:
    """Bytes that a host addresses at once, and that the device writes at once."""

    logical: int
    physical: int


@dataclasses.dataclass(frozen=True, slots=True)
class Connection:
    """How a grant is reached: where, under which name and number. No credential.

    The rest is what the core adds for the consumer: whether it may discard, the block sizes where
    it must know them, the limits that it keeps to.
    """

    driver_volume_type: str
    portals: tuple[str, ...]
    target_name: str
    lun: int
    discard: bool = False
    block_sizes: BlockSizes | None = None
    limits: Mapping[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """The keys that the Block Storage API uses for iSCSI."""
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
            info['logical_block_size'] = str(self.block_sizes.logical)
            info['physical_block_size'] = str(self.block_sizes.physical)
        if self.limits is not None:
            info['qos_specs'] = dict(self.limits)
        return info


@dataclasses.dataclass(frozen=True, slots=True)
class ActualGrant:
    """A grant as it is at the target, for comparison with the desired state.

    Not ``intact`` is one that was made in part or tampered with (no credential required, several
    initiators on one target, ...): it is either granted again or revoked. ``account`` is the name
    of its credential, None where the target does not report it.
    """

    volume_id: str
    initiator: str
    mode: AccessMode
    sessions: int = 0
    intact: bool = True
    account: str | None = None


def difference(wanted: Iterable[Grant],
               actual: Iterable[ActualGrant]) -> tuple[set[Pair], set[Pair]]:
    """Compare desired and actual grants: what is missing or different, and what is too much."""
    wanted_by_pair = {(item.volume_id, item.initiator): item for item in wanted}
    actual_by_pair = {(item.volume_id, item.initiator): item for item in actual}
    missing = {pair for pair, grant in wanted_by_pair.items()
               if pair not in actual_by_pair or not _as_wanted(actual_by_pair[pair], grant)}
    return missing, actual_by_pair.keys() - wanted_by_pair.keys()


def _as_wanted(actual: ActualGrant, wanted: Grant) -> bool:
    return (actual.intact and actual.mode == wanted.mode
            and actual.account in (None, wanted.credential.username))


# Of the characters that targets take: they split their commands at some others. What a name must
# be besides is asked where one comes in (`connectors.check`).
_INITIATOR = re.compile(r'[A-Za-z0-9][A-Za-z0-9.:_-]{0,222}')


def initiator_of(connector: Mapping[str, Any]) -> str:
    """The name under which the consumer's host logs in.

    :raises ConnectorUnusable: the connector has none, or one that no node can have
    """
    initiator = connector.get('initiator')
    if not isinstance(initiator, str) or not _INITIATOR.fullmatch(initiator):
        raise errors.ConnectorUnusable(missing='initiator')
    return initiator
