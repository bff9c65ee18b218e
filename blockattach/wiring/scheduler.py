"""A scheduler."""
from typing import TYPE_CHECKING
from typing import NamedTuple

from blockattach import errors
from blockattach.conf import locations
from blockattach.conf import nova as nova_conf
from blockattach.conf import scheduler as scheduler_conf
from blockattach.conf import service as service_conf
from blockattach.db import leases
from blockattach.db import services
from blockattach.domain import binaries
from blockattach.rpc import history
from blockattach.rpc import processes
from blockattach.rpc import serving
from blockattach.rpc import volume as volume_rpc
from blockattach.scheduler import endpoint
from blockattach.scheduler import facts
from blockattach.scheduler import flows
from blockattach.scheduler import placement
from blockattach.scheduler import plugins
from blockattach.scheduler import pools
from blockattach.scheduler import service
from blockattach.scheduler import waiting
from blockattach.wiring import dependencies

if TYPE_CHECKING:
    from blockattach.nova import client as nova_client


def build_services(base: dependencies.Dependencies,
                   ) -> list[service.SchedulerService | serving.Server]:
    """What a process of its own consists of."""
    return [build_scheduler(base), build_own(base)]


def build_own(base: dependencies.Dependencies) -> serving.Server:
    """What the process is asked of itself."""
    return processes.server(base.bus, binaries.SCHEDULER, base.service.host)


def build_scheduler(base: dependencies.Dependencies) -> service.SchedulerService:
    """Put a scheduler together; `start` begins.

    :raises ConfigurationError: see `build_placing`
    """
    settings = scheduler_conf.settings(base.conf)
    presence = services.Presence(base.database, binaries.SCHEDULER, base.service.host,
                                 base.control.availability_zone, history.RELEASES[-1].name)
    placing = build_placing(base, presence.process_instance)
    server = base.bus.server(placing.endpoint, base.service.host)
    made = service.SchedulerService(
        server, placing.waiting, base.database, presence,
        base.service, settings, base.clock, base.threads)
    base.reloads.add(lambda: made.adjust(service_conf.settings(base.conf),
                                         scheduler_conf.settings(base.conf)))
    return made


class Placing(NamedTuple):
    """What places volumes: on request, and those that wait for too long."""

    endpoint: endpoint.SchedulerEndpoint
    waiting: waiting.WaitingVolumes


def build_placing(base: dependencies.Dependencies,
                  process_instance: str | None = None) -> Placing:
    """Put together what a scheduler does.

    :raises ConfigurationError: a filter or weigher is unknown, or lacks what it needs
    """
    settings = scheduler_conf.settings(base.conf)
    down_after = base.service.service_down_time
    with locations.named(base.conf, 'scheduler', 'scheduler_default_filters'):
        chosen_filters = plugins.load_filters(settings.filters)
    with locations.named(base.conf, 'scheduler', 'scheduler_default_weighers'):
        chosen_weighers = plugins.load_weighers(settings.weighers)
    chooser = pools.PoolChooser(
        base.database, chosen_filters, chosen_weighers, down_after, base.clock, base.telemetry,
        facts.FactReader(base.database, settings.filters, dict(settings.weighers),
                         _servers(base, settings)))
    placing = placement.Placement(base.database, flows.PlacingFlows(
        base.database, chooser, volume_rpc.VolumeClients(base.bus), settings))
    waiting_volumes = waiting.WaitingVolumes(
        base.database, placing, down_after, settings.placing_seconds,
        leases.owner_of(base.service.host, process_instance or base.database.new_id()))
    return Placing(endpoint.SchedulerEndpoint(placing, waiting_volumes), waiting_volumes)


def _servers(base: dependencies.Dependencies,
             settings: scheduler_conf.SchedulerSettings) -> 'nova_client.ServerHosts | None':
    """The hosts of servers, if a filter needs them."""
    if facts.LOCALITY not in settings.filters:
        return None
    nova = nova_conf.settings(base.conf)
    if not nova.knows_hosts:
        with locations.named(base.conf, 'scheduler', 'scheduler_default_filters'):
            raise errors.ConfigurationError(
                reason=f'cannot ask Nova where servers run, for the filter {facts.LOCALITY}: '
                       f'[nova] needs auth_url and username, or endpoint_override')
    from blockattach.nova import client as nova_client

    return nova_client.ServerHosts(nova)
