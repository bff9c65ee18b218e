"""Start, reload and stop of a process, which consists of services with shared dependencies."""
import contextlib
import gc
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any
from typing import Protocol

import oslo_messaging
from oslo_config import cfg
from oslo_log import log as oslo_log

from blockattach.platform import log
from blockattach.platform.conf import health as health_conf
from blockattach.platform.conf import locations
from blockattach.platform.health import monitor
from blockattach.wiring import configuration
from blockattach.wiring import observation

LOG = oslo_log.getLogger(__name__)

ALLOCATIONS = 25_000
"""Threshold of the garbage collector, for the number of objects allocated but not freed.

The response with a list of a thousand volumes needs about half as many objects, which are in use
until it is sent. With Python's default of 700, the collector would run a dozen times meanwhile.
"""


class Service(Protocol):
    """Part of a process that is started and stopped."""

    def start(self) -> None:
        """Start to serve requests, messages or periodic tasks."""

    def stop(self) -> None:
        """Stop accepting work, and wait until running work is finished."""


class Base(Protocol):
    """Dependencies that every process has."""

    @property
    def monitor(self) -> monitor.Monitor:
        """Health monitor of the process."""

    @property
    def reloads(self) -> configuration.Reloads:
        """Configuration files and objects of the process that SIGHUP reloads."""

    @property
    def observation(self) -> observation.Observation:
        """Telemetry of the process."""

    @property
    def abandoned(self) -> list[Callable[[], None]]:
        """Functions to call right before the process is aborted."""

    def close(self) -> None:
        """Close all connections. The services must be stopped before."""


Open = Callable[[cfg.ConfigOpts, str], Any]
"""Function that takes the configuration and the name of a process, and opens its `Base`."""

Build = Callable[[Any], Iterable[Service]]
"""Function that takes the open `Base` of a process, and returns its services."""


class ServiceProcess:
    """Process whose services are started in order and stopped in reverse order.

    If `start` fails, all services that it has started are stopped.
    """

    def __init__(self, name: str, conf: cfg.ConfigOpts, open_base: Open, build: Build) -> None:
        self._name = name
        self._conf = conf
        self._open_base = open_base
        self._build = build
        self._running = contextlib.ExitStack()
        self._base: Base | None = None

    def start(self) -> None:
        """Open the dependencies, and start the services.

        :raises ConfigurationError: an option is invalid, or a dependency is not available
        """
        with contextlib.ExitStack() as starting:
            base: Base = self._open(starting)
            services = list(self._build(base))
            starting.callback(base.observation.stop)
            base.observation.start()
            starting.callback(base.monitor.stop)
            try:
                for service in services:
                    # Before the start, because a service that fails to start may have started in
                    # part.
                    starting.callback(service.stop)
                    service.start()
            except oslo_messaging.MessagingException as exc:
                # The broker was reachable a moment ago, so it has probably rejected a queue.
                raise locations.refusal(self._conf, 'DEFAULT', 'transport_url',
                                        f'cannot listen on the message bus: {exc}') from exc
            # The callbacks run in reverse order, so health checks report the stop first.
            starting.callback(base.monitor.stopping)
            self._base = base
            self._running = starting.pop_all()
        settle()

    def announce(self) -> None:
        """Start the health monitor, and log that the process has started.

        :raises ConfigurationError: the health report cannot be written
        """
        if self._base is not None:
            with locations.named(self._conf, health_conf.GROUP, 'file'):
                self._base.monitor.start()
            LOG.info('Process started%s', log.fields(process=self._name))

    def stop(self) -> None:
        """Stop the services in reverse order, and wait until running work is finished."""
        self._running.close()
        if self._base is not None:
            LOG.info('Process stopped%s', log.fields(process=self._name))

    def abandon(self) -> None:
        """Release running work, so that other processes resume it. This process must then end."""
        if self._base is not None:
            for leave in self._base.abandoned:
                leave()

    def reload(self) -> bool:
        """Reload the configuration. Return False if it cannot be reloaded."""
        return self._base is not None and self._base.reloads()

    def report(self) -> None:
        """Write a state report of the process."""
        if self._base is not None:
            self._base.observation.report.ask()

    def _open(self, starting: contextlib.ExitStack) -> Any:
        """Open the dependencies of the services.

        :param starting: exit stack that is closed when the process stops or fails to start
        """
        base = self._open_base(self._conf, self._name)
        starting.callback(base.close)
        return base


def settle(forked: bool = False) -> None:
    """Exclude all existing objects from garbage collection, and enable the collector.

    :param forked: True if the process was forked, and shares unmodified memory with other
        processes
    """
    # A collection writes to each object, and would copy the shared memory.
    if not forked:
        gc.collect()
    gc.freeze()
    gc.set_threshold(ALLOCATIONS, *gc.get_threshold()[1:])
    # The start of a process produces hardly any garbage, but collections take a fifth of its time.
    # The start may therefore have disabled the collector.
    gc.enable()
