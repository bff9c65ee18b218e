"""The volume service of one backend."""
import functools

from blockattach import errors
from blockattach.conf import backend as backend_conf
from blockattach.conf import locations
from blockattach.conf import service as service_conf
from blockattach.conf import volume as volume_conf
from blockattach.db import services
from blockattach.db import volumes as volume_verbs
from blockattach.domain import binaries
from blockattach.drivers import loading
from blockattach.rpc import history
from blockattach.rpc import scheduler as scheduler_rpc
from blockattach.volume import attachment_outcomes
from blockattach.volume import attachments
from blockattach.volume import backends
from blockattach.volume import endpoint
from blockattach.volume import locks
from blockattach.volume import mending
from blockattach.volume import outcomes
from blockattach.volume import reconcile
from blockattach.volume import service
from blockattach.volume import stats
from blockattach.volume import target_truth
from blockattach.volume import volumes
from blockattach.wiring import foundation

_MENDER_THREADS = 8


def build_services(base: foundation.Foundation) -> list[service.VolumeService]:
    """What a process of its own consists of: a service for each backend.

    :raises ConfigurationError: none is enabled, or the group of one is missing
    """
    with locations.named(base.conf, 'volume', 'enabled_backends'):
        backends = volume_conf.settings(base.conf).enabled_backends
        if not backends:
            raise errors.ConfigurationError(
                reason='cannot serve: [volume] enabled_backends names no backend')
        known = base.conf.list_all_sections()
        for name in backends:
            if name not in known:
                raise errors.ConfigurationError(
                    reason=f'cannot serve backend {name}: there is no group [{name}]')
    return [build_volume(base, name) for name in backends]


def build_volume(base: foundation.Foundation, backend_name: str) -> service.VolumeService:
    """Put together everything that serves ``<host>@<backend_name>``; `start` begins.

    :raises ConfigurationError: the backend is not configured rightly
    """
    settings = volume_conf.settings(base.conf)
    host = f'{base.service.host}@{backend_name}'
    presence = services.Presence(base.database, binaries.VOLUME, host,
                                 base.control.availability_zone, history.RELEASES[-1].name)
    owner = f'{host}/{presence.incarnation}'
    loaded = _load_backend(base, backend_name)
    backend = backends.KeptBackend(loaded, base.telemetry)
    scheduler = scheduler_rpc.SchedulerClient(base.bus)
    keeper = volumes.VolumeKeeper(
        base.database, backend, host,
        outcomes.VolumeOutcomes(base.database, scheduler, base.control.schedule_seconds))
    pair_locks = locks.NamedLocks()
    outcome = attachment_outcomes.AttachmentOutcomes(base.database, base.attachment_notifications)
    attachment_keeper = attachments.AttachmentKeeper(base.database, keeper, pair_locks, outcome)
    menders = mending.Menders(_MENDER_THREADS, base.telemetry)
    reconciler = reconcile.Reconciler(base.database, keeper, attachment_keeper, outcome, menders,
                                      base.control.backend_seconds)
    truth = target_truth.TargetTruth(base.database, keeper, attachment_keeper, menders)
    reporter = stats.PoolReporter(base.database, backend, host, base.control.availability_zone,
                                  scheduler)
    workers = service.Workers(settings.worker_threads, reporter.report,
                              f'volume-worker.{backend_name}', base.telemetry)
    server = base.bus.server(
        endpoint.VolumeEndpoint(
            keeper, attachment_keeper,
            functools.partial(_own, base, owner, settings.create_seconds), workers.later),
        host)

    def put_right() -> None:
        reconciler.mend()
        truth.mend()

    made = service.VolumeService(
        host, backend, workers, server, reporter,
        prepare=functools.partial(reconciler.remember_orphans, owner), reconcile=put_right,
        heartbeat=presence.beat,
        menders=menders, settings=settings,
        report_seconds=base.service.report_interval, clock=base.clock)
    _show(base, loaded, reporter, pair_locks, keeper)
    base.monitor.add(f'backend {backend_name}', reporter.wrong)
    base.reloads.add(lambda: made.adjust(service_conf.settings(base.conf).report_interval,
                                         volume_conf.settings(base.conf)))
    return made


def _show(base: foundation.Foundation, loaded: loading.Backend, reporter: stats.PoolReporter,
          pair_locks: locks.NamedLocks, keeper: volumes.VolumeKeeper) -> None:
    """Let the backend be seen in metrics and in reports of the state."""
    base.telemetry.readings.add(f'pools {loaded.name}', reporter.sizes)
    base.observation.report.add(f'Backend {loaded.name}', lambda: {
        'host': keeper.host, 'store': loaded.settings.store, 'target': loaded.settings.target,
        'state': reporter.wrong() or 'nothing is wrong'})
    base.observation.report.add(f'Locks of backend {loaded.name}', lambda: {
        'pairs of volume and initiator': pair_locks.names(),
        'volumes': keeper.exports.locked()})


def _load_backend(base: foundation.Foundation, name: str) -> loading.Backend:
    backend_conf.register(base.conf, name)
    locations.check_values(base.conf, [name])
    settings = backend_conf.settings(base.conf, name, base.core.state_path)
    with locations.named(base.conf, name):
        return loading.load_backend(settings)


def _own(base: foundation.Foundation, owner: str, seconds: float, volume_id: str,
         generation: int) -> bool:
    return volume_verbs.own(base.database, volume_id, generation, owner, seconds)
