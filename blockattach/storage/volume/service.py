"""Start, operation and stop of the volume service of one backend.

The service first accepts RPC calls. It then recovers interrupted work and reconciles the target in
the background.
"""
import contextlib
import dataclasses
from collections.abc import Callable
from collections.abc import Sequence

from oslo_log import log as oslo_log

from blockattach.platform import clock
from blockattach.platform import log
from blockattach.platform import periodic
from blockattach.platform.rpc import serving
from blockattach.platform.telemetry import threads
from blockattach.storage.conf import volume as volume_conf
from blockattach.storage.drivers import base
from blockattach.storage.volume import backends
from blockattach.storage.volume import stats
from blockattach.storage.volume import targets
from blockattach.storage.work import recover
from blockattach.storage.work import runner

LOG = oslo_log.getLogger(__name__)

_WATCH_SECONDS = 1.0
_WIPE_SECONDS = 1.0


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
    """Components of a volume service, and functions that the service calls.

    :ivar prepare: called before the service accepts RPC calls
    :ivar recover: resumes interrupted work, called periodically; may take long
    :ivar reconcile: compares the target with the rows, called periodically in a thread of its own
    :ivar leave: releases the leases of this process instance, called at the stop
    :ivar more: further periodic tasks
    """

    host: str
    backend: backends.KeptBackend
    runner: runner.Runner
    server: serving.Server
    reporter: stats.PoolReporter
    repairer: recover.Repairer
    prepare: Callable[[], None]
    recover: Callable[[], object]
    reconcile: Callable[[], object]
    leave: Callable[[], None]
    heartbeat: Callable[[], object]
    clock: clock.Clock
    waiting: threads.Threads = dataclasses.field(default_factory=threads.Threads)
    more: Sequence[periodic.Periodic] = ()


class VolumeService:
    """Service of one backend, which starts and stops its components in order."""

    def __init__(self, parts: Parts, settings: volume_conf.VolumeSettings, report_seconds: float,
                 ends_target: bool) -> None:
        """Create the service without starting it.

        :param report_seconds: time in seconds between two heartbeats
        :param ends_target: True if a target process ends with the service; False if it continues
            with its sessions
        """
        self._host = parts.host
        backend, reporter = parts.backend, parts.reporter

        def task(name: str, act: Callable[[], object], seconds: float) -> periodic.Periodic:
            return periodic.Periodic(f'{name}-{parts.host}', act, seconds, parts.clock,
                                     parts.waiting.begin)

        self._recovering = task('recover', parts.recover, settings.reconcile_seconds)
        self._reconciling = task('reconcile', parts.reconcile, settings.reconcile_seconds)
        self._beating = task('heartbeat', parts.heartbeat, report_seconds)
        self._reporting = task('report', reporter.report, settings.stats_seconds)
        tasks = [self._beating, self._reporting, self._recovering, self._reconciling, *parts.more]
        target = targets.TargetProcess(backend.target, parts.host, self._reconciling.poke,
                                       ends_target, reporter.target_is)
        if target.there:
            tasks.append(task('watch', target.watch, _WATCH_SECONDS))
        if isinstance(backend.store, base.Wipe):
            tasks.append(task('wipe', backend.store.wipe, _WIPE_SECONDS))
        # Schedulers are notified only when calls are served and the service counts as up.
        self._beginning: list[Callable[[], object]] = [
            backend.store.check, backend.target.check, target.start, parts.prepare,
            parts.server.start, reporter.report, parts.heartbeat, reporter.announce,
            *(periodic_task.start for periodic_task in tasks), target.adopt]
        # No thread may call the backend after the leases are released (`lease.Leases.leave`).
        self._ending: list[Callable[[], object]] = [
            parts.server.stop, *(periodic_task.stop for periodic_task in reversed(tasks)),
            parts.runner.stop, parts.repairer.stop, parts.leave, target.stop]

    def start(self) -> None:
        """Start all components, and serve calls.

        If a component fails to start, all components are stopped again.

        :raises ConfigurationError: if the store or the target is unusable
        """
        try:
            for begin in self._beginning:
                begin()
        except BaseException:
            self.stop()
            raise
        LOG.info('Volume service started%s', log.fields(host=self._host))

    def adjust(self, report_seconds: float, settings: volume_conf.VolumeSettings) -> None:
        """Change the periods of the heartbeat, reports, recovery and reconciliation.

        :param report_seconds: new time in seconds between two heartbeats
        :param settings: settings with the other new periods
        """
        self._beating.every(report_seconds)
        self._reporting.every(settings.stats_seconds)
        self._recovering.every(settings.reconcile_seconds)
        self._reconciling.every(settings.reconcile_seconds)

    def stop(self) -> None:
        """Stop the service.

        The service accepts no new calls, finishes running work, leaves other work to other
        processes, and stops the target if configured so. A repeated call does nothing.
        """
        # The other components are stopped even if the stop of a component fails.
        with contextlib.ExitStack() as ending:
            for end in reversed(self._ending):
                ending.callback(end)
        LOG.info('Volume service stopped%s', log.fields(host=self._host))
