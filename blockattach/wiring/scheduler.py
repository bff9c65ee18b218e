"""Builder of the scheduler, which chooses the pools of volumes."""
from collections.abc import Callable
from typing import NamedTuple

from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform.conf import locations
from blockattach.platform.conf import service as service_conf
from blockattach.platform.rpc import processes
from blockattach.platform.rpc import serving
from blockattach.storage.conf import nova as nova_conf
from blockattach.storage.conf import scheduler as scheduler_conf
from blockattach.storage.db.attachments import leases
from blockattach.storage.db.services import services
from blockattach.storage.domain import binaries
from blockattach.storage.domain import pools
from blockattach.storage.rpc import history
from blockattach.storage.rpc import volume as volume_rpc
from blockattach.storage.scheduler import endpoint
from blockattach.storage.scheduler import pipeline
from blockattach.storage.scheduler import placement
from blockattach.storage.scheduler import plugins
from blockattach.storage.scheduler import service
from blockattach.storage.scheduler import waiting
from blockattach.wiring import dependencies


def build_services(base: dependencies.Dependencies,
                   ) -> list[service.SchedulerService | serving.Server]:
    """Build the services of a scheduler process."""
    return [build_scheduler(base), build_own(base)]


def build_own(base: dependencies.Dependencies) -> serving.Server:
    """Build the RPC server for requests about the process itself."""
    return processes.server(base.bus, binaries.SCHEDULER, base.service.host)


def build_scheduler(base: dependencies.Dependencies) -> service.SchedulerService:
    """Build the scheduler service.

    :raises ConfigurationError: see `build_placing`
    """
    settings = scheduler_conf.settings(base.conf)
    presence = services.Presence(base.database, binaries.SCHEDULER, base.service.host,
                                 base.control.availability_zone, history.RELEASES[-1].name)
    placing = build_placing(base, presence.process_instance)
    server = base.bus.server(placing.endpoint, base.service.host)
    built = service.SchedulerService(
        server, placing.waiting, base.database, presence,
        base.service, settings, base.clock, base.threads)
    base.reloads.add(lambda: built.adjust(service_conf.settings(base.conf),
                                          scheduler_conf.settings(base.conf)))
    return built


class Placing(NamedTuple):
    """Objects that choose the pools of volumes.

    :ivar endpoint: RPC endpoint for requests to place volumes
    :ivar waiting: periodic search for volumes that still wait for a placement
    """

    endpoint: endpoint.SchedulerEndpoint
    waiting: waiting.WaitingVolumes


def build_placing(base: dependencies.Dependencies,
                  process_instance: str | None = None) -> Placing:
    """Build the objects that choose the pools of volumes.

    :param process_instance: id of the process instance, or None to generate an id
    :raises ConfigurationError: a filter or weigher is unknown, or lacks required options
    """
    settings = scheduler_conf.settings(base.conf)
    with locations.named(base.conf, 'scheduler', 'scheduler_default_filters'):
        chosen_filters = plugins.load_filters(settings.filters)
        host_of = _host_of(base) if plugins.LOCALITY in settings.filters else None
    with locations.named(base.conf, 'scheduler', 'scheduler_default_weighers'):
        chosen_weighers = plugins.load_weighers(settings.weighers)
    down_after = base.service.service_down_time
    chooser = pipeline.PoolChooser(base.database, chosen_filters, chosen_weighers, down_after,
                                   base.clock, base.telemetry, host_of)
    managers = volume_rpc.VolumeClients(base.bus)

    def run(caller: context.RequestContext, request: pools.VolumeRequest) -> None:
        # Imported for the first volume. TaskFlow and its graph library are a fifth of the code of
        # a scheduler, and are not needed while there is nothing to place.
        from blockattach.storage.scheduler import flows

        flows.PlacingFlow(base.database, chooser, managers, settings, caller, request).run()

    placing = placement.Placement(base.database, run)
    waiting_volumes = waiting.WaitingVolumes(
        base.database, placing, down_after, settings.placing_seconds,
        leases.owner_of(base.service.host, process_instance or base.database.new_id()))
    return Placing(endpoint.SchedulerEndpoint(placing, waiting_volumes, chooser), waiting_volumes)


def _host_of(base: dependencies.Dependencies) -> Callable[[str, str], str]:
    """Return the function by which the locality filter asks Nova for the host of a server.

    :raises ConfigurationError: access to Nova is not configured
    """
    nova = nova_conf.settings(base.conf)
    if not nova.knows_hosts:
        raise errors.ConfigurationError(
            reason=f'cannot use the filter {plugins.LOCALITY} without Nova: set [nova] auth_url '
                   f'and username, or endpoint_override')
    from blockattach.storage import nova as nova_client

    return nova_client.ServerHosts(nova).host_of
