"""Pools, the reports of their capacities, and the requirements of a volume on a pool.

Reported capacities are converted to floats in GiB when a report is received, with ``inf`` for
"infinite" and "unknown". All other code can calculate with the converted values.
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
"""Over-subscription ratio of a thin pool that reports ``auto``.

The value is Cinder's default of ``max_over_subscription_ratio``.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Capacity:
    """Capacity of a pool in GiB, parsed from its report.

    :ivar provisioned_gb: virtual size of all volumes on the pool, as reported by the backend
    :ivar limit_gb: maximum to allocate in total (see `measure`); ``inf`` for no limit
    :ivar thin: True if the pool supports thin provisioning
    """

    total_gb: float
    free_gb: float
    provisioned_gb: float
    limit_gb: float
    thin: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Pool(Capacity):
    """Part of a backend that stores volumes. ``name`` is ``host@backend#pool``.

    :ivar allocated_gb: GiB allocated to volumes in the database, including claims
    :ivar capabilities: report as stored, for filters on extra specs and for the API
    :ivar up: True if the report is recent, at least one service of the pool is up and enabled, and
        no service of the pool is frozen. A pool whose service has not registered yet may be up
    :ivar reported_at: time of the report, by the clock of the database
    """

    name: str
    availability_zone: str
    allocated_gb: float
    multiattach: bool
    capabilities: Mapping[str, Any]
    up: bool = True
    reported_at: datetime.datetime | None = None
    service_uuid: str | None = None
    """UUID of a service that serves the pool; None if no such service has registered."""

    @property
    def usable(self) -> bool:
        """True if ``up`` is True and the backend does not report that it is down."""
        return self.up and says_up(self.capabilities)

    @property
    def host(self) -> str:
        """``host@backend`` in the name of the pool."""
        return self.name.split('#', 1)[0]


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """Additional input of filters and weighers, read just before the choice of a pool.

    :ivar hints: scheduler hints of the client (``OS-SCH-HNT:scheduler_hints``)
    :ivar volume: attributes of the volume, by their names in filter and goodness expressions
    :ivar qos: keys and values of the QoS specs of the volume type
    :ivar placed: pool name by volume id, for volumes that a hint names. Only live volumes of the
        same project that have a pool are included
    :ivar source_host: ``host@backend`` of the source of the volume; None if the volume has no
        source; empty if the source is deleted
    :ivar volumes: number of volumes by pool name
    :ivar attempts: number of pools on which the creation of the volume was attempted so far
    :ivar refusal_reported: True if a user message already reports that no pool is suitable
    :ivar server_host: host of the server that a hint names; None if unknown
    :ivar server_lost: reason why ``server_host`` is unknown
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
    """Requirements of a volume on a pool.

    ``facts`` is not sent to the scheduler. The scheduler reads the facts for each choice of a
    pool.

    :ivar size_gb: size that the volume will have, in GiB
    :ivar tried: names of the pools on which an earlier attempt failed
    :ivar verb: operation that needs a pool: ``create``, ``extend``, ``manage``, ``migrate``,
        ``retype``
    :ivar held_gb: GiB that the volume has already, on ``home`` or on its only suitable pool
    :ivar pool: name of the only suitable pool, or ``host@backend`` of the only suitable backend;
        None if any pool may be suitable
    :ivar home: current pool of a volume that may move; the scheduler prefers this pool
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
        """Return the GiB that the pool with the given name must have left for the volume."""
        # On another pool than the current one, the volume needs space for its whole size.
        return self.size_gb - (self.held_gb if self.home in (None, pool_name) else 0)


def request_for(kind: records.VolumeType, size_gb: int, availability_zone: str,
                source_host: str | None = None) -> VolumeRequest:
    """Return the requirements on a pool for a volume that is not stored yet.

    :param kind: type of the volume
    :param source_host: ``host@backend`` of the source of the volume; None if there is no source
    """
    return VolumeRequest(
        volume_id='', generation=0, size_gb=size_gb,
        multiattach=volume_type.is_multiattach(kind.extra_specs),
        availability_zone=availability_zone, extra_specs=kind.extra_specs,
        facts=Facts(source_host=source_host))


def request_of(volume: records.Volume, extra_specs: Mapping[str, str], verb: str = 'create',
               progress: Mapping[str, Any] = types.MappingProxyType({})) -> VolumeRequest:
    """Return the requirements on a pool for a stored volume.

    :param extra_specs: extra specs of the type of the volume after the operation
    :param verb: operation that needs the pool
    :param progress: stored progress of this operation (`records.Work`)
    """
    request = VolumeRequest(
        volume_id=volume.id, generation=volume.generation, size_gb=volume.size_gb,
        multiattach=volume.multiattach, availability_zone=volume.availability_zone,
        extra_specs=extra_specs, tried=tuple(progress.get('tried', ())), verb=verb)
    if verb == 'extend':
        # The volume stays on its pool, so the zone is not compared again.
        return dataclasses.replace(request, size_gb=progress['new_size'],
                                   held_gb=volume.size_gb, pool=volume.pool,
                                   availability_zone=None)
    if verb == 'manage':
        # The data is on the pool already, and the size is not known yet.
        return dataclasses.replace(request, size_gb=0, pool=volume.pool)
    if verb == 'migrate':
        return dataclasses.replace(request, pool=progress['destination'], home=volume.pool)
    if verb == 'retype':
        return dataclasses.replace(
            request, pool=None if progress['moves'] else volume.pool, home=volume.pool,
            held_gb=volume.size_gb, multiattach=volume_type.is_multiattach(extra_specs))
    return request


def says_up(capabilities: Mapping[str, Any]) -> bool:
    """Return True unless the backend reports that it is down."""
    return capabilities.get('backend_state') != 'down'


def stats(pool: Pool) -> dict[str, Any]:
    """Return the values of a pool for expressions (``stats.``) and for the hint ``query`` (``$``).

    The values are the report of the pool, with all capacities as numbers, and the name of the
    pool as ``host`` and ``backend_id``.
    """
    return {
        **pool.capabilities, 'capabilities': pool.capabilities,
        'host': pool.name, 'backend_id': pool.name,
        'total_capacity_gb': pool.total_gb, 'free_capacity_gb': pool.free_gb,
        'provisioned_capacity_gb': pool.provisioned_gb,
        'allocated_capacity_gb': pool.allocated_gb, 'multiattach': pool.multiattach,
        'availability_zone': pool.availability_zone}


def gib(value: Any, default: float = 0.0) -> float:
    """Return a reported capacity as a number of GiB.

    As in Cinder's CapacityFilter, a pool that reports "infinite" or "unknown" is large enough for
    any volume.

    :returns: ``inf`` for "infinite" and "unknown"; ``default`` if the value is negative or is not
        a number
    """
    if isinstance(value, str) and value.strip().lower() in UNLIMITED_WORDS:
        return math.inf
    try:
        number = float(value)
    except (TypeError, ValueError):
        return default
    return default if math.isnan(number) or number < 0 else number


def measure(capabilities: Mapping[str, Any]) -> Capacity:
    """Return the capacity of a pool, parsed from its report.

    ``limit_gb`` of a thick pool is its total size, without the reserved space and without the
    space that other users of the storage have taken. ``limit_gb`` of a thin pool is its total size
    without the reserved space, times the over-subscription ratio. If the total or the free
    capacity is ``inf``, the limit is ``inf`` too. Cinder's `calculate_capacity_factors`
    (``cinder.scheduler.sched_utils``) uses the same terms.
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
        # Cinder rejects a pool whose ratio is less than 1. Here the pool counts without
        # over-subscription.
        ratio = DEFAULT_RATIO if asked == 'auto' else max(gib(asked, 1.0), 1.0)
        return Capacity(total, free, provisioned, (total - kept) * ratio, thin)
    # Space in use that no volume accounts for: other users of the storage, or metadata.
    strangers = max(0.0, total - free - provisioned)
    return Capacity(total, free, provisioned, max(0.0, total - kept - strangers), thin)


def flag(value: Any) -> bool:
    """Return the boolean of a reported value, which may be text."""
    return volume_type.is_true(value) if isinstance(value, str) else bool(value)
