"""RPC interface of the scheduler, and its client."""
import abc
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from blockattach.platform import context
from blockattach.platform.rpc import calling
from blockattach.platform.rpc import contract
from blockattach.platform.rpc import transport
from blockattach.storage import objects


class SchedulerInterface(contract.Interface):
    """Scheduler of volumes. All processes that serve the interface are equivalent."""

    TOPIC = 'scheduler'

    @contract.cast(since='1.0')
    @abc.abstractmethod
    def place_volume(self, ctxt: context.RequestContext,
                     request: objects.VolumeRequest) -> None:
        """Select a pool for a volume, claim capacity, and notify the volume manager.

        If the message is lost, the placement is repeated after the deadline of the operation.
        """

    # Each scheduler has its own list of waiting volumes. The database contains the reports.
    @contract.fanout(since='1.0', timeout=contract.Timeout.NORMAL)
    @abc.abstractmethod
    def report_pools(self, ctxt: context.RequestContext, report: objects.PoolsReport) -> None:
        """Place waiting volumes, because a backend has reported its pools.

        If the message is lost, the volumes are placed by the next periodic search.
        """

    @contract.call(since='1.0', timeout=contract.Timeout.SHORT, repeated=True)
    @abc.abstractmethod
    def judge_pools(self, ctxt: context.RequestContext, request: objects.VolumeRequest,
                    volume_type_id: str) -> Sequence[Mapping[str, Any]]:
        """Evaluate all pools for a volume without placing the volume.

        :returns: a mapping for each pool, the suitable pools first, best first. The keys are
            ``name``, ``left_gb`` (None without a capacity limit), ``score``, ``refused_by`` (name
            of the filter that rejected the pool, or None) and ``reason``.
        """


def client(bus: transport.Bus) -> SchedulerInterface:
    """Return a client of the schedulers."""
    return calling.stub(SchedulerInterface, bus.client(SchedulerInterface))
