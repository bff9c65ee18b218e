"""Places volumes: an engine of TaskFlow runs a flow for each (`blockattach.scheduler.steps`)."""
from oslo_log import log as oslo_log

from blockattach import context
from blockattach.conf import scheduler as scheduler_conf
from blockattach.db import engine
from blockattach.domain import pools
from blockattach.rpc import volume as volume_rpc
from blockattach.scheduler import pools as scheduler_pools

LOG = oslo_log.getLogger(__name__)


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

    def run(self, caller: context.RequestContext, request: pools.VolumeRequest) -> None:
        """Place the volume; `blockattach.scheduler.steps.build` says what is raised."""
        # Loaded for the first volume: TaskFlow and the graphs behind it are a fifth of a
        # scheduler, and a scheduler that has nothing to place needs none of it.
        from taskflow import engines
        from taskflow import exceptions
        from taskflow.listeners import logging as listeners

        from blockattach.scheduler import steps

        placing = engines.load(
            steps.build(self._database, self._chooser, self._managers, self._settings),
            store={'asked': steps.Asked(caller, request)}, engine='serial')
        with listeners.LoggingListener(placing, log=LOG):
            try:
                placing.run()
            except exceptions.WrappedFailure as wrapped:
                # Steps in their order: the earliest one's is of the last try, and ended it.
                raise next(iter(wrapped)).exception from wrapped
