"""One backend's service: start, serve, stop. It serves first and verifies in the background."""
import contextlib
from collections.abc import Callable
from concurrent import futures
from typing import Any

from oslo_log import log as oslo_log

from blockattach import clock
from blockattach import context
from blockattach import log
from blockattach import periodic
from blockattach.conf import volume as volume_conf
from blockattach.drivers import capabilities
from blockattach.rpc import transport
from blockattach.volume import backends
from blockattach.volume import mending
from blockattach.volume import stats

LOG = oslo_log.getLogger(__name__)

_WATCH_SECONDS = 1.0
_WIPE_SECONDS = 1.0


class Workers:
    """Threads for what goes on after the answer: volumes made and removed, then a fresh report."""

    def __init__(self, threads: int, afterwards: Callable[[], None]) -> None:
        self._pool = futures.ThreadPoolExecutor(threads, thread_name_prefix='volume-worker')
        self._afterwards = afterwards

    def later(self, act: Callable[..., object], caller: context.RequestContext,
              *arguments: Any) -> None:
        """Do it soon; a failure that the act does not record itself is logged."""
        self._pool.submit(self._run, act, caller, *arguments)

    def stop(self) -> None:
        """Finish what was begun; what still waits is found again by the next start."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _run(self, act: Callable[..., object], caller: context.RequestContext,
             *arguments: Any) -> None:
        # Log lines of this thread name the request that the work was asked for in.
        caller.update_store()
        try:
            act(caller, *arguments)
        except Exception:
            LOG.exception('Cannot finish a piece of work; its deadline brings it back')
        finally:
            self._afterwards()


class VolumeService:
    """Everything that runs for one backend, in the order in which it starts."""

    def __init__(self, host: str, backend: backends.KeptBackend, workers: Workers,
                 server: transport.Server, reporter: stats.PoolReporter,
                 prepare: Callable[[], None], reconcile: Callable[[], object],
                 heartbeat: Callable[[], object],
                 menders: mending.Menders, settings: volume_conf.VolumeSettings,
                 report_seconds: float, clock: clock.Clock) -> None:
        self._host = host
        self._backend = backend
        self._workers = workers
        self._menders = menders
        self._server = server
        self._reporter = reporter
        self._prepare = prepare
        self._heartbeat = heartbeat
        self._ends_target = False
        self._reconciling = periodic.Periodic(f'reconcile-{host}', reconcile,
                                              settings.reconcile_seconds, clock)
        self._tasks = [
            periodic.Periodic(f'heartbeat-{host}', heartbeat, report_seconds, clock),
            periodic.Periodic(f'report-{host}', reporter.report, settings.stats_seconds, clock),
            self._reconciling]
        if isinstance(backend.target, capabilities.Daemon):
            self._tasks.append(periodic.Periodic(f'watch-{host}', self._watch, _WATCH_SECONDS,
                                                 clock))
        if isinstance(backend.store, capabilities.Wipe):
            self._tasks.append(periodic.Periodic(f'wipe-{host}', backend.store.wipe,
                                                 _WIPE_SECONDS, clock))

    def start(self) -> None:
        """Serve. A start that fails leaves running only what it found running.

        :raises ConfigurationError: the store or the target cannot be used
        """
        try:
            self._backend.store.check()
            self._backend.target.check()
            self._start_target()
            self._prepare()
            self._server.start()
            self._reporter.report()
            self._heartbeat()
            self._reporter.announce()
            for task in self._tasks:
                task.start()
        except BaseException:
            self.stop()
            raise
        self._ends_target = True
        LOG.info('Volume service serves%s', log.fields(host=self._host))

    def stop(self) -> None:
        """Take nothing new, finish what runs, then end the target. A repeat does nothing."""
        with contextlib.ExitStack() as ending:
            ending.callback(self._stop_target)
            ending.callback(self._menders.stop)
            ending.callback(self._workers.stop)
            for task in self._tasks:
                ending.callback(task.stop)
            ending.callback(self._server.stop)
        LOG.info('Volume service has stopped%s', log.fields(host=self._host))

    def _start_target(self) -> None:
        """What an earlier life left running still has sessions: it outlives a start that fails."""
        target = self._backend.target
        if isinstance(target, capabilities.Daemon):
            self._ends_target = not target.running()
            target.start()

    def _stop_target(self) -> None:
        target = self._backend.target
        if isinstance(target, capabilities.Daemon) and self._ends_target:
            target.stop()

    def _watch(self) -> None:
        """A target process that died is started again, and what it forgot is restored."""
        target = self._backend.target
        if isinstance(target, capabilities.Daemon) and not target.running():
            LOG.error('Target process has died and is started again%s',
                      log.fields(host=self._host))
            target.start()
            self._reconciling.poke()
