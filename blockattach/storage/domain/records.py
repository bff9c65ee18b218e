"""What the database returns: frozen records, filled from rows, never live objects."""
import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple
from typing import Protocol

from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import connection as connections


@dataclasses.dataclass(frozen=True, slots=True)
class TypeEncryption:
    """How volumes of a type are encrypted.

    :ivar provider: the format: ``luks``, ``plain``, ...
    :ivar control_location: where it is encrypted: ``front-end`` (the consumer) or ``back-end``
    :ivar key_size: in bits
    """

    id: str
    volume_type_id: str
    provider: str
    control_location: str
    cipher: str | None
    key_size: int | None
    created_at: datetime.datetime
    updated_at: datetime.datetime | None


@dataclasses.dataclass(frozen=True, slots=True)
class QosSpecs:
    """Limits under a name. ``consumer``: what enforces them, see
    `blockattach.storage.domain.qos`.
    """

    id: str
    name: str
    consumer: str
    specs: dict[str, str | None]
    created_at: datetime.datetime
    updated_at: datetime.datetime | None


@dataclasses.dataclass(frozen=True, slots=True)
class Limited:
    """One volume type that has QoS specs."""

    id: str
    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class VolumeType:
    """A kind of volume. ``extra_specs`` is what a pool must offer; ``encryption`` None: plain."""

    id: str
    name: str
    description: str | None
    is_public: bool
    extra_specs: dict[str, str]
    created_at: datetime.datetime
    updated_at: datetime.datetime | None
    encryption: TypeEncryption | None = None
    qos_specs_id: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class DefaultType:
    """The type that a project's volumes get which name none."""

    project_id: str
    volume_type_id: str


@dataclasses.dataclass(frozen=True, slots=True)
class AttachedServer:
    """One entry of a volume's ``attachments``: an attachment that is completed."""

    attachment_id: str
    instance_uuid: str | None
    host: str | None
    mountpoint: str | None
    attached_at: datetime.datetime | None


class Judged(Protocol):
    """Volume or snapshot as a request was authorized for it."""

    @property
    def id(self) -> str:
        """Identifier of the row."""

    @property
    def project_id(self) -> str:
        """Project that owned the volume or snapshot when the request was authorized."""


@dataclasses.dataclass(frozen=True, slots=True)
class Volume:
    """A volume. ``pool`` is ``host@backend#pool``; None until one was chosen."""

    id: str
    project_id: str
    user_id: str
    name: str | None
    description: str | None
    size_gb: int
    own_status: str
    status: str
    attach_status: str
    lowest_rank: int | None
    multiattach: bool
    encrypted: bool
    bootable: bool
    readonly: bool | None
    attached_mode: str | None
    single_writer: bool
    availability_zone: str
    volume_type_id: str
    volume_type_name: str
    pool: str | None
    service_uuid: str | None
    shared_targets: bool
    metadata: dict[str, str]
    generation: int
    created_at: datetime.datetime
    updated_at: datetime.datetime | None
    migration_status: str | None = None
    snapshot_id: str | None = None
    """The snapshot that it was made of; it may be gone since, as may be ``source_volid``."""
    source_volid: str | None = None
    attached: tuple[AttachedServer, ...] = ()
    image_metadata: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """What is known of the image that it was made from."""
    limits: dict[str, str | int | None] | None = None
    """The limits of its type for consumers, at this size; not read with lists."""

    @property
    def host(self) -> str | None:
        """``host@backend``: its manager; None until a pool was chosen."""
        return host_of(self.pool)


@dataclasses.dataclass(frozen=True, slots=True)
class Exported:
    """What is known of a volume where it is exported to its hosts, in the names of `Volume`."""

    id: str
    size_gb: int
    pool: str | None
    limits: dict[str, str | int | None] | None


def host_of(pool: str | None) -> str | None:
    """``host@backend`` of ``host@backend#pool``."""
    return None if pool is None else pool.partition('#')[0]


class Claim(NamedTuple):
    """The right of a process instance (``owner``) to do an act on a resource: as long as its row
    says so, under this generation.

    An ``owner`` of None stands for any.
    """

    noun: str
    resource_id: str
    verb: str
    generation: int
    owner: str | None

    @property
    def name(self) -> str:
        """``noun.verb``."""
        return f'{self.noun}.{self.verb}'


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    """An asynchronous act that has not ended.

    :ivar host: the ``host@backend`` that does it; None: any scheduler
    :ivar owner: the process instance that does it; None: none has taken it on
    :ivar overdue: seconds since its deadline, in database time; negative before it
    :ivar attempts: how often it was taken on
    :ivar progress: what the verb remembers of earlier attempts
    :ivar error: of the last attempt that failed
    """

    id: str
    noun: str
    resource_id: str
    verb: str
    generation: int
    host: str | None
    owner: str | None
    deadline: datetime.datetime
    overdue: float = dataclasses.field(compare=False)
    attempts: int
    progress: dict[str, Any]
    error: str | None
    request_id: str | None
    project_id: str | None
    created_at: datetime.datetime

    @property
    def claim(self) -> Claim:
        """By which its owner goes on."""
        return Claim(self.noun, self.resource_id, self.verb, self.generation, self.owner)

    @property
    def state(self) -> str:
        """``waiting`` for a process, ``running``, or ``overdue``."""
        if self.overdue > 0:
            return 'overdue'
        return 'waiting' if self.owner is None else 'running'


@dataclasses.dataclass(frozen=True, slots=True)
class SealedCredential:
    """What an initiator must prove, as it is stored."""

    username: str
    password: str = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class VolumeFacts:
    """The facts of a volume that decide on its attachments, read at one moment.

    :ivar attachment_moves: the other rows are unchanged as long as it is
    :ivar others_lowest: the lowest rank of its rows but for the one that was read with it
    """

    id: str
    project_id: str
    pool: str | None
    own_status: str
    status: str
    attach_status: str
    lowest_rank: int | None
    multiattach: bool
    bootable: bool
    single_writer: bool
    readonly: bool | None
    attached_mode: str | None
    generation: int
    detach_announced: int
    attachment_moves: int
    others_lowest: int | None = None

    @property
    def host(self) -> str | None:
        """The backend that has the volume, ``host@backend``."""
        return host_of(self.pool)


@dataclasses.dataclass(frozen=True, slots=True)
class AttachmentEvent:
    """A move of an attachment: when, what, and by whom. ``user_id`` None: the service itself."""

    attachment_id: str
    generation: int
    """Of the attachment, after it."""
    volume_id: str
    project_id: str
    instance_uuid: str | None
    host: str | None
    event: str
    """`attachment_lifecycle.CREATE`, or an `attachment_lifecycle.Event`."""
    old_state: attachment_lifecycle.State | None
    new_state: attachment_lifecycle.State
    user_id: str | None
    request_id: str | None
    reason: str | None
    created_at: datetime.datetime
    position: int | None = None
    """In the one order of all; None: it has none yet."""
    id: int | None = None
    """Id of the row. Ids grow in the order of insertion."""


@dataclasses.dataclass(frozen=True, slots=True)
class Attachment:
    """One attachment row. ``mode`` None: not known yet."""

    id: str
    volume_id: str
    project_id: str
    instance_uuid: str | None
    state: attachment_lifecycle.State
    previous_state: attachment_lifecycle.State | None
    legacy_reservation: bool
    mode: connections.AccessMode | None
    connector: dict[str, Any] | None
    previous_connector: dict[str, Any] | None
    initiator: str | None
    previous_initiator: str | None
    host: str | None
    mountpoint: str | None
    connection: dict[str, Any] | None
    """The target's portals, names and numbers; never a credential."""
    generation: int
    owner: str | None
    last_error: str | None
    attached_at: datetime.datetime | None
    detached_at: datetime.datetime | None
    created_at: datetime.datetime
    updated_at: datetime.datetime | None
    previous_mode: connections.AccessMode | None = None
    volume: VolumeFacts | None = dataclasses.field(default=None, compare=False, repr=False)
    """What was read of its volume with it; None: nothing was."""
    sealed: SealedCredential | None = dataclasses.field(default=None, compare=False, repr=False)
    """The credential of its connection; None: there is none, or it was not read."""

    def connection_info(self, credential: connections.Credential | None) -> dict[str, Any] | None:
        """How the host reaches the volume, in the keys of the Block Storage API.

        :param credential: what the initiator must prove; None: none, or not for this caller
        """
        if self.connection is None:
            # Only os-attach sets a mountpoint without an initiator.
            by_os_attach = self.mountpoint is not None and self.initiator is None
            return None if by_os_attach else {}
        connector = self.previous_connector or self.connector or {}
        info = {
            'qos_specs': None,
            **self.connection,
            'volume_id': self.volume_id,
            'attachment_id': self.id,
            'encrypted': False,
            'access_mode': self.mode or connections.AccessMode.RW,
            'cacheable': False,
            'enforce_multipath': bool(connector.get('enforce_multipath')),
        }
        if connector.get('multipath') is True and 'target_portals' not in info:
            # A host that joins several paths reads lists, however many there are.
            info |= {f'{key}s': [info[key]]
                     for key in ('target_portal', 'target_iqn', 'target_lun')}
        if credential is not None:
            info |= {'auth_method': 'CHAP', 'auth_username': credential.username,
                     'auth_password': credential.password}
        return info


class PairAttachment(NamedTuple):
    """An attachment that shares its connection with another one; the API does not show a legacy
    reservation.
    """

    id: str
    mode: connections.AccessMode | None
    legacy_reservation: bool


class Pair(NamedTuple):
    """What is known of the pair (volume and initiator) of an attachment: the other ones that it
    has, and whether its connection was taken over from another service.
    """

    others: list[PairAttachment]
    adopted: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Reconciled:
    """What a volume service has repaired since its start, by the kinds of `metrics.DRIFTS`."""

    repaired: dict[str, int]
    last: str | None = None
    last_at: datetime.datetime | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Service:
    """A process that reports itself. ``up`` is decided in database time."""

    id: int
    uuid: str
    binary: str
    host: str
    availability_zone: str
    disabled: bool
    disabled_reason: str | None
    updated_at: datetime.datetime
    up: bool
    cluster: str | None = None
    """``cluster@backend``: several services keep it together; None: this one alone."""
    frozen: bool = False
    reconciled: Reconciled | None = None
    """None: it serves no backend, or has not reported yet."""

    @property
    def backend(self) -> str:
        """What the names of its pools begin with."""
        return self.cluster or self.host


@dataclasses.dataclass(frozen=True, slots=True)
class Message:
    """A message to a user about something that failed after the answer.

    :ivar detail: what went wrong in this case, with names of hosts and pools: for administrators
    """

    id: str
    project_id: str
    request_id: str | None
    event_id: str
    user_message: str
    detail: str | None
    message_level: str
    resource_type: str
    resource_id: str | None
    created_at: datetime.datetime
    guaranteed_until: datetime.datetime
