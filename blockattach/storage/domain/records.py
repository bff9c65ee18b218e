"""Records that the database layer returns: immutable values filled from rows."""
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
    """Encryption of the volumes of a type.

    :ivar provider: encryption format, such as ``luks`` or ``plain``
    :ivar control_location: ``front-end`` if the consumer encrypts, ``back-end`` if the storage
        encrypts
    :ivar key_size: size of the key in bits
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
    """QoS specs: limits that apply to the volumes of the associated types.

    :ivar consumer: component that enforces the limits, see `blockattach.storage.domain.qos`
    """

    id: str
    name: str
    consumer: str
    specs: dict[str, str | None]
    created_at: datetime.datetime
    updated_at: datetime.datetime | None


@dataclasses.dataclass(frozen=True, slots=True)
class Limited:
    """Id and name of a volume type that is associated with QoS specs."""

    id: str
    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class VolumeType:
    """Volume type.

    :ivar extra_specs: requirements on a pool, and settings of the service
    :ivar encryption: None if volumes of the type are not encrypted
    """

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
    """Default volume type of a project, used for volumes created without a type."""

    project_id: str
    volume_type_id: str


@dataclasses.dataclass(frozen=True, slots=True)
class AttachedServer:
    """Item of ``attachments`` in the API representation of a volume.

    As in Cinder, only completed attachments are listed in ``attachments``.
    """

    attachment_id: str
    instance_uuid: str | None
    host: str | None
    mountpoint: str | None
    attached_at: datetime.datetime | None


class Judged(Protocol):
    """Volume or snapshot for which a request was authorized.

    The request fails if the volume or snapshot has another project when the request writes.
    """

    @property
    def id(self) -> str:
        """Id of the volume or snapshot."""

    @property
    def project_id(self) -> str:
        """Project that owned the volume or snapshot when the request was authorized."""


@dataclasses.dataclass(frozen=True, slots=True)
class Volume:
    """Volume row with its attachments and metadata.

    :ivar own_status: status without regard to attachments (`volume_lifecycle.OwnStatus`)
    :ivar status: status in the API, derived from ``own_status`` and ``lowest_rank``
    :ivar lowest_rank: see `attachment_lifecycle.RANKS`; None without live attachments
    :ivar single_writer: True if only one server at a time may have attachments in mode rw
    :ivar pool: ``host@backend#pool``; None until the volume is scheduled
    :ivar generation: counter that every `volume_lifecycle.Event` increments
    """

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
    """Id of the snapshot from which the volume was created. The snapshot may be deleted."""
    source_volid: str | None = None
    """Id of the volume from which the volume was created. That volume may be deleted."""
    attached: tuple[AttachedServer, ...] = ()
    image_metadata: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Metadata of the image from which the volume was created."""
    limits: dict[str, str | int | None] | None = None
    """QoS limits that the consumer enforces; None if there are none, or in lists of volumes."""

    @property
    def host(self) -> str | None:
        """``host@backend`` that manages the volume; None until the volume is scheduled."""
        return host_of(self.pool)


@dataclasses.dataclass(frozen=True, slots=True)
class Exported:
    """Subset of the attributes of `Volume` that the export of a volume requires."""

    id: str
    size_gb: int
    pool: str | None
    limits: dict[str, str | int | None] | None


def host_of(pool: str | None) -> str | None:
    """Return the ``host@backend`` of a pool name ``host@backend#pool``, or None for None."""
    return None if pool is None else pool.partition('#')[0]


class Claim(NamedTuple):
    """Claim of a process instance on an operation of a resource.

    The claim is valid while the row of the operation in the table ``work`` has this owner and
    generation. For an operation on an attachment, the attachment row contains both.

    :ivar owner: process instance; None matches any owner
    """

    noun: str
    resource_id: str
    verb: str
    generation: int
    owner: str | None

    @property
    def name(self) -> str:
        """Name of the operation in the form ``noun.verb``."""
        return f'{self.noun}.{self.verb}'


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    """Asynchronous operation that has not ended: a row of the table ``work``.

    :ivar host: ``host@backend`` that executes the operation; None if any scheduler may execute it
    :ivar owner: process instance that executes the operation; None if no process has claimed the
        operation
    :ivar overdue: seconds since the deadline in database time, negative before the deadline
    :ivar attempts: number of times that the operation was claimed
    :ivar progress: state that the operation keeps between attempts
    :ivar error: error of the last failed attempt; None if no attempt has failed
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
        """Claim of the current owner on the operation."""
        return Claim(self.noun, self.resource_id, self.verb, self.generation, self.owner)

    @property
    def state(self) -> str:
        """State in the API: ``waiting`` (not claimed), ``running``, or ``overdue``."""
        if self.overdue > 0:
            return 'overdue'
        return 'waiting' if self.owner is None else 'running'


@dataclasses.dataclass(frozen=True, slots=True)
class SealedCredential:
    """CHAP credential of an initiator as stored: the password is encrypted."""

    username: str
    password: str = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class VolumeFacts:
    """Columns of a volume on which the rules for its attachments depend, read at one moment.

    :ivar attachment_moves: counter that every change of an attachment of the volume increments
    :ivar others_lowest: lowest rank of the other attachments, if the volume was read together with
        an attachment; None if there are no other attachments
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
        """``host@backend`` that manages the volume; None until the volume is scheduled."""
        return host_of(self.pool)


@dataclasses.dataclass(frozen=True, slots=True)
class AttachmentEvent:
    """Transition of an attachment, as recorded in the history.

    :ivar user_id: user who caused the transition; None if the service caused the transition
    """

    attachment_id: str
    generation: int
    """Generation of the attachment after the transition."""
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
    """Position in the total order of events; None if the position is not assigned yet."""
    id: int | None = None
    """Id of the row. Ids increase in the order of insertion."""


@dataclasses.dataclass(frozen=True, slots=True)
class Attachment:
    """Attachment row.

    :ivar previous_state: state that a refusal of the backend restores; None if there is none
    :ivar legacy_reservation: True if the attachment was created by os-reserve and has not been
        adopted by os-attach yet
    :ivar mode: access mode; None if not decided yet
    :ivar previous_connector: connector before the connect in progress, which a refusal restores
    :ivar owner: process instance that works on the attachment; None if no process does
    :ivar last_error: reason of the last refusal by the backend
    """

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
    """Portals, target name, LUN and limits for the host, without a credential."""
    generation: int
    owner: str | None
    last_error: str | None
    attached_at: datetime.datetime | None
    detached_at: datetime.datetime | None
    created_at: datetime.datetime
    updated_at: datetime.datetime | None
    previous_mode: connections.AccessMode | None = None
    volume: VolumeFacts | None = dataclasses.field(default=None, compare=False, repr=False)
    """Facts of the volume that were read together with the attachment; None if not read."""
    sealed: SealedCredential | None = dataclasses.field(default=None, compare=False, repr=False)
    """Credential of the connection; None if there is none, or if not read."""

    def connection_info(self, credential: connections.Credential | None) -> dict[str, Any] | None:
        """Return the connection info of the host, in the keys of the Block Storage API.

        :param credential: CHAP credential to include; None if the connection has none, or if the
            caller may not see it
        :returns: as in Cinder, an empty mapping before the host is connected, and None for an
            attachment that os-attach completed without a connector
        """
        if self.connection is None:
            # Only os-attach sets a mountpoint without an initiator.
            by_os_attach = self.mountpoint is not None and self.initiator is None
            return None if by_os_attach else {}
        # While a new connector is being connected, the stored connection is that of the old one.
        connector = self.previous_connector or self.connector or {}
        info = {
            # The limits in the stored connection replace this default.
            'qos_specs': None,
            **self.connection,
            'volume_id': self.volume_id,
            'attachment_id': self.id,
            # Volumes encrypted by the consumer are not supported (`volume_type.check_usable`).
            'encrypted': False,
            # Cinder returns the mode of the volume here, whatever the mode of the attachment.
            'access_mode': self.mode or connections.AccessMode.RW,
            'cacheable': False,
            'enforce_multipath': bool(connector.get('enforce_multipath')),
        }
        if connector.get('multipath') is True and 'target_portals' not in info:
            # A multipath host reads the lists, even if there is only one path.
            info |= {f'{key}s': [info[key]]
                     for key in ('target_portal', 'target_iqn', 'target_lun')}
        if credential is not None:
            info |= {'auth_method': 'CHAP', 'auth_username': credential.username,
                     'auth_password': credential.password}
        return info


class PairAttachment(NamedTuple):
    """Attachment of a (volume, initiator) pair.

    :ivar legacy_reservation: True if the API does not show the attachment
    """

    id: str
    mode: connections.AccessMode | None
    legacy_reservation: bool


class Pair(NamedTuple):
    """(volume, initiator) pair of an attachment.

    :ivar others: other live attachments of the pair, which share the connection
    :ivar adopted: True if the connection was imported from another service
    """

    others: list[PairAttachment]
    adopted: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Reconciled:
    """Repairs by a volume service since its start.

    :ivar repaired: number of repairs by kind of drift (`metrics.DRIFTS`)
    :ivar last: kind of the last repair; None if there was none
    """

    repaired: dict[str, int]
    last: str | None = None
    last_at: datetime.datetime | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Service:
    """Registered service, as listed by ``os-services``.

    :ivar updated_at: time of the last heartbeat
    :ivar up: True if the last heartbeat is recent, by the clock of the database
    """

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
    """``cluster@backend`` of the cluster; None if the service belongs to no cluster."""
    frozen: bool = False
    reconciled: Reconciled | None = None
    """Repairs of the service; None if the service has no backend, or has not reported yet."""

    @property
    def backend(self) -> str:
        """Prefix of the pool names of the service: its cluster, or its host without a cluster."""
        return self.cluster or self.host


@dataclasses.dataclass(frozen=True, slots=True)
class Message:
    """User message about an operation that failed, or about an expired attachment.

    :ivar detail: details for administrators, with the names of hosts and pools
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
