"""Builder of the objects that manage the store, the target and the work of a backend."""
from concurrent import futures
from typing import NamedTuple

from oslo_config import cfg
from oslo_log import log as oslo_log

from blockattach.platform import errors
from blockattach.platform.conf import core as core_conf
from blockattach.platform.conf import locations
from blockattach.platform.conf import service as service_conf
from blockattach.storage.conf import backend as backend_conf
from blockattach.storage.conf import nova as nova_conf
from blockattach.storage.conf import volume as volume_conf
from blockattach.storage.domain import expressions
from blockattach.storage.drivers import base as driver_base
from blockattach.storage.drivers import loading
from blockattach.storage.privileged import context as privsep
from blockattach.storage.rpc import scheduler as scheduler_rpc
from blockattach.storage.volume import backends
from blockattach.storage.volume import converge
from blockattach.storage.volume import handlers
from blockattach.storage.volume import lease
from blockattach.storage.volume import manager as managers
from blockattach.storage.volume import pacing
from blockattach.storage.volume import repair
from blockattach.storage.volume import work_context
from blockattach.storage.work import recover
from blockattach.storage.work import runner
from blockattach.wiring import dependencies
from blockattach.wiring import images
from blockattach.wiring import nova

LOG = oslo_log.getLogger(__name__)

_REPAIR_THREADS = 8


def load_backend(conf: cfg.ConfigOpts, core: core_conf.CoreSettings,
                 service: service_conf.ServiceSettings, name: str) -> loading.Backend:
    """Load the drivers of a backend's store and target, as its option group configures them.

    :raises ConfigurationError: an option of the backend is invalid
    """
    backend_conf.register(conf, name)
    locations.check_values(conf, [name])
    settings = backend_conf.settings(conf, name, core.state_path,
                                     shared=service.cluster is not None)
    privsep.configure(conf)
    with locations.named(conf, name):
        loaded = loading.load_backend(settings)
        if settings.shared and isinstance(loaded.store, driver_base.Wipe):
            # If two processes wiped a volume at the same time, each would assume that the other
            # process has completed its part.
            raise errors.ConfigurationError(
                reason='a cluster does not support stores that wipe deleted volumes: with store = '
                       'lvm, set lvm_type to thin')
    for option, expression in loaded.functions().items():
        with locations.named(conf, name, option):
            _check_expression(expression)
    return loaded


def _check_expression(expression: str | None) -> None:
    try:
        expressions.check(expression or '1')
    except expressions.ExpressionError as error:
        raise errors.ConfigurationError(
            reason=f'invalid expression: {error}') from error


class Workers(NamedTuple):
    """Threads for background work of a backend.

    :ivar usual: threads for work that RPC messages request; None if no messages are received
    :ivar slow: threads for long-running work; None to execute such work in the thread that
        starts the work
    """

    usual: futures.Executor | None = None
    slow: futures.Executor | None = None


class Backend(NamedTuple):
    """Objects that manage a backend, as `build_backend` returns them."""

    manager: managers.VolumeManager
    recovery: recover.Recovery
    truth: repair.TargetTruth
    one_shot: repair.OneShot
    repairer: recover.Repairer
    runner: runner.Runner


def build_backend(base: dependencies.Dependencies, loaded: loading.Backend, host: str, owner: str,
                  shared: bool, repairer: recover.Repairer | None = None,
                  workers: Workers | None = None) -> Backend:
    """Build the objects that manage a backend, for its volume service or for one-shot reconcile.

    :param host: ``host@backend`` or ``cluster@backend``
    :param owner: name of this process instance, as the owner of leases and work
    :param shared: True if other processes may manage the backend at the same time
    :param repairer: threads for repairs, or None to create them
    :param workers: threads for background work; None for a command that receives no messages
    """
    repairer, workers = repairer or build_repairer(base), workers or Workers()
    backend = backends.KeptBackend(loaded, base.telemetry)
    seconds = base.control.backend_seconds
    leases = lease.Leases(base.database, host, owner, seconds, shared, base.clock, base.threads)
    settings = volume_conf.settings(base.conf)
    pace = pacing.Pace(loaded.settings.volume_copy_bps_limit, base.clock)
    mover = images.build_mover(base, owner)
    base.backends[host] = backend
    context = work_context.WorkContext(
        base.database, backend, leases, pace, settings.reconcile_seconds,
        scheduler_rpc.client(base.bus), base.control.schedule_seconds, base.backends,
        images.cache_settings(base, loaded) if mover is not None else None, mover,
        images.build_event(base), nova.build_notify(nova_conf.settings(base.conf)),
        settings.create_seconds)
    running = runner.Runner(base.database, handlers.build(context), host, owner,
                            lambda option: getattr(settings, option), workers.usual,
                            slow=workers.slow, stopping=pace.stop,
                            telemetry=base.telemetry)
    converger = converge.Converger(base.database, backend, leases, base.attachment_notifications,
                                   repairer.pool)
    manager = managers.VolumeManager(host, converger, running, seconds,
                                     lambda dry_run: one_shot.run(dry_run))
    sources = [recover.of_work(base.database, running), *manager.sources(base.settle_seconds)]
    recovery = recover.Recovery(sources, owner, repairer.each, base.clock.monotonic)
    # The requested passes must not share their observations with the periodic passes.
    truth, apart = (repair.TargetTruth(base.database, host, converger, repairer) for _ in range(2))
    one_shot = repair.OneShot(host, recovery, apart, repairer)
    return Backend(manager, recovery, truth, one_shot, repairer, running)


def build_repairer(base: dependencies.Dependencies) -> recover.Repairer:
    """Create the threads for repairs of a backend, with separate threads for slow repairs."""
    return recover.Repairer(
        base.threads.executor('repairer', _REPAIR_THREADS), base.telemetry, base.clock,
        base.threads.executor('volume-repairer', _REPAIR_THREADS))
