"""What other processes may ask of a scheduler."""
import math
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from blockattach.platform import context
from blockattach.storage.domain import placement as domain_placement
from blockattach.storage.objects import placement as placement_objects
from blockattach.storage.rpc import scheduler as scheduler_rpc
from blockattach.storage.scheduler import pipeline
from blockattach.storage.scheduler import placement
from blockattach.storage.scheduler import waiting


class SchedulerEndpoint(scheduler_rpc.SchedulerInterface):
    """Answers for one scheduler; all of them are equal."""

    def __init__(self, placement: placement.Placement, waiting: waiting.WaitingVolumes,
                 chooser: pipeline.PoolChooser) -> None:
        self._placement = placement
        self._waiting = waiting
        self._chooser = chooser

    def place_volume(self, ctxt: context.RequestContext,
                     request: placement_objects.VolumeRequest) -> None:
        """Find a pool for a volume and hand it over."""
        self._placement.place(ctxt, request.to_domain())

    def report_pools(self, ctxt: context.RequestContext,
                     report: placement_objects.PoolsReport) -> None:
        """A backend has come: what waits for one is placed now."""
        self._waiting.look()

    def judge_pools(self, ctxt: context.RequestContext, request: placement_objects.VolumeRequest,
                    volume_type_id: str) -> Sequence[Mapping[str, Any]]:
        """What would be found on each pool."""
        choice = self._chooser.would_choose(request.to_domain(), volume_type_id,
                                            ctxt.project_id, ctxt.user_id)
        return [_shown(verdict) for verdict in choice.verdicts]


def _shown(verdict: domain_placement.Verdict) -> dict[str, Any]:
    left_gb = domain_placement.left_gb(verdict.pool)
    return {'name': verdict.pool.name, 'left_gb': left_gb if math.isfinite(left_gb) else None,
            'score': verdict.score, 'refused_by': verdict.refused_by,
            'reason': None if verdict.reason is None else str(verdict.reason)}
