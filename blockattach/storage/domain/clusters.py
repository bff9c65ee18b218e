"""Clusters: groups of services that serve the same backend."""
import dataclasses
import datetime


@dataclasses.dataclass(frozen=True, slots=True)
class Cluster:
    """Cluster as reported by its members.

    :ivar name: ``cluster@backend``
    :ivar num_hosts: number of members
    :ivar num_down_hosts: number of members that send no heartbeats
    :ivar num_frozen: number of frozen members; a single frozen member freezes the cluster
    :ivar reason: disabled reason of one of the members; None if no member has one
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
        """True if at least one member is up."""
        return self.num_down_hosts < self.num_hosts

    @property
    def frozen(self) -> bool:
        """True if at least one member is frozen."""
        return self.num_frozen > 0

    @property
    def disabled(self) -> bool:
        """True if every member is disabled or the cluster is frozen.

        The cluster then gets no new volumes.
        """
        return self.num_disabled == self.num_hosts or self.frozen
