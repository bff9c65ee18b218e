"""What other processes may ask of a scheduler: three lines a method."""
from blockattach import context
from blockattach.objects import placement as placement_objects
from blockattach.rpc import scheduler as scheduler_rpc
from blockattach.scheduler import placement
from blockattach.scheduler import waiting


class SchedulerEndpoint(scheduler_rpc.SchedulerInterface):
    """Answers for one scheduler; all of them are equal."""

    def __init__(self, placement: placement.Placement,
                 waiting: waiting.WaitingVolumes) -> None:
        self._placement = placement
        self._waiting = waiting

    def place_volume(self, ctxt: context.RequestContext,
                     request: placement_objects.VolumeRequest) -> None:
        """Find a pool for a volume and hand it over."""
        self._placement.place(ctxt, request.to_domain())

    def report_pools(self, ctxt: context.RequestContext,
                     report: placement_objects.PoolsReport) -> None:
        """A backend has come: what waits for one is placed now."""
        self._waiting.look()
