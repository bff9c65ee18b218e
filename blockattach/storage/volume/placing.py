"""A volume that could not be made here is placed anew."""
from blockattach.platform import context
from blockattach.storage.db import storage_db
from blockattach.storage.db.volumes import placing_facts
from blockattach.storage.domain import records
from blockattach.storage.objects import placement
from blockattach.storage.rpc import scheduler as scheduler_rpc


def place_again(database: storage_db.Database, scheduler: scheduler_rpc.SchedulerInterface,
                caller: context.RequestContext, claim: records.Claim) -> None:
    """Ask a scheduler for another pool, unless one has gone on by itself.

    :param claim: under which it was to be made here
    """
    request = placing_facts.request(database, claim.resource_id)
    if request.generation == claim.generation + 1:
        scheduler.place_volume(caller, placement.VolumeRequest.from_domain(request))
