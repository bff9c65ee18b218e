"""The volume service of one backend."""
import functools
from collections.abc import Callable
from collections.abc import Iterable
from concurrent import futures
from typing import TYPE_CHECKING
from typing import NamedTuple

from oslo_config import cfg
from oslo_log import log as oslo_log

from blockattach.platform import errors
from blockattach.platform import log
from blockattach.platform import periodic
from blockattach.platform.conf import core as core_conf
from blockattach.platform.conf import locations
from blockattach.platform.conf import rpc as rpc_conf
from blockattach.platform.conf import service as service_conf
from blockattach.platform.rpc import processes
from blockattach.platform.rpc import serving
from blockattach.storage.conf import attachments as attachments_conf
from blockattach.storage.conf import backend as backend_conf
from blockattach.storage.conf import nova as nova_conf
from blockattach.storage.conf import volume as volume_conf
from blockattach.storage.db.attachments import leases as db_leases
from blockattach.storage.db.services import services
from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import binaries
from blockattach.storage.domain import expiry_rule
from blockattach.storage.domain import expressions
from blockattach.storage.drivers import base as driver_base
from blockattach.storage.drivers import loading
from blockattach.storage.drivers.targets import tgtd
from blockattach.storage.privileged import context as privsep
from blockattach.storage.rpc import history
from blockattach.storage.rpc import scheduler as scheduler_rpc
from blockattach.storage.volume import backends
from blockattach.storage.volume import converge
from blockattach.storage.volume import expiry
from blockattach.storage.volume import extend_work
from blockattach.storage.volume import image_cache
from blockattach.storage.volume import image_work
from blockattach.storage.volume import lease
from blockattach.storage.volume import making
from blockattach.storage.volume import manage_snapshot_work
from blockattach.storage.volume import manage_work
from blockattach.storage.volume import manager as managers
from blockattach.storage.volume import move_work
from blockattach.storage.volume import pacing
from blockattach.storage.volume import placing
from blockattach.storage.volume import remains
from blockattach.storage.volume import repair
from blockattach.storage.volume import revert_work
from blockattach.storage.volume import server_notices
from blockattach.storage.volume import service
from blockattach.storage.volume import snapshot_work
from blockattach.storage.volume import stats
from blockattach.storage.volume import targets
from blockattach.storage.volume import volume_work
from blockattach.storage.work import recover
from blockattach.storage.work import runner
from blockattach.wiring import dependencies
from blockattach.wiring import images

if TYPE_CHECKING:
    from blockattach.storage.nova import client as nova_client

LOG = oslo_log.getLogger(__name__)

_REPAIR_THREADS = 8
# One that has waited for long enough waits for at most a tenth more, and for at most a minute.
_PART = 10
_SHORTEST, _LONGEST = 1.0, 60.0
_State = attachment_lifecycle.State
_NO_NOVA = 'access to Nova is not configured'
_NO_ACCOUNT = 'no Nova user is configured'


def build_services(base: dependencies.Dependencies,
                   ) -> list[service.VolumeService | serving.Server]:
    """What a process of its own consists of: a service for each backend.

    :raises ConfigurationError: none is enabled, or the group of one is missing
    """
    with locations.named(base.conf, 'volume', 'enabled_backends'):
        backends = volume_conf.settings(base.conf).enabled_backends
        if not backends:
            raise errors.ConfigurationError(
                reason='cannot start: [volume] enabled_backends is empty')
        known = base.conf.list_all_sections()
        for name in backends:
            if name not in known:
                raise errors.ConfigurationError(
                    reason=f'cannot start backend {name}: missing group [{name}]')
    services = build_volumes(base, backends)
    _warn_if_unused(base, backends)
    return [*services, build_own(base)]


def build_own(base: dependencies.Dependencies) -> serving.Server:
    """What the process is asked of itself."""
    return processes.server(base.bus, binaries.VOLUME, base.service.host)


class Manager(NamedTuple):
    """What serves one backend."""

    service: service.VolumeService
    kept: 'Backend'


def build_volumes(base: dependencies.Dependencies, backends: Iterable[str],
                  ends_target: bool = False) -> list[service.VolumeService]:
    """The services of these backends; for ``ends_target`` see `build_manager`.

    :raises ConfigurationError: one is not configured rightly, or two do not go together
    """
    services = [build_manager(base, name, ends_target=ends_target).service for name in backends]
    _check_portals(base.conf, backends)
    return services


def build_manager(base: dependencies.Dependencies, backend_name: str,
                  loaded: loading.Backend | None = None, ends_target: bool = False) -> Manager:
    """Put together everything that serves ``<host>@<backend_name>``; its service begins.

    :param loaded: its store and target; None: as configured
    :param ends_target: a tgtd of its own ends with it; False: hosts keep their disks meanwhile
    :raises ConfigurationError: the backend is not configured rightly

    In a cluster ``host`` below is the cluster's, and ``name`` is this process's own.
    """
    settings = volume_conf.settings(base.conf)
    name, host = f'{base.service.host}@{backend_name}', base.service.address(backend_name)
    repairer = _repairer(base)
    presence = _presence(base, name, host, repairer)
    loaded = loaded or load_backend(base.conf, base.core, base.service, backend_name)
    kept = build_backend(base, loaded, host, db_leases.owner_of(name, presence.process_instance),
                         base.service.cluster is not None, repairer,
                         _workers(base, backend_name, settings))
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
        kept.recovery.remember(_others_live(base, name, host))

    made = service.VolumeService(
        host, kept.manager.backend, kept.runner, base.bus.server(kept.manager, host), reporter,
        prepare=prepare, recover=kept.recovery.look, reconcile=_comparing(kept, reporter),
        leave=taking.leave, heartbeat=beat, repairer=repairer, settings=settings,
        report_seconds=base.service.report_interval, clock=base.clock, waiting=base.threads,
        more=_build_expiry(base, kept.manager), ends_target=ends_target)
    _show(base, loaded, reporter, kept.manager, kept.runner)
    base.monitor.add(f'backend {backend_name}', reporter.wrong)
    base.monitor.add(f'name {name}', presence.wrong)
    base.reloads.add(lambda: made.adjust(service_conf.settings(base.conf).report_interval,
                                         volume_conf.settings(base.conf)))
    base.abandoned.extend([kept.runner.leave, taking.leave])
    return Manager(made, kept)


class Workers(NamedTuple):
    """Threads for work that a message asks for. ``slow``: for what takes long; None: that is
    waited for.
    """

    usual: futures.Executor | None = None
    slow: futures.Executor | None = None


def _workers(base: dependencies.Dependencies, backend_name: str,
             settings: volume_conf.VolumeSettings) -> Workers:
    name, into = f'volume-worker.{backend_name}', base.telemetry.readings
    return Workers(base.threads.executor(name, settings.worker_threads, into),
                   base.threads.executor(f'{name}.copies', settings.copy_threads, into,
                                         background=True))


class Backend(NamedTuple):
    """What acts on one backend."""

    manager: managers.VolumeManager
    recovery: recover.Recovery
    truth: repair.TargetTruth
    one_shot: repair.OneShot
    repairer: recover.Repairer
    runner: runner.Runner


def build_backend(base: dependencies.Dependencies, loaded: loading.Backend, host: str, owner: str,
                  shared: bool, repairer: recover.Repairer | None = None,
                  workers: Workers | None = None) -> Backend:
    """What acts on ``host``, for its service and for one-shot reconciliation.

    :param owner: the name of this process instance
    :param shared: other processes may act there
    :param workers: for work that a message asks for
    """
    repairer, workers = repairer or _repairer(base), workers or Workers()
    backend = backends.KeptBackend(loaded, base.telemetry)
    seconds = base.control.backend_seconds
    leases = lease.Leases(base.database, host, owner, seconds, shared, base.clock, base.threads)
    settings = volume_conf.settings(base.conf)
    pace = pacing.Pace(loaded.settings.volume_copy_bps_limit, base.clock)
    parts = remains.Remains(base.database, backend, leases, pace, settings.reconcile_seconds)
    of_snapshots = snapshot_work.SnapshotWork(parts, settings.reconcile_seconds)
    scheduler = scheduler_rpc.client(base.bus)
    mover = images.build_mover(base, owner)
    cache = image_cache.ImageCache(
        parts, images.cache_settings(base, loaded) if mover is not None else None)
    acting = volume_work.VolumeWork(
        parts, making.Maker(parts, cache), scheduler,
        base.control.schedule_seconds, of_snapshots.delete_of)
    base.backends[host] = backend
    moves = move_work.MoveWork(parts, move_work.Others(
        base.backends, functools.partial(placing.place_again, base.database, scheduler),
        base.control.schedule_seconds))
    notices = server_notices.ServerNotices(
        base.database, _notifying(nova_conf.settings(base.conf)), settings.create_seconds)
    actors = [acting, of_snapshots, revert_work.RevertWork(parts),
              extend_work.ExtendWork(parts, notices), notices, moves,
              manage_work.ManageWork(parts), manage_snapshot_work.ManageSnapshotWork(parts),
              image_work.ImageWork(parts, mover, cache, images.build_event(base))]
    running = runner.Runner(base.database, actors, host, owner,
                            lambda option: getattr(settings, option), workers.usual,
                            slow=workers.slow, stopping=pace.stop,
                            telemetry=base.telemetry)
    converger = converge.Converger(base.database, backend, leases, base.attachment_notifications,
                                   repairer.pool)
    manager = managers.VolumeManager(host, converger, running, seconds,
                                     lambda dry_run: one_shot.run(dry_run))
    sources = [recover.of_work(base.database, running), *manager.sources(_settle_seconds(base))]
    recovery = recover.Recovery(sources, owner, repairer.each, base.clock.monotonic)
    # A look on request keeps what it saw apart from the looks that come round.
    truth, apart = (repair.TargetTruth(base.database, host, converger, repairer) for _ in range(2))
    one_shot = repair.OneShot(host, recovery, apart, repairer)
    return Backend(manager, recovery, truth, one_shot, repairer, running)


def _comparing(kept: Backend, reporter: stats.PoolReporter) -> Callable[[], object]:
    """The comparison of target and rows; it also checks targets without a supervisor.
    """
    manager = kept.manager
    if isinstance(manager.backend.target, driver_base.Daemon):
        return kept.truth.repair
    return targets.TargetAnswers(
        kept.truth.repair, manager.host, reporter.target_is).compare


def _repairer(base: dependencies.Dependencies) -> recover.Repairer:
    return recover.Repairer(
        base.threads.executor('repairer', _REPAIR_THREADS), base.telemetry, base.clock,
        base.threads.executor('volume-repairer', _REPAIR_THREADS))


def _show(base: dependencies.Dependencies, loaded: loading.Backend, reporter: stats.PoolReporter,
          manager: managers.VolumeManager, running: runner.Runner) -> None:
    """Add the backend to metrics and to state reports."""
    base.telemetry.readings.add(f'pools {loaded.name}', reporter.sizes)
    base.observation.report.add(f'Backend {loaded.name}', lambda: {
        'host': manager.host, 'life': manager.leases.owner,
        'store': loaded.settings.store, 'target': loaded.settings.target,
        'state': reporter.wrong() or 'healthy'})
    base.observation.report.add(f'Locks of backend {loaded.name}', lambda: {
        'by volume and initiator, or by volume': manager.leases.held()})
    base.observation.report.add(f'Work of backend {loaded.name}', lambda: {
        'running or queued': [f'{claim.name} {claim.resource_id}' for claim in running.held()]})


def load_backend(conf: cfg.ConfigOpts, core: core_conf.CoreSettings,
                 service: service_conf.ServiceSettings, name: str) -> loading.Backend:
    """A store and a target as configured in the group of that name.

    :raises ConfigurationError: they are not configured rightly
    """
    backend_conf.register(conf, name)
    locations.check_values(conf, [name])
    settings = backend_conf.settings(conf, name, core.state_path,
                                     shared=service.cluster is not None)
    privsep.configure(conf)
    with locations.named(conf, name):
        loaded = loading.load_backend(settings)
        if settings.shared and isinstance(loaded.store, driver_base.Wipe):
            # Two that wipe one volume would each believe that the other's part is done.
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


def _presence(base: dependencies.Dependencies, name: str, host: str,
              repairer: recover.Repairer) -> services.Presence:
    return services.Presence(
        base.database, binaries.VOLUME, name, base.control.availability_zone,
        history.RELEASES[-1].name, host if base.service.cluster else None, sole=True,
        reconciled=repairer.summary)


def _others_live(base: dependencies.Dependencies, name: str, host: str) -> bool:
    """Whether other members of the cluster send heartbeats."""
    return any(service.up and service.host != name for service in services.keeping(
        base.database, binaries.VOLUME, host, base.service.service_down_time))


def _settle_seconds(base: dependencies.Dependencies) -> float:
    """How long callers may need to resend what was lost with an earlier process."""
    return (2 * rpc_conf.settings(base.conf).repeat_interval
            if base.probe.needed or base.site is not None else 0)


def _build_expiry(base: dependencies.Dependencies,
                  manager: managers.VolumeManager) -> list[periodic.Periodic]:
    """Expiry of reservations, where the operator has set limits."""
    settings = attachments_conf.settings(base.conf)
    limits = {state: float(seconds) for state, seconds in (
        (_State.RESERVED, settings.reserve_timeout),
        (_State.CONNECTED, settings.complete_timeout)) if seconds}
    seconds = [*limits.values(), *filter(None, [settings.detach_timeout])]
    if not seconds:
        return []
    nova = nova_conf.settings(base.conf)
    nobody = nova.detach_rule == 'off' and not nova.configured
    servers = _servers(nova)
    expirer = expiry.Expirer(
        base.database, manager, limits, None if servers is None else servers.look, base.telemetry,
        nova=expiry_rule.Nova.NONE if nobody else expiry_rule.Nova.UNKNOWN,
        detach_seconds=settings.detach_timeout)
    return [periodic.Periodic(
        f'expire-{manager.host}', expirer.look,
        min(max(min(seconds) / _PART, _SHORTEST), _LONGEST),
        base.clock, base.threads.begin)]


def _notifying(settings: nova_conf.NovaSettings) -> server_notices.Notify | None:
    """How servers are notified; None where the operator says that there are none."""
    if not settings.configured:
        if settings.detach_rule == 'off':
            return None
        return lambda servers, volume_id: dict.fromkeys(servers, _NO_NOVA)
    if not settings.knows_hosts:
        return lambda servers, volume_id: dict.fromkeys(servers, _NO_ACCOUNT)
    from blockattach.storage.nova import client as nova_client

    return nova_client.ServerEvents(settings).volume_extended


def _servers(settings: nova_conf.NovaSettings) -> 'nova_client.Servers | None':
    """Loaded only where there is one to ask: keystoneauth is large."""
    if not settings.configured:
        return None
    if not settings.knows_hosts:
        LOG.warning('Cannot ask Nova about servers, reservations with a server do not expire: '
                    '[nova] username is not set')
        return None
    from blockattach.storage.nova import client as nova_client

    return nova_client.Servers(settings)


def _check_portals(conf: cfg.ConfigOpts, backends: Iterable[str]) -> None:
    """The backends of the tgtd under the state directory must have the same portals: each closes
    other ones.

    :raises ConfigurationError: two of them differ
    """
    first, *others = _tgtd_users(conf, backends) or ['']
    for name in others:
        for option in ('target_ip_address', 'target_secondary_ip_addresses', 'target_port'):
            if conf[name][option] != conf[first][option]:
                raise locations.refusal(
                    conf, name, option, f'the value must be the same as in backend {first}, which '
                    'uses the same tgtd. To use another tgtd, set tgt_socket')


def _warn_if_unused(base: dependencies.Dependencies, backends: Iterable[str]) -> None:
    """Log that a tgtd still runs that none of these backends uses: its exports stay until it is
    ended, and nobody revokes them.
    """
    if _tgtd_users(base.conf, backends):
        return
    pid = tgtd.Tgtd(base.core.state_path, (), 0).pid()
    if pid is not None:
        LOG.warning('Found orphaned tgtd, stop with blockattach-manage target stop%s',
                    log.fields(pid=pid, path=base.core.state_path))


def stop_tgtd(conf: cfg.ConfigOpts, force: bool) -> int | None:
    """End the tgtd under the state directory; which process it was, None: there was none.

    :param force: also while hosts are logged in, or if it does not answer
    :raises ConfigurationError: it is left running
    """
    with locations.named(conf, 'DEFAULT', 'state_path'):
        found = tgtd.Tgtd(core_conf.settings(conf).state_path, (), 0)
        try:
            pid = found.pid()
        except OSError as exc:
            raise errors.ConfigurationError(
                reason=f'cannot find tgtd: {exc.strerror}: {exc.filename}') from exc
        if pid is None:
            return None
        if not force:
            _refuse_in_use(found, pid)
        found.stop()
        if found.pid() == pid:
            raise errors.ConfigurationError(reason=f'cannot stop tgtd (process {pid})')
    return pid


def _tgtd_users(conf: cfg.ConfigOpts, backends: Iterable[str]) -> list[str]:
    return [name for name in backends
            if conf[name].target == 'tgt' and not conf[name].tgt_socket]


def _refuse_in_use(found: tgtd.Tgtd, pid: int) -> None:
    sessions = found.sessions()
    if sessions is None:
        raise errors.ConfigurationError(
            reason=f'cannot list the sessions of tgtd (process {pid}): no response. To stop tgtd '
                   f'anyway, use --force')
    if sessions:
        raise errors.ConfigurationError(
            reason=f'cannot stop tgtd (process {pid}): hosts are logged in, sessions: '
                   f'{sessions}. To stop tgtd anyway, use --force')
