"""Places volumes, each thread one after the other by a flow of its own.

A flow (`blockattach.scheduler.steps`) is put together once: TaskFlow reads the signatures of all
its steps for that, which takes as long as placing a volume does.
"""
import threading

from blockattach import context
from blockattach.conf import scheduler as scheduler_conf
from blockattach.db import engine
from blockattach.domain import pools
from blockattach.rpc import volume as volume_rpc
from blockattach.scheduler import pools as scheduler_pools


class PlacingFlows:
    """Runs the flow for one volume with what all of them share."""

    def __init__(self, database: engine.Database, chooser: scheduler_pools.PoolChooser,
                 managers: volume_rpc.VolumeClients,
                 settings: scheduler_conf.SchedulerSettings) -> None:
        self.telemetry = chooser.telemetry
        self._database = database
        self._chooser = chooser
        self._managers = managers
        self._settings = settings
        self._of_thread = threading.local()

    def run(self, caller: context.RequestContext, request: pools.VolumeRequest) -> None:
        """Place the volume; raises as `blockattach.scheduler.steps.build` says."""
        # Loaded for the first volume: TaskFlow and the graphs behind it are a fifth of a
        # scheduler, and a scheduler that has nothing to place needs none of it.
        from blockattach.flows import runner
        from blockattach.scheduler import steps

        flow = getattr(self._of_thread, 'flow', None)
        if flow is None:
            flow = self._of_thread.flow = steps.build(steps.Tools(
                self._database, self._chooser, self._managers, self._settings))
        runner.run(flow, {'asked': steps.Asked(caller, request)})
