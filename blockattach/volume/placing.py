"""A volume that could not be made here is placed on another pool."""
from blockattach import context
from blockattach.db import engine
from blockattach.db import placing_facts
from blockattach.domain import records
from blockattach.objects import placement
from blockattach.rpc import scheduler as scheduler_rpc


def place_again(database: engine.Database, scheduler: scheduler_rpc.SchedulerInterface,
                caller: context.RequestContext, claim: records.Claim) -> None:
    """Ask a scheduler, unless one has gone on by itself."""
    request = placing_facts.request(database, claim.resource_id)
    if request.generation == claim.generation + 1:
        scheduler.create_volume(caller, placement.VolumeRequest.from_domain(request))
