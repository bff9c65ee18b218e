"""The bus without a bus: schedulers and volume managers are called in this process.

Calls are answered at once. What would go on after an answer waits in `Work` until it is let go on,
so that a test sees both what was answered and what came of it, in a certain order.
"""
from collections import deque
from collections.abc import Callable
from typing import Any
from typing import cast

from blockattach import clock
from blockattach import context
from blockattach import errors
from blockattach.conf import scheduler as scheduler_conf
from blockattach.db import engine
from blockattach.objects import placement as placement_objects
from blockattach.rpc import processes
from blockattach.rpc import scheduler as scheduler_rpc
from blockattach.rpc import volume as volume_rpc
from blockattach.scheduler import facts
from blockattach.scheduler import filters
from blockattach.scheduler import flows
from blockattach.scheduler import placement
from blockattach.scheduler import pools
from blockattach.scheduler import weighers

DOWN_AFTER = 86400
"""Seconds: here nobody reports again by himself, and a test on a busy machine may take long."""


class Work:
    """What waits to go on, in the order in which it was asked for."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()

    def later(self, act: Callable[..., Any], *arguments: Any) -> None:
        """Let it wait."""
        self._waiting.append((act, arguments))

    def step(self) -> None:
        """Do what has waited longest; what follows from it waits."""
        if self._waiting:
            act, arguments = self._waiting.popleft()
            act(*arguments)

    def settle(self) -> None:
        """Do all that waits, and what follows from it."""
        while self._waiting:
            self.step()


class VolumeClients(volume_rpc.VolumeClients):
    """The volume managers by name. One that was not added is a host where nobody answers."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        """Every message that a bus would have carried: its interface and its method."""
        self._managers: dict[str, volume_rpc.VolumeInterface] = {}

    def add(self, host: str, manager: volume_rpc.VolumeInterface) -> None:
        """Let a manager serve ``host@backend``."""
        self._managers[host] = manager

    def remove(self, host: str) -> None:
        """Let nobody answer there any more."""
        del self._managers[host]

    def on(self, host: str) -> volume_rpc.VolumeInterface:
        """The manager of a host.

        :raises ServiceUnreachable: nobody answers there
        """
        if host not in self._managers:
            raise errors.ServiceUnreachable(topic=f'volume.{host}', seconds=0)
        return cast(volume_rpc.VolumeInterface, _Heard(self._managers[host], self.sent))


class _Heard:
    """A manager, each message to whom is noted."""

    def __init__(self, manager: volume_rpc.VolumeInterface, sent: list[str]) -> None:
        self._manager = manager
        self._sent = sent

    def __getattr__(self, name: str) -> Any:
        self._sent.append(f'volume {name}')
        return getattr(self._manager, name)


class Scheduler(scheduler_rpc.SchedulerClient):
    """The real scheduler, reached without a bus."""

    def __init__(self, database: engine.Database, managers: VolumeClients, work: Work,
                 time: clock.Clock,
                 settings: scheduler_conf.SchedulerSettings | None = None) -> None:
        settings = settings or scheduler_conf.SchedulerSettings()
        chooser = pools.PoolChooser(database, filters.load(settings.filters),
                                    weighers.load(settings.weighers), DOWN_AFTER, time,
                                    reader=facts.FactReader(database, settings.filters,
                                                            dict(settings.weighers)))
        self._placement = placement.Placement(
            database, flows.PlacingFlows(database, chooser, managers, settings))
        self._work = work
        self._managers = managers

    def create_volume(self, ctxt: context.RequestContext,
                      request: placement_objects.VolumeRequest) -> None:
        """Place a volume once work goes on."""
        self._managers.sent.append('scheduler create_volume')
        self._work.later(self._placement.place, ctxt, request.to_domain())

    def report_pools(self, ctxt: context.RequestContext,
                     report: placement_objects.PoolsReport) -> None:
        """Reports are read from the database each time; nothing waits for one here."""


class ProcessClients(processes.ProcessClients):
    """The processes by name: all of them are this one."""

    def __init__(self) -> None:
        pass

    def on(self, binary: str, host: str) -> processes.ProcessInterface:
        """This process."""
        return processes.ProcessEndpoint()
