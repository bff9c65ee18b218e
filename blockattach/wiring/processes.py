"""A process: services with shared dependencies, checked by one monitor."""
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
"""So many new objects, less those that were freed, until a collection. A list of a thousand
volumes has about half as many, none of them garbage before it is sent; with Python's default of
700 there would be a dozen collections meanwhile."""


class Service(Protocol):
    """A part of a process that runs."""

    def start(self) -> None:
        """Serve from now on."""

    def stop(self) -> None:
        """Take nothing new and finish what runs."""


class Base(Protocol):
    """What a process stands on, as far as it is one: how it is observed, reloaded and left."""

    @property
    def monitor(self) -> monitor.Monitor:
        """Its health."""

    @property
    def reloads(self) -> configuration.Reloads:
        """What it reads anew."""

    @property
    def observation(self) -> observation.Observation:
        """Its telemetry."""

    @property
    def abandoned(self) -> list[Callable[[], None]]:
        """What is called right before it is cut off."""

    def close(self) -> None:
        """Close connections; the services have stopped."""


Open = Callable[[cfg.ConfigOpts, str], Any]
"""Opens the `Base` of a process, by its name."""

Build = Callable[[Any], Iterable[Service]]
"""Makes the services, on what `ServiceProcess` has opened."""


class ServiceProcess:
    """Started in order, stopped in the other; `start` leaves nothing running when it fails."""

    def __init__(self, name: str, conf: cfg.ConfigOpts, open_base: Open, build: Build) -> None:
        self._name = name
        self._conf = conf
        self._open_base = open_base
        self._build = build
        self._running = contextlib.ExitStack()
        self._base: Base | None = None

    def start(self) -> None:
        """Serve.

        :raises ConfigurationError: with one line that says what to change
        """
        with contextlib.ExitStack() as starting:
            base: Base = self._open(starting)
            services = list(self._build(base))
            starting.callback(base.observation.stop)
            base.observation.start()
            starting.callback(base.monitor.stop)
            try:
                for service in services:
                    starting.callback(service.stop)
                    service.start()
            except oslo_messaging.MessagingException as exc:
                # The broker was there a moment ago: what it refuses now is a queue of ours.
                raise locations.refusal(self._conf, 'DEFAULT', 'transport_url',
                                        f'cannot listen on the message bus: {exc}') from exc
            # The first step of the end: health checks report it.
            starting.callback(base.monitor.stopping)
            self._base = base
            self._running = starting.pop_all()
        settle()

    def announce(self) -> None:
        """Report that the process serves.

        :raises ConfigurationError: its health cannot be written
        """
        if self._base is not None:
            with locations.named(self._conf, health_conf.GROUP, 'file'):
                self._base.monitor.start()
            LOG.info('Process started%s', log.fields(process=self._name))

    def stop(self) -> None:
        """Let what runs end."""
        self._running.close()
        if self._base is not None:
            LOG.info('Process stopped%s', log.fields(process=self._name))

    def abandon(self) -> None:
        """Leave to others what still runs; the process ends right afterwards."""
        if self._base is not None:
            for leave in self._base.abandoned:
                leave()

    def reload(self) -> bool:
        """Take over what may change while it runs; whether it could be read."""
        return self._base is not None and self._base.reloads()

    def report(self) -> None:
        """Make a state report."""
        if self._base is not None:
            self._base.observation.report.ask()

    def _open(self, starting: contextlib.ExitStack) -> Any:
        """What the services stand on; ``starting`` closes it at the end."""
        base = self._open_base(self._conf, self._name)
        starting.callback(base.close)
        return base


def settle(forked: bool = False) -> None:
    """Freeze all existing objects: they are not collected any more.

    While a process loads there is hardly any garbage, and collecting takes a fifth of the time, so
    its start may have disabled the collector.

    :param forked: memory is shared with other processes until it is written to, and a collection
        writes to each object
    """
    if not forked:
        gc.collect()
    gc.freeze()
    gc.set_threshold(ALLOCATIONS, *gc.get_threshold()[1:])
    gc.enable()
