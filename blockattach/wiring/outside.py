"""Shared dependencies of the compute processes, which do not use the block storage database."""
import dataclasses
from collections.abc import Callable

import oslo_messaging
from oslo_config import cfg

from blockattach.platform import clock
from blockattach.platform import errors
from blockattach.platform.conf import core as core_conf
from blockattach.platform.conf import health as health_conf
from blockattach.platform.conf import locations
from blockattach.platform.conf import rpc as rpc_conf
from blockattach.platform.health import monitor
from blockattach.platform.rpc import rabbit
from blockattach.platform.rpc import transport
from blockattach.platform.telemetry import acts
from blockattach.platform.telemetry import threads as waiting
from blockattach.storage.rpc import history
from blockattach.wiring import configuration
from blockattach.wiring import observation


@dataclasses.dataclass(frozen=True, slots=True)
class Outside:
    """Dependencies that all services of a compute process share."""

    conf: cfg.ConfigOpts
    bus: transport.Bus
    monitor: monitor.Monitor
    reloads: configuration.Reloads
    observation: observation.Observation
    clock: clock.Clock
    threads: waiting.Threads = dataclasses.field(default_factory=waiting.Threads)
    abandoned: list[Callable[[], None]] = dataclasses.field(default_factory=list)

    @property
    def telemetry(self) -> acts.Telemetry:
        return self.observation.telemetry

    def close(self) -> None:
        """Close all connections. The services must be stopped before."""
        self.bus.close()


def open_outside(conf: cfg.ConfigOpts, process: str) -> Outside:
    """Create the state folder, open the bus, and build the dependencies of a compute process.

    :param process: name of the process
    :raises ConfigurationError: an option is invalid, or a dependency is not available
    """
    with locations.named(conf, 'DEFAULT', 'state_path'):
        configuration.make_state_path(core_conf.settings(conf))
    time = clock.Clock()
    observed = observation.Observation(process, conf, time)
    opened, broker = open_bus(conf, True, 'DEFAULT', 'transport_url')
    with locations.named(conf, rpc_conf.GROUP, 'release'):
        bus = transport.Bus(opened, rpc_conf.settings(conf), history.RELEASES, time,
                            telemetry=observed.telemetry)
    threads = waiting.Threads()
    reloads = configuration.Reloads(conf)
    watching = monitor.Monitor(process, health_conf.settings(conf, process), time, threads.begin)
    watching.add('bus', broker.wrong)
    watching.add('files', reloads.wrong, hinders=False)
    reloads.add(lambda: watching.every(health_conf.settings(conf, process).interval))
    observed.watch(broker, watching)
    return Outside(conf, bus, watching, reloads, observed, time, threads)


def open_bus(conf: cfg.ConfigOpts, need_broker: bool, group: str, option: str,
              url: str | None = None) -> tuple[oslo_messaging.Transport, transport.BrokerProbe]:
    """Open a transport of oslo.messaging, and return it with the health check of its broker.

    :param need_broker: True to raise an error if the broker is down
    :param group: group of the option with the URL
    :param option: name of the option with the URL, for error texts
    :param url: URL of the transport, or None for the value of ``transport_url``
    :raises ConfigurationError: the URL is invalid, or ``need_broker`` is True and the broker is
        down
    """
    with locations.named(conf, group, option):
        opened = transport.build_transport(conf, url, option)
        broker = transport.BrokerProbe(conf, opened, rpc_conf.settings(conf), url)
        wrong = broker.wrong() if need_broker else None
        if wrong is not None:
            setting = rabbit.option_in(conf, wrong)
            if setting is not None:
                raise locations.refusal(conf, rabbit.GROUP, setting, wrong)
            raise errors.ConfigurationError(reason=wrong)
    return opened, broker
