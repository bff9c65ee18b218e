"""Builder of the volume services, one for each backend."""
import functools
from collections.abc import Callable
from collections.abc import Iterable
from typing import NamedTuple

from oslo_log import log as oslo_log

from blockattach.platform import errors
from blockattach.platform.conf import locations
from blockattach.platform.conf import service as service_conf
from blockattach.platform.rpc import processes
from blockattach.platform.rpc import serving
from blockattach.storage.conf import volume as volume_conf
from blockattach.storage.db.attachments import leases as db_leases
from blockattach.storage.db.services import services
from blockattach.storage.domain import binaries
from blockattach.storage.drivers import base as driver_base
from blockattach.storage.drivers import loading
from blockattach.storage.rpc import history
from blockattach.storage.rpc import scheduler as scheduler_rpc
from blockattach.storage.volume import manager as managers
from blockattach.storage.volume import service
from blockattach.storage.volume import stats
from blockattach.storage.volume import targets
from blockattach.storage.work import recover
from blockattach.storage.work import runner
from blockattach.wiring import backend
from blockattach.wiring import dependencies
from blockattach.wiring import images
from blockattach.wiring import nova
from blockattach.wiring import tgt_daemon

LOG = oslo_log.getLogger(__name__)


def build_services(base: dependencies.Dependencies,
                   ) -> list[service.VolumeService | serving.Server]:
    """Build the services of a volume process, with a volume service for each enabled backend.

    :raises ConfigurationError: no backend is enabled, or the group of a backend is missing
    """
    with locations.named(base.conf, 'volume', 'enabled_backends'):
        backends = volume_conf.settings(base.conf).enabled_backends
        if not backends:
            raise errors.ConfigurationError(
                reason='cannot start: [volume] enabled_backends is empty')
        groups = base.conf.list_all_sections()
        for name in backends:
            if name not in groups:
                raise errors.ConfigurationError(
                    reason=f'cannot start backend {name}: missing group [{name}]')
    services = build_volumes(base, backends)
    tgt_daemon.warn_if_unused(base, backends)
    return [*services, build_own(base)]


def build_own(base: dependencies.Dependencies) -> serving.Server:
    """Build the RPC server for requests about the process itself."""
    return processes.server(base.bus, binaries.VOLUME, base.service.host)


class Manager(NamedTuple):
    """Volume service of a backend, and the objects that manage the backend."""

    service: service.VolumeService
    kept: backend.Backend


def build_volumes(base: dependencies.Dependencies, backends: Iterable[str],
                  ends_target: bool = False) -> list[service.VolumeService]:
    """Build the volume services of backends.

    :param ends_target: see `build_manager`
    :raises ConfigurationError: a backend is misconfigured, or two backends are incompatible
    """
    services = [build_manager(base, name, ends_target=ends_target).service for name in backends]
    tgt_daemon.check_portals(base.conf, backends)
    return services


def build_manager(base: dependencies.Dependencies, backend_name: str,
                  loaded: loading.Backend | None = None, ends_target: bool = False) -> Manager:
    """Build the volume service of a backend, and the objects that manage the backend.

    :param loaded: drivers of the backend, or None to load the configured drivers
    :param ends_target: True to stop a daemon of the target, such as tgtd, when the service stops.
        If False, hosts keep their disks while the service is stopped
    :raises ConfigurationError: the backend is misconfigured
    """
    settings = volume_conf.settings(base.conf)
    # In a cluster, ``host`` names the cluster, and ``name`` names this process.
    name, host = f'{base.service.host}@{backend_name}', base.service.address(backend_name)
    repairer = backend.build_repairer(base)
    presence = _presence(base, name, host, repairer)
    loaded = loaded or backend.load_backend(base.conf, base.core, base.service, backend_name)
    kept = backend.build_backend(
        base, loaded, host, db_leases.owner_of(name, presence.process_instance),
        base.service.cluster is not None, repairer, _workers(base, backend_name, settings))
    reporter = stats.PoolReporter(base.database, kept.manager.backend, host,
                                  base.control.availability_zone,
                                  scheduler_rpc.client(base.bus), base.threads)
    kept.runner.afterwards = functools.partial(reporter.report, again=True)
    taking = kept.manager.leases

    def beat() -> None:
        presence.beat()
        kept.runner.renew()

    def prepare() -> None:
        taking.sweep()
        images.sweep(base, name)
        # Orphans are recorded before the server accepts calls. The work of other members of the
        # cluster is not orphaned while they are up.
        kept.recovery.remember(_others_live(base, name, host))

    parts = service.Parts(
        host, kept.manager.backend, kept.runner, base.bus.server(kept.manager, host), reporter,
        repairer, prepare, kept.recovery.look, _comparing(kept, reporter), taking.leave, beat,
        base.clock, base.threads, nova.build_expiry(base, kept.manager))
    built = service.VolumeService(parts, settings, base.service.report_interval, ends_target)
    _show(base, loaded, reporter, kept.manager, kept.runner)
    base.monitor.add(f'backend {backend_name}', reporter.wrong)
    base.monitor.add(f'name {name}', presence.wrong)
    base.reloads.add(lambda: built.adjust(service_conf.settings(base.conf).report_interval,
                                          volume_conf.settings(base.conf)))
    base.abandoned.extend([kept.runner.leave, taking.leave])
    return Manager(built, kept)


def _workers(base: dependencies.Dependencies, backend_name: str,
             settings: volume_conf.VolumeSettings) -> backend.Workers:
    name, into = f'volume-worker.{backend_name}', base.telemetry.readings
    return backend.Workers(base.threads.executor(name, settings.worker_threads, into),
                   base.threads.executor(f'{name}.copies', settings.copy_threads, into,
                                         background=True))


def _comparing(kept: backend.Backend, reporter: stats.PoolReporter) -> Callable[[], object]:
    """Return the function that compares the target of a backend with the database.

    If the service does not supervise a daemon of the target, the function also checks whether the
    target responds.
    """
    manager = kept.manager
    if isinstance(manager.backend.target, driver_base.Daemon):
        return kept.truth.repair
    return targets.TargetAnswers(
        kept.truth.repair, manager.host, reporter.target_is).compare


def _show(base: dependencies.Dependencies, loaded: loading.Backend, reporter: stats.PoolReporter,
          manager: managers.VolumeManager, running: runner.Runner) -> None:
    """Add metrics and sections of state reports about a backend."""
    base.telemetry.readings.add(f'pools {loaded.name}', reporter.sizes)
    base.observation.report.add(f'Backend {loaded.name}', lambda: {
        'host': manager.host, 'life': manager.leases.owner,
        'store': loaded.settings.store, 'target': loaded.settings.target,
        'state': reporter.wrong() or 'healthy'})
    base.observation.report.add(f'Locks of backend {loaded.name}', lambda: {
        'by volume and initiator, or by volume': manager.leases.held()})
    base.observation.report.add(f'Work of backend {loaded.name}', lambda: {
        'running or queued': [f'{claim.name} {claim.resource_id}' for claim in running.held()]})


def _presence(base: dependencies.Dependencies, name: str, host: str,
              repairer: recover.Repairer) -> services.Presence:
    return services.Presence(
        base.database, binaries.VOLUME, name, base.control.availability_zone,
        history.RELEASES[-1].name, host if base.service.cluster else None, sole=True,
        reconciled=repairer.summary)


def _others_live(base: dependencies.Dependencies, name: str, host: str) -> bool:
    """Return True if another volume manager of the cluster is up."""
    return any(service.up and service.host != name for service in services.keeping(
        base.database, binaries.VOLUME, host, base.service.service_down_time))
