"""A volume that could not be made here is the scheduler's again."""
from blockattach import context
from blockattach.db import engine
from blockattach.db import placing_facts
from blockattach.db import volumes
from blockattach.domain import records
from blockattach.objects import placement
from blockattach.rpc import scheduler as scheduler_rpc


class PlacingAgain:
    """Gives volumes back, and has them placed on another pool."""

    def __init__(self, database: engine.Database, scheduler: scheduler_rpc.SchedulerInterface,
                 schedule_seconds: float) -> None:
        """
        :param schedule_seconds: how long the scheduler may take before it is asked again
        """
        self._database = database
        self._scheduler = scheduler
        self._schedule_seconds = schedule_seconds

    def give_back(self, claim: records.Claim) -> None:
        """The pool cannot make the volume.

        :raises StaleGeneration: the claim has been lost
        """
        volumes.unclaim(self._database, claim.resource_id, claim.generation,
                        self._schedule_seconds, claim.owner)

    def ask(self, caller: context.RequestContext, claim: records.Claim) -> None:
        """Ask a scheduler, unless one has gone on by itself."""
        request = placing_facts.request(self._database, claim.resource_id)
        if request.generation == claim.generation + 1:
            self._scheduler.create_volume(caller, placement.VolumeRequest.from_domain(request))
