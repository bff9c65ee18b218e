"""Choose a pool: every pool gets a reason against it or a score, and the answer keeps them all.

Pure: what filters and weighers are in use, and what the pools last reported, is handed in.
"""
import dataclasses
import functools
import math
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import NamedTuple

from blockattach import errors
from blockattach.domain import placement
from blockattach.domain import pools

Weigher = Callable[[pools.VolumeRequest, pools.Pool], float]
"""Measures a pool in any unit; ``inf`` where it cannot be measured: such a pool ranks last."""


class Weighing(NamedTuple):
    """A weigher in use: what it measures, from 0 to 1 over all pools, counts so many times."""

    weigher: Weigher
    multiplier: float


@dataclasses.dataclass(frozen=True)
class Choice:
    """Every pool: those that will do first, best before next best, then the others by name."""

    verdicts: tuple[placement.Verdict, ...]

    @property
    def accepted(self) -> tuple[pools.Pool, ...]:
        """The pools that will do, best first."""
        return tuple(verdict.pool for verdict in self.verdicts if verdict.reason is None)

    @functools.cached_property
    def reasons(self) -> dict[str, str]:
        """Why not, by the names of the pools that were refused."""
        return {verdict.pool.name: verdict.reason for verdict in self.verdicts
                if verdict.reason is not None}


def choose(request: pools.VolumeRequest, candidates: Iterable[pools.Pool],
           filters: Mapping[str, placement.Filter], weighers: Sequence[Weighing]) -> Choice:
    """Judge every pool for a volume.

    :param filters: by name, in the order in which they are asked
    """
    judged = [placement.judge(request, pool, filters) for pool in candidates]
    fit = [verdict for verdict in judged if verdict.reason is None]
    scores = _scores(request, [verdict.pool for verdict in fit], weighers)
    ranked = sorted((dataclasses.replace(verdict, score=score)
                     for verdict, score in zip(fit, scores, strict=True)),
                    key=lambda verdict: (-verdict.score, verdict.pool.name))
    refused = sorted((verdict for verdict in judged if verdict.reason is not None),
                     key=lambda verdict: verdict.pool.name)
    return Choice((*ranked, *refused))


def no_valid_pool(request: pools.VolumeRequest, reasons: dict[str, str],
                  headline: str | None = None) -> errors.NoValidPool:
    """Nothing will do: an error that carries why, for the user and for the log."""
    summary = placement.summarise(reasons)
    return errors.NoValidPool(
        volume_id=request.volume_id, generation=request.generation, reasons=reasons,
        summary=summary if headline is None else f'{headline}: {summary}')


def _scores(request: pools.VolumeRequest, fit: Sequence[pools.Pool],
            weighers: Sequence[Weighing]) -> list[float]:
    totals = [0.0] * len(fit)
    for weigher, multiplier in weighers:
        measures = [weigher(request, pool) for pool in fit]
        for index, share in enumerate(_normalised(measures, multiplier)):
            totals[index] += share * multiplier
    return totals


def _normalised(measures: Sequence[float], multiplier: float) -> list[float]:
    """From 0 for the least to 1 for the most; all alike: 0. The unmeasurable end up worst."""
    finite = [measure for measure in measures if math.isfinite(measure)]
    if not finite:
        return [0.0] * len(measures)
    worst = min(finite) - 1 if multiplier > 0 else max(finite) + 1
    known = [measure if math.isfinite(measure) else worst for measure in measures]
    least, span = min(known), max(known) - min(known)
    return [(measure - least) / span if span else 0.0 for measure in known]
