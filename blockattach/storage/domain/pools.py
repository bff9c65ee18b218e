"""Pools as they report themselves, and what a volume asks of one.

Capacities are normalised once, at intake: GiB as floats, ``inf`` for a backend that says
"infinite" or "unknown"; everything after that may calculate.
"""
import dataclasses
import datetime
import math
import types
from collections.abc import Mapping
from typing import Any

from blockattach.storage.domain import records
from blockattach.storage.domain import volume_type

UNLIMITED_WORDS = frozenset({'infinite', 'unknown'})

DEFAULT_RATIO = 20.0
"""How many times over a thin pool is given away that leaves it to us ("auto")."""


@dataclasses.dataclass(frozen=True, slots=True)
class Capacity:
    """What a report says on room, as numbers."""

    total_gb: float
    free_gb: float
    provisioned_gb: float
    limit_gb: float
    thin: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Pool(Capacity):
    """A part of a backend with room for volumes. ``name`` is ``host@backend#pool``.

    ``allocated_gb`` is what the database has allocated there, claims included. ``capabilities`` is
    the report as it came, for filters on extra specs and for the API. ``up`` and ``reported_at``
    are in database time.
    """

    name: str
    availability_zone: str
    allocated_gb: float
    multiattach: bool
    capabilities: Mapping[str, Any]
    up: bool = True
    reported_at: datetime.datetime | None = None
    service_uuid: str | None = None
    """Of the service that keeps it, or of one of them; None: none has registered itself."""

    @property
    def usable(self) -> bool:
        """Whether its service serves it, and its backend says that it can be used."""
        return self.up and says_up(self.capabilities)

    @property
    def host(self) -> str:
        """``host@backend``: the manager of this pool."""
        return self.name.split('#', 1)[0]


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """Further input of filters and weighers, read just before the choice.

    :ivar hints: what the client gave along (``OS-SCH-HNT:scheduler_hints``)
    :ivar volume: the volume by the names that expressions of backends know it by
    :ivar qos: the specs of the type's QoS specs
    :ivar placed: the pools of those volumes which hints name, by their ids: live ones of the same
        project that have a pool
    :ivar source_host: the ``host@backend`` that has what the volume is made of; None: it begins
        empty; empty: that is gone
    :ivar volumes: how many volumes each pool has
    :ivar attempts: on how many pools the volume has been placed so far
    :ivar refusal_reported: whether the user has a message that no pool will do
    :ivar server_host: the host of the server that a hint names
    :ivar server_lost: why that host is not known
    """

    hints: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    volume: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    qos: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    placed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    source_host: str | None = None
    volumes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    attempts: int = 0
    refusal_reported: bool = False
    server_host: str | None = None
    server_lost: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class VolumeRequest:
    """What a volume asks of a pool. ``tried`` are pools that failed it before.

    ``facts`` are not sent: the scheduler reads them for each choice.

    :ivar size_gb: what it shall have
    :ivar verb: the work that is placed: ``create``, ``extend``, ``manage``, ``migrate``,
        ``retype``
    :ivar held_gb: what it has already, of ``home`` or of the only pool that will do
    :ivar pool: the only one that will do, by name, or the ``host@backend`` of those; None: any
    :ivar home: the pool that has it, if it may move; that one is preferred
    """

    volume_id: str
    generation: int
    size_gb: int
    multiattach: bool
    availability_zone: str | None
    extra_specs: Mapping[str, str]
    tried: tuple[str, ...] = ()
    verb: str = 'create'
    held_gb: int = 0
    pool: str | None = None
    home: str | None = None
    facts: Facts = Facts()

    def room_gb(self, pool_name: str) -> int:
        """What a pool must have left."""
        return self.size_gb - (self.held_gb if self.home in (None, pool_name) else 0)


def request_for(kind: records.VolumeType, size_gb: int, availability_zone: str,
                source_host: str | None = None) -> VolumeRequest:
    """What a volume of a type would ask of a pool, before there is one."""
    return VolumeRequest(
        volume_id='', generation=0, size_gb=size_gb,
        multiattach=volume_type.is_multiattach(kind.extra_specs),
        availability_zone=availability_zone, extra_specs=kind.extra_specs,
        facts=Facts(source_host=source_host))


def request_of(volume: records.Volume, extra_specs: Mapping[str, str], verb: str = 'create',
               progress: Mapping[str, Any] = types.MappingProxyType({})) -> VolumeRequest:
    """What a stored volume asks of a pool, as its row is now.

    :param progress: of the work that needs the room
    """
    request = VolumeRequest(
        volume_id=volume.id, generation=volume.generation, size_gb=volume.size_gb,
        multiattach=volume.multiattach, availability_zone=volume.availability_zone,
        extra_specs=extra_specs, tried=tuple(progress.get('tried', ())), verb=verb)
    if verb == 'extend':
        return dataclasses.replace(request, size_gb=progress['new_size'],
                                   held_gb=volume.size_gb, pool=volume.pool,
                                   availability_zone=None)
    if verb == 'manage':
        # Its bytes are there already; how many is not known yet.
        return dataclasses.replace(request, size_gb=0, pool=volume.pool)
    if verb == 'migrate':
        return dataclasses.replace(request, pool=progress['destination'], home=volume.pool)
    if verb == 'retype':
        return dataclasses.replace(
            request, pool=None if progress['moves'] else volume.pool, home=volume.pool,
            held_gb=volume.size_gb, multiattach=volume_type.is_multiattach(extra_specs))
    return request


def says_up(capabilities: Mapping[str, Any]) -> bool:
    """Whether a backend does not report that it is down."""
    return capabilities.get('backend_state') != 'down'


def stats(pool: Pool) -> dict[str, Any]:
    """A pool as expressions (``stats.``) and queries (``$``) see it: its report, with capacities
    as numbers, and its names.
    """
    return {
        **pool.capabilities, 'capabilities': pool.capabilities,
        'host': pool.name, 'backend_id': pool.name,
        'total_capacity_gb': pool.total_gb, 'free_capacity_gb': pool.free_gb,
        'provisioned_capacity_gb': pool.provisioned_gb,
        'allocated_capacity_gb': pool.allocated_gb, 'multiattach': pool.multiattach,
        'availability_zone': pool.availability_zone}


def gib(value: Any, default: float = 0.0) -> float:
    """A capacity as a number of GiB: texts, "infinite" and "unknown" included."""
    if isinstance(value, str) and value.strip().lower() in UNLIMITED_WORDS:
        return math.inf
    try:
        number = float(value)
    except (TypeError, ValueError):
        return default
    return default if math.isnan(number) or number < 0 else number


def measure(capabilities: Mapping[str, Any]) -> Capacity:
    """Read the room of a pool out of its report.

    ``limit_gb`` is how much may be given away in all. A thick pool gives what is neither reserved
    nor used by strangers; a thin one gives its unreserved size times the over-subscription ratio.
    """
    total = gib(capabilities.get('total_capacity_gb'))
    free = gib(capabilities.get('free_capacity_gb'))
    provisioned = gib(capabilities.get('provisioned_capacity_gb'))
    thin = flag(capabilities.get('thin_provisioning_support'))
    if math.isinf(total) or math.isinf(free):
        return Capacity(total, free, provisioned, math.inf, thin)
    kept = total * gib(capabilities.get('reserved_percentage')) / 100
    if thin:
        asked = capabilities.get('max_over_subscription_ratio')
        ratio = DEFAULT_RATIO if asked == 'auto' else max(gib(asked, 1.0), 1.0)
        return Capacity(total, free, provisioned, (total - kept) * ratio, thin)
    strangers = max(0.0, total - free - provisioned)
    return Capacity(total, free, provisioned, max(0.0, total - kept - strangers), thin)


def flag(value: Any) -> bool:
    """A boolean that may have come as text."""
    return volume_type.is_true(value) if isinstance(value, str) else bool(value)
