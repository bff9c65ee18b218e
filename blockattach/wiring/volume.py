"""The volume service of one backend."""
import functools

from blockattach.conf import backend as backend_conf
from blockattach.conf import volume as volume_conf
from blockattach.db import services
from blockattach.db import volumes as volume_verbs
from blockattach.domain import binaries
from blockattach.drivers import loading
from blockattach.privileged import context as privsep
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


def build_volume(base: foundation.Foundation, backend_name: str) -> service.VolumeService:
    """Put together everything that serves ``<host>@<backend_name>``; `start` begins.

    :raises ConfigurationError: the backend is not configured rightly
    """
    settings = volume_conf.settings(base.conf)
    host = f'{base.service.host}@{backend_name}'
    presence = services.Presence(base.database, binaries.VOLUME, host,
                                 base.control.availability_zone)
    owner = f'{host}/{presence.incarnation}'
    backend_conf.register(base.conf, backend_name)
    privsep.configure(base.conf)
    backend = backends.KeptBackend(loading.load_backend(
        backend_conf.settings(base.conf, backend_name, base.core.state_path)))
    scheduler = scheduler_rpc.SchedulerClient(base.bus)
    keeper = volumes.VolumeKeeper(
        base.database, backend, host,
        outcomes.VolumeOutcomes(base.database, scheduler, base.control.schedule_seconds))
    outcome = attachment_outcomes.AttachmentOutcomes(base.database, base.attachment_notifications)
    attachment_keeper = attachments.AttachmentKeeper(base.database, keeper, locks.NamedLocks(),
                                                     outcome)
    menders = mending.Menders(_MENDER_THREADS)
    reconciler = reconcile.Reconciler(base.database, keeper, attachment_keeper, outcome, menders,
                                      base.control.backend_seconds)
    truth = target_truth.TargetTruth(base.database, keeper, attachment_keeper, menders)
    reporter = stats.PoolReporter(base.database, backend, host, base.control.availability_zone,
                                  scheduler)
    workers = service.Workers(settings.worker_threads, reporter.report)
    server = base.bus.server(
        endpoint.VolumeEndpoint(
            keeper, attachment_keeper,
            functools.partial(_own, base, owner, settings.create_seconds), workers.later),
        host)

    def put_right() -> None:
        reconciler.mend()
        truth.mend()

    return service.VolumeService(
        host, backend, workers, server, reporter,
        prepare=functools.partial(reconciler.remember_orphans, owner), reconcile=put_right,
        heartbeat=presence.beat,
        menders=menders, settings=settings,
        report_seconds=base.service.report_interval, clock=base.clock)


def _own(base: foundation.Foundation, owner: str, seconds: float, volume_id: str,
         generation: int) -> bool:
    return volume_verbs.own(base.database, volume_id, generation, owner, seconds)
