"""Clusters: the services that keep one backend together, seen as one."""
import dataclasses
import datetime


@dataclasses.dataclass(frozen=True, slots=True)
class Cluster:
    """What its members say of it. ``name`` is ``cluster@backend``.

    :ivar num_hosts: its members
    :ivar num_down_hosts: those of them that send no heartbeats
    :ivar num_disabled: those of them that are out of use
    :ivar num_frozen: those of them that are frozen; one is enough
    :ivar reason: why one of them is out of use
    """

    name: str
    binary: str
    num_hosts: int
    num_down_hosts: int
    num_disabled: int
    num_frozen: int
    reason: str | None
    last_heartbeat: datetime.datetime
    created_at: datetime.datetime
    updated_at: datetime.datetime | None

    @property
    def is_up(self) -> bool:
        """Whether it serves: one member is enough."""
        return self.num_down_hosts < self.num_hosts

    @property
    def frozen(self) -> bool:
        """Whether its volumes stay as they are."""
        return self.num_frozen > 0

    @property
    def disabled(self) -> bool:
        """Whether it gets no volumes: no member is in use, or it is frozen."""
        return self.num_disabled == self.num_hosts or self.frozen
