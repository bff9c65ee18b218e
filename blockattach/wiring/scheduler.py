"""A scheduler."""
from blockattach.conf import scheduler as scheduler_conf
from blockattach.db import services
from blockattach.domain import binaries
from blockattach.rpc import volume as volume_rpc
from blockattach.scheduler import endpoint
from blockattach.scheduler import filters
from blockattach.scheduler import flows
from blockattach.scheduler import housekeeping
from blockattach.scheduler import placement
from blockattach.scheduler import pools
from blockattach.scheduler import service
from blockattach.scheduler import waiting
from blockattach.scheduler import weighers
from blockattach.wiring import foundation


def build_scheduler(base: foundation.Foundation) -> service.SchedulerService:
    """Put a scheduler together; `start` begins.

    :raises ConfigurationError: a filter or weigher is unknown
    """
    settings = scheduler_conf.settings(base.conf)
    down_after = base.service.service_down_time
    chooser = pools.PoolChooser(base.database, filters.load(settings.filters),
                                weighers.load(settings.weighers), down_after, base.clock)
    placing = placement.Placement(base.database, flows.PlacingFlows(
        base.database, chooser, volume_rpc.VolumeClients(base.bus), settings))
    waiting_volumes = waiting.WaitingVolumes(base.database, placing, down_after,
                                             settings.placing_seconds)
    server = base.bus.server(endpoint.SchedulerEndpoint(placing, waiting_volumes),
                             base.service.host)
    presence = services.Presence(base.database, binaries.SCHEDULER, base.service.host,
                                 base.control.availability_zone)
    return service.SchedulerService(
        server, waiting_volumes, housekeeping.Housekeeping(base.database), presence,
        base.service, settings, base.clock)
