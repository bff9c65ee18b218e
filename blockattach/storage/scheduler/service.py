"""Scheduler service: registration, heartbeats, RPC server and periodic tasks."""
import functools

from oslo_log import log as oslo_log

from blockattach.platform import clock
from blockattach.platform import log
from blockattach.platform import periodic
from blockattach.platform.conf import service as service_conf
from blockattach.platform.rpc import serving
from blockattach.platform.telemetry import threads
from blockattach.storage.conf import scheduler as scheduler_conf
from blockattach.storage.db import purging
from blockattach.storage.db import storage_db
from blockattach.storage.db.services import services
from blockattach.storage.scheduler import waiting

LOG = oslo_log.getLogger(__name__)

_HOUSEKEEPING_SECONDS = 600


class SchedulerService:
    """Scheduler that runs in its own process or in a process with several services."""

    def __init__(self, server: serving.Server, waiting: waiting.WaitingVolumes,
                 database: storage_db.Database, presence: services.Presence,
                 service_settings: service_conf.ServiceSettings,
                 scheduler_settings: scheduler_conf.SchedulerSettings,
                 clock: clock.Clock, beside: threads.Threads | None = None) -> None:
        begin = (beside or threads.Threads()).begin
        self._server = server
        self._host = service_settings.host
        self._presence = presence
        self._heartbeat = periodic.Periodic('scheduler-heartbeat', presence.beat,
                                            service_settings.report_interval, clock, begin)
        self._waiting = periodic.Periodic('scheduler-waiting', waiting.look,
                                          scheduler_settings.waiting_interval, clock, begin)
        self._tasks = (
            self._heartbeat,
            periodic.Periodic('scheduler-housekeeping',
                              functools.partial(purging.purge_expired, database),
                              _HOUSEKEEPING_SECONDS, clock, begin),
            self._waiting)

    def start(self) -> None:
        """Register the service, and start the RPC server and the periodic tasks.

        This starts threads and opens connections, so it must not be called before a fork.
        """
        # The first heartbeat is sent from this thread, so that an error ends the start. The
        # periodic task would only log the error.
        self._presence.beat()
        self._server.start()
        for task in self._tasks:
            task.start()
        LOG.info('Scheduler started%s', log.fields(host=self._host))

    def adjust(self, service_settings: service_conf.ServiceSettings,
               scheduler_settings: scheduler_conf.SchedulerSettings) -> None:
        """Apply changed intervals to the periodic tasks."""
        self._heartbeat.every(service_settings.report_interval)
        self._waiting.every(scheduler_settings.waiting_interval)

    def stop(self) -> None:
        """Stop accepting requests, and return when the running requests have finished."""
        # The server stops before the heartbeats, so that the service counts as up while it
        # finishes requests.
        self._server.stop()
        for task in self._tasks:
            task.stop()
        LOG.info('Scheduler stopped%s', log.fields(host=self._host))
