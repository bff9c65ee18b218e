"""The RPC interface of the scheduler, and its client."""
import abc

from blockattach import context
from blockattach.objects import placement
from blockattach.rpc import contract
from blockattach.rpc import transport


class SchedulerInterface(contract.Interface):
    """Any scheduler: all of them are equal."""

    TOPIC = 'scheduler'

    @contract.cast(since='1.0')
    @abc.abstractmethod
    def create_volume(self, ctxt: context.RequestContext,
                      request: placement.VolumeRequest) -> None:
        """Find a pool for the volume, claim its room there, and hand it over to the manager.

        If this is lost, the volume's deadline brings it back.
        """

    @contract.fanout(since='1.0', timeout=contract.Timeout.NORMAL)
    @abc.abstractmethod
    def report_pools(self, ctxt: context.RequestContext, report: placement.PoolsReport) -> None:
        """Receive a backend's report of its pools. A lost report is followed by the next."""


class SchedulerClient(SchedulerInterface):
    """The client of schedulers; it raises the errors of `blockattach.rpc.contract.Invoke`."""

    def __init__(self, bus: transport.Bus) -> None:
        self._invoke: contract.Invoke = bus.client(SchedulerInterface)

    def create_volume(self, ctxt: context.RequestContext,
                      request: placement.VolumeRequest) -> None:
        """Send a request to one of them."""
        self._invoke(ctxt, 'create_volume', request=request)

    def report_pools(self, ctxt: context.RequestContext, report: placement.PoolsReport) -> None:
        """Send a report to all of them."""
        self._invoke(ctxt, 'report_pools', report=report)
