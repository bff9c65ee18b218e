"""What a process stands on that is no part of block storage: settings, bus and clock, but not its
database.
"""
import dataclasses
from collections.abc import Callable
from typing import Any

from oslo_config import cfg

from blockattach import clock
from blockattach.conf import health as health_conf
from blockattach.conf import locations
from blockattach.conf import rpc as rpc_conf
from blockattach.health import monitor
from blockattach.rpc import transport
from blockattach.telemetry import acts
from blockattach.telemetry import threads as waiting
from blockattach.wiring import dependencies
from blockattach.wiring import observation


@dataclasses.dataclass(frozen=True, slots=True)
class Outside:
    """Shared by all services of such a process."""

    conf: cfg.ConfigOpts
    bus: transport.Bus
    monitor: monitor.Monitor
    reloads: dependencies.Reloads
    observation: observation.Observation
    clock: clock.Clock
    threads: waiting.Threads = dataclasses.field(default_factory=waiting.Threads)
    abandoned: list[Callable[[], None]] = dataclasses.field(default_factory=list)

    @property
    def telemetry(self) -> acts.Telemetry:
        """The telemetry of this process."""
        return self.observation.telemetry

    def close(self) -> None:
        """Close connections; the services have stopped."""
        self.bus.close()


def open_outside(conf: cfg.ConfigOpts, process: str, **more: Any) -> Outside:
    """Open the bus as configured.

    :param process: what the process is called
    :raises ConfigurationError: something must be configured differently, or is not there
    """
    time = clock.Clock()
    observed = observation.Observation(process, conf, time)
    opened, broker = dependencies.open_bus(conf, True, 'DEFAULT', 'transport_url')
    with locations.named(conf, rpc_conf.GROUP, 'release'):
        bus = transport.Bus(opened, rpc_conf.settings(conf), time, telemetry=observed.telemetry)
    threads = waiting.Threads()
    reloads = dependencies.Reloads(conf)
    watching = monitor.Monitor(process, health_conf.settings(conf, process), time, threads.begin)
    watching.add('bus', broker.wrong)
    reloads.add(lambda: watching.every(health_conf.settings(conf, process).interval))
    observed.watch(broker, watching)
    return Outside(conf, bus, watching, reloads, observed, time, threads, **more)
