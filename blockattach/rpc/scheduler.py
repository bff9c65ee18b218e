"""The RPC interface of the scheduler, and its client."""
import abc
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from blockattach import context
from blockattach.objects import placement
from blockattach.rpc import calling
from blockattach.rpc import contract
from blockattach.rpc import transport


class SchedulerInterface(contract.Interface):
    """Any scheduler: all of them are equal."""

    TOPIC = 'scheduler'

    @contract.cast(since='1.0')
    @abc.abstractmethod
    def place_volume(self, ctxt: context.RequestContext,
                     request: placement.VolumeRequest) -> None:
        """Find a pool for the work, claim its room there, and hand the volume over to the manager.

        If this is lost, the volume's deadline brings it back.
        """

    @contract.fanout(since='1.0', timeout=contract.Timeout.NORMAL)
    @abc.abstractmethod
    def report_pools(self, ctxt: context.RequestContext, report: placement.PoolsReport) -> None:
        """Receive a backend's report of its pools. A lost report is followed by the next."""

    @contract.call(since='1.0', timeout=contract.Timeout.SHORT, repeated=True)
    @abc.abstractmethod
    def judge_pools(self, ctxt: context.RequestContext, request: placement.VolumeRequest,
                    volume_type_id: str) -> Sequence[Mapping[str, Any]]:
        """What would be found on each pool for a volume that is not there; nothing is placed.

        :returns: those that would do, best first, then the others: ``name``, ``left_gb`` (null:
            no limit), ``score``, ``refused_by`` (the filter) and ``reason``
        """


def client(bus: transport.Bus) -> SchedulerInterface:
    """The client of schedulers."""
    return calling.stub(SchedulerInterface, bus.client(SchedulerInterface))
