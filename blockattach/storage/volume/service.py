"""One backend's service: start, serve, stop. It serves first and verifies in the background."""
import contextlib
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


class VolumeService:
    """Everything that runs for one backend, in the order in which it starts."""

    def __init__(self, host: str, backend: backends.KeptBackend, runner: runner.Runner,
                 server: serving.Server, reporter: stats.PoolReporter,
                 prepare: Callable[[], None], recover: Callable[[], object],
                 reconcile: Callable[[], object], leave: Callable[[], None],
                 heartbeat: Callable[[], object],
                 repairer: recover.Repairer, settings: volume_conf.VolumeSettings,
                 report_seconds: float, clock: clock.Clock,
                 waiting: threads.Threads | None = None,
                 more: Sequence[periodic.Periodic] = (), *,
                 ends_target: bool) -> None:
        """
        :param recover: goes on with what was interrupted, which may take long
        :param reconcile: compares the target with the rows, and waits for nothing else
        :param leave: releases what this process instance has not ended
        :param more: what else comes round
        :param ends_target: a target in a process of its own ends with the service; else it goes
            on with its sessions
        """
        begin = (waiting or threads.Threads()).begin
        self._host = host
        self._recovering = periodic.Periodic(f'recover-{host}', recover,
                                             settings.reconcile_seconds, clock, begin)
        self._reconciling = periodic.Periodic(f'reconcile-{host}', reconcile,
                                              settings.reconcile_seconds, clock, begin)
        self._beating = periodic.Periodic(f'heartbeat-{host}', heartbeat, report_seconds, clock,
                                          begin)
        self._reporting = periodic.Periodic(f'report-{host}', reporter.report,
                                            settings.stats_seconds, clock, begin)
        tasks = [self._beating, self._reporting, self._recovering, self._reconciling, *more]
        target = targets.TargetProcess(backend.target, host, self._reconciling.poke,
                                       ends_target, reporter.target_is)
        if target.there:
            tasks.append(periodic.Periodic(f'watch-{host}', target.watch, _WATCH_SECONDS, clock,
                                           begin))
        if isinstance(backend.store, base.Wipe):
            tasks.append(periodic.Periodic(f'wipe-{host}', backend.store.wipe, _WIPE_SECONDS,
                                           clock, begin))
        self._beginning: list[Callable[[], object]] = [
            backend.store.check, backend.target.check, target.start, prepare, server.start,
            reporter.report, heartbeat, reporter.announce, *(task.start for task in tasks),
            target.adopt]
        self._ending: list[Callable[[], object]] = [
            server.stop, *(task.stop for task in reversed(tasks)), runner.stop, repairer.stop,
            leave, target.stop]

    def start(self) -> None:
        """Serve. A start that fails leaves running only what it found running.

        :raises ConfigurationError: the store or the target cannot be used
        """
        try:
            for begin in self._beginning:
                begin()
        except BaseException:
            self.stop()
            raise
        LOG.info('Volume service started%s', log.fields(host=self._host))

    def adjust(self, report_seconds: float, settings: volume_conf.VolumeSettings) -> None:
        """Take over periods that have changed."""
        self._beating.every(report_seconds)
        self._reporting.every(settings.stats_seconds)
        self._recovering.every(settings.reconcile_seconds)
        self._reconciling.every(settings.reconcile_seconds)

    def stop(self) -> None:
        """Take nothing new, finish what runs, leave what was not begun to others, then end the
        target if it ends with the service. A repeat does nothing.
        """
        with contextlib.ExitStack() as ending:
            for end in reversed(self._ending):
                ending.callback(end)
        LOG.info('Volume service stopped%s', log.fields(host=self._host))
