"""Handler of the RPC calls that a scheduler receives."""
import math
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from blockattach.platform import context
from blockattach.storage import objects
from blockattach.storage.domain import placement as domain_placement
from blockattach.storage.rpc import scheduler as scheduler_rpc
from blockattach.storage.scheduler import pipeline
from blockattach.storage.scheduler import placement
from blockattach.storage.scheduler import waiting


class SchedulerEndpoint(scheduler_rpc.SchedulerInterface):
    """RPC endpoint of a scheduler. Any scheduler can process any call."""

    def __init__(self, placement: placement.Placement, waiting: waiting.WaitingVolumes,
                 chooser: pipeline.PoolChooser) -> None:
        self._placement = placement
        self._waiting = waiting
        self._chooser = chooser

    def place_volume(self, ctxt: context.RequestContext,
                     request: objects.VolumeRequest) -> None:
        self._placement.place(ctxt, request.to_domain())

    def report_pools(self, ctxt: context.RequestContext,
                     report: objects.PoolsReport) -> None:
        """Place waiting volumes, because a backend has reported its pools."""
        self._waiting.look()

    def judge_pools(self, ctxt: context.RequestContext, request: objects.VolumeRequest,
                    volume_type_id: str) -> Sequence[Mapping[str, Any]]:
        """Evaluate all pools for a volume without placing the volume."""
        choice = self._chooser.would_choose(request.to_domain(), volume_type_id,
                                            ctxt.project_id, ctxt.user_id)
        return [_shown(verdict) for verdict in choice.verdicts]


def _shown(verdict: domain_placement.Verdict) -> dict[str, Any]:
    left_gb = domain_placement.left_gb(verdict.pool)
    # JSON has no infinity.
    return {'name': verdict.pool.name, 'left_gb': left_gb if math.isfinite(left_gb) else None,
            'score': verdict.score, 'refused_by': verdict.refused_by,
            'reason': None if verdict.reason is None else str(verdict.reason)}
