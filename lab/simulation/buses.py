"""Bus of one simulated process, with or without a broker."""
from collections.abc import Callable
from typing import Any

from blockattach.platform.rpc import calling
from blockattach.platform.rpc import contract
from blockattach.platform.rpc import serving
from blockattach.platform.rpc import transport
from blockattach.storage.rpc import history
from lab.simulation import baton as batons
from lab.simulation import bus
from lab.simulation import direct


class SimulatedBus(transport.Bus):
    """Bus of one simulated process."""

    def __init__(self, process: batons.Process, broker: bus.Broker, touch: Callable[[str], None],
                 settings: Any, clock: Any, telemetry: Any, way: direct.Way) -> None:
        """
        :param touch: called before each effect that other processes can see
        :param way: messages that go directly, without the broker
        """
        super().__init__(None, settings, history.RELEASES, clock, telemetry=telemetry)
        self.process = process
        self.broker = broker
        self.touch = touch
        self.serializer = self._serializer
        self._way = way

    def client(self, interface: type[contract.Interface],
               server: str | None = None) -> calling.Client:
        topic = f'{self._settings.topic_prefix}-{interface.TOPIC}'
        by_broker, straight = bus.RpcClient(self, topic), direct.RpcClient(self, topic)
        return calling.Client(
            straight if self._way is direct.Way.ALL else by_broker, interface, server,
            self._settings, self._clock, lambda ctxt: None, self._telemetry, self._while_waiting,
            straight if self._way is direct.Way.CALLS else None)

    def server(self, endpoint: contract.Interface, host: str, threads: int | None = None,
               admit: serving.Admit = serving.at_once) -> Any:
        return bus.Server(self, f'{self._settings.topic_prefix}-{endpoint.TOPIC}', host,
                          serving.Exposed(endpoint, self._clock, self._telemetry))

    def close(self) -> None:
        pass
